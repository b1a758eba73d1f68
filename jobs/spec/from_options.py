"""What a person asks to be run: options of the command line into a JobSpec."""

import secrets
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

from common.errors import UserError
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

REPOSITORY: Final = Path(__file__).resolve().parents[2]

_PRESET: Final = {"smoke": "digits", "benchmark": "synthetic"}


@dataclass(frozen=True)
class RunOptions(JobOptions):
    """What to run, and how."""

    kind: Literal["train", "smoke", "benchmark", "check"] = "train"
    """train; smoke: a training on CPUs with data of its own; benchmark: images/s without reading
    any; check: bandwidth of the network and of the data, before an expensive job."""

    preset: str | None = None
    """Where the trainer's options start from, such as imagenet-ndv2; `python -m trainer train
    --help` shows them all. None is digits for a smoke test and synthetic for a benchmark."""

    name: str | None = None
    """Key of the run, which names its jobs and its folder; None is preset, time and a few letters.
    The key of a run that has ended goes on from its newest checkpoint."""


def read_config(options: RunOptions, program: tuple[str, ...]) -> TrainConfig | None:
    """The training's configuration: the preset, and the trainer's options over it; None for a
    check, which trains nothing. A training whose data set is named reads that one, whatever the
    preset reads.

    Raises:
        ConfigError: with every unknown option, unreadable value and contradiction.
        UserError: no preset is named.
    """
    if options.kind == "check":
        if program:
            raise UserError(f"{program[0]}: a check has no options of the trainer; leave it out")
        return None
    preset = options.preset or _PRESET.get(options.kind)
    if preset is None:
        raise UserError(f"--preset: name what to train: {', '.join(PRESETS)}")
    data = []
    if options.kind == "train" and (options.data.asset or options.data.path):
        data = _of_platform(preset, program)
    return parse_train(["--preset", preset, *data, *program])


def _of_platform(preset: str, program: tuple[str, ...]) -> list[str]:
    """Options by which a preset that reads something else reads a data set of the platform."""
    words = " ".join(program).replace("=", " ").split()
    said = words[words.index("--data.source") + 1 :] if "--data.source" in words else []
    if said[:1] not in ([], ["tfrecords"]):
        # It contradicts the data set, which is told where both are known.
        return []
    if preset not in PRESETS or PRESETS[preset].data.source == "tfrecords":
        return []
    return ["--data.source", "tfrecords", "--data.dir", kinds.DATA]


@dataclass(frozen=True)
class Software:
    """Images and code of the repository as they were when they were read."""

    gpu: BuildContext
    cpu: BuildContext
    code: CodeSnapshot

    @property
    def versions(self) -> SoftwareVersions:
        """By which a job names them."""
        return SoftwareVersions(self.gpu.reference, self.cpu.reference, self.code.digest)

    def image(self, spec: JobSpec) -> BuildContext:
        """The image that a job runs in."""
        return self.gpu if spec.cluster.gpus_per_node else self.cpu


def read_software() -> Software:
    """Read images and code of the repository.

    Raises:
        SnapshotError: something of them is missing.
    """
    return Software(
        gpu=build_context(REPOSITORY, "gpu"),
        cpu=build_context(REPOSITORY, "cpu"),
        code=read_snapshot(REPOSITORY),
    )


def first_attempt(options: RunOptions) -> RunAttempt:
    """Of the run that the options name, or of a new one."""
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
    """The job of one attempt.

    Raises:
        SpecError: with all reasons why it could not run as asked.
    """
    if config is None:
        return kinds.check(outputs, options, attempt, software)
    makers = {"smoke": kinds.smoke, "benchmark": kinds.benchmark}
    return makers.get(options.kind, kinds.train)(outputs, config, options, attempt, software)


def check_attempt(run: str) -> RunAttempt:
    """The check that comes before a run."""
    return RunAttempt(f"{run}-check")


def check_spec(
    outputs: PlatformOutputs, options: RunOptions, attempt: RunAttempt, software: SoftwareVersions
) -> JobSpec:
    """The check of the same nodes and data before an expensive job.

    Args:
        outputs: of the stack.
        options: of the expensive job.
        attempt: of the check.
        software: images and code.
    """
    return kinds.check(outputs, replace(options, timeout_hours=None), attempt, software)
