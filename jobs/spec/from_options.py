"""Build a JobSpec from the options of the command line."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal, TypeVar

from common import fields
from common.errors import ConfigError
from infra.outputs import PlatformOutputs
from jobs.options import JobOptions
from jobs.spec import kinds
from jobs.spec.build_context import BuildContext, build_context
from jobs.spec.builder import SoftwareVersions
from jobs.spec.code_snapshot import CodeSnapshot, read_snapshot
from jobs.spec.job_spec import JobSpec
from jobs.spec.run_key import RunAttempt, new_key
from trainer.config import TrainConfig
from trainer.presets import PRESETS, parse_train

_Options = TypeVar("_Options", bound="RunOptions")

REPOSITORY: Final = Path(__file__).resolve().parents[2]

_OF_TRAINER: Final = "is an option of the trainer; put it after `--` (with `make train`: into ARGS)"
_OF_JOB: Final = "is an option of the job; put it before `--` (with make: into JOB_ARGS)"
_PRESET: Final = {"smoke": "digits", "benchmark": "synthetic"}


@dataclass(frozen=True)
class RunOptions(JobOptions):
    """What to run, and how."""

    kind: Literal["train", "smoke", "benchmark", "check"] = "train"
    """train: a run to its last step; smoke: a short run with built-in data; benchmark: images/s on
    synthetic data, or on the data set that is named; check: bandwidth of the network and of reading
    data, before an expensive job."""

    preset: str | None = None
    """Preset of the trainer, such as imagenet-ndv2; `ml-trainer train --help` lists them.
    None is digits for a smoke test and synthetic for a benchmark."""

    name: str | None = None
    """Key of the run, which names its jobs and its folder; None is the preset, the time and random
    letters. With the key of a run that has ended, resume that run from its newest checkpoint."""

    def check(self, program: tuple[str, ...]) -> None:
        """Check the options together with the trainer's: see `read_config`."""
        read_config(self, program)


def read_config(options: RunOptions, program: tuple[str, ...]) -> TrainConfig | None:
    """Read the training's configuration: the preset, overridden by the trainer's options; None for
    a check, which does not train. If the options name a data set, the training reads it even if the
    preset has another source.

    Raises:
        ConfigError: An option is unknown, a value invalid, or options contradict each other.
    """
    if options.kind == "check":
        if program:
            raise ConfigError([f"{program[0]}: a check has no options of the trainer; omit it"])
        return None
    preset = options.preset or _PRESET.get(options.kind)
    if preset is None:
        raise ConfigError([f"--preset: is missing; choose from {', '.join(PRESETS)}"])
    data = []
    if options.kind in ("train", "benchmark") and (options.data.asset or options.data.path):
        data = _of_platform(preset, program)
    job = {leaf.flag: _OF_JOB for leaf in fields.leaves(type(options)) if leaf.positional is None}
    return parse_train(["--preset", preset, *data, *program], elsewhere=job)


def trainer_options() -> Mapping[str, str]:
    """Return the options of the trainer, each with the clause where a job's command has them."""
    return {leaf.flag: _OF_TRAINER for leaf in fields.leaves(TrainConfig)}


def _of_platform(preset: str, program: tuple[str, ...]) -> list[str]:
    """Return the options that make a preset with another source read the platform's data set."""
    words = " ".join(program).replace("=", " ").split()
    said = words[words.index("--data.source") + 1 :] if "--data.source" in words else []
    if said[:1] not in ([], ["tfrecords"]):
        # This contradicts the data set; `jobs.spec.kinds` reports it.
        return []
    if preset not in PRESETS or PRESETS[preset].data.source == "tfrecords":
        return []
    return ["--data.source", "tfrecords", "--data.dir", kinds.DATA]


@dataclass(frozen=True)
class Software:
    """Images and code of the repository at the time they were read."""

    gpu: BuildContext
    cpu: BuildContext
    code: CodeSnapshot

    @property
    def versions(self) -> SoftwareVersions:
        """Versions of images and code, for a job."""
        return SoftwareVersions(self.gpu.reference, self.cpu.reference, self.code.digest)

    def image(self, spec: JobSpec) -> BuildContext:
        """Return the build context of the image that a job runs in."""
        return self.gpu if spec.cluster.gpus_per_node else self.cpu


def read_software(config: TrainConfig | None = None) -> Software:
    """Read images and code of the repository.

    Args:
        config: Configuration of the training, whose own network is part of its code.

    Raises:
        SnapshotError: A file is missing.
    """
    return Software(
        gpu=build_context(REPOSITORY, "gpu"),
        cpu=build_context(REPOSITORY, "cpu"),
        code=read_snapshot(REPOSITORY, config.model.builder if config else None),
    )


def with_own_key(options: _Options, home: Path) -> _Options:
    """Return the options with the user's public key, if they ask for `--debug` and name no key."""
    if options.debug == "no" or options.services.ssh_public_key is not None:
        return options
    for name in ("id_ed25519", "id_ecdsa", "id_rsa"):
        file = home / ".ssh" / f"{name}.pub"
        if file.is_file():
            services = replace(options.services, ssh_public_key=file.read_text().strip())
            return replace(options, services=services)
    return options


def first_attempt(options: RunOptions) -> RunAttempt:
    """Return the first attempt of the run that the options name, or of a new run."""
    preset = options.preset or _PRESET.get(options.kind) or options.kind
    label = preset if options.kind in ("train", "check") else f"{options.kind}-{preset}"
    return RunAttempt(options.name or new_key(label, datetime.now(UTC), secrets.token_hex(2)))


def make_spec(
    outputs: PlatformOutputs,
    options: RunOptions,
    config: TrainConfig | None,
    attempt: RunAttempt,
    software: SoftwareVersions,
) -> JobSpec:
    """Build the job of one attempt.

    Raises:
        SpecError: The job could not run with these options; lists all reasons.
    """
    if config is None or options.kind == "check":
        return kinds.check(outputs, options, attempt, software)
    return kinds.train(outputs, config, options, attempt, software, options.kind)


def check_spec(
    outputs: PlatformOutputs, options: RunOptions, attempt: RunAttempt, software: SoftwareVersions
) -> JobSpec:
    """Build the check of an expensive job's nodes and data."""
    short = replace(options, timeout_hours=None, hold_on_failure=None, debug="no")
    return kinds.check(outputs, short, attempt, software)
