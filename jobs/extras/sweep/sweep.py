"""Sweeps of Azure Machine Learning over options of the trainer, on one shape of job. Pure.

A sweep starts one job, a trial, for each combination of values. Its values are put into the command
line only, so the number of nodes cannot vary.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import product
from math import prod
from typing import Final

from common import fields
from common.errors import ConfigError
from jobs.errors import SpecError
from jobs.options import ServiceOptions
from jobs.spec.job_spec import JobSpec
from trainer.config import DEVICE_KEYS, TrainConfig
from trainer.presets import parse_train, to_args

_FIXED: Final = (
    *("preset", "name", "runs_dir", "resume", "ranks", "restarts", "max_seconds"),
    *DEVICE_KEYS,
)
"""Options that identify a run, or that the job decides, or that decide the job's processes."""


@dataclass(frozen=True)
class Trial:
    """One combination of values."""

    number: int
    """Number among all trials, from 1."""
    flags: tuple[str, ...]
    """Options of the trainer, with their values."""

    def name_in(self, sweep: str) -> str:
        """Return the key of the trial as a run. It depends on the values, so that a sweep of other
        values has other runs, and the same sweep finds those that it has.
        """
        return f"{sweep}-{self.number}-{sha256(' '.join(self.flags).encode()).hexdigest()[:4]}"


@dataclass(frozen=True)
class Sweep:
    """The options that a sweep varies."""

    values: Mapping[str, tuple[str, ...]]
    """Values by the option's flag, such as --optimizer.learning-rate."""
    metric: str = ""
    """Metric that is compared, by the name under which the trainer logs it to MLflow."""

    @property
    def trials(self) -> int:
        """Number of combinations."""
        return prod(map(len, self.values.values()))

    @property
    def all_trials(self) -> list[Trial]:
        """All combinations, the values of the last option changing first."""
        pairs = [[(flag, value) for value in values] for flag, values in self.values.items()]
        return [
            Trial(number, tuple(text for pair in chosen for text in pair))
            for number, chosen in enumerate(product(*pairs), 1)
        ]

    @property
    def space(self) -> dict[str, tuple[str, ...]]:
        """Values by the name of the parameter, which Azure limits to letters, digits and _."""
        return {_parameter(flag): values for flag, values in self.values.items()}

    def command(self, spec: JobSpec) -> str:
        """Return the command line of every trial.

        The last value of an option applies. Each trial is a run of its own, named by its job.

        Raises:
            SpecError: The job does not train, or has services, which trials cannot have.
        """
        if spec.kind not in ("train", "smoke"):
            raise SpecError([f"--kind: a sweep varies a job that trains, not a {spec.kind}"])
        if spec.services != ServiceOptions():
            raise SpecError(["--services: trials of a sweep have no services; omit them"])
        varied = [f"{flag} ${{{{search_space.{_parameter(flag)}}}}}" for flag in self.values]
        return " ".join([spec.command, *varied, '--name "$AZUREML_RUN_ID"'])


def read_sweep(texts: Sequence[str], config: TrainConfig) -> Sweep:
    """Read the options that a sweep varies.

    Args:
        texts: Each OPTION=VALUE,VALUE,... with an option of the trainer.
        config: Configuration of the trials, apart from these options.

    Raises:
        ConfigError: An option or a value is invalid; lists all problems.
    """
    flags = {leaf.flag: leaf.key for leaf in fields.leaves(TrainConfig)}
    values: dict[str, tuple[str, ...]] = {}
    problems = []
    for text in texts:
        name, _, listed = text.partition("=")
        flag, given = f"--{name.removeprefix('--')}", tuple(listed.split(","))
        if flags.get(flag, "name") in _FIXED:
            problems.append(f"{flag}: is not an option of the trainer that a sweep can vary")
        elif len(set(given)) < 2 or len(set(given)) < len(given) or "" in given:
            problems.append(f"{text!r} must be OPTION=VALUE,VALUE with different values")
        elif flag in values:
            problems.append(f"{flag}: is given twice")
        else:
            values[flag] = given
            problems += _refused(config, flag, given)
    if problems:
        raise ConfigError(problems)
    return Sweep(values, f"evaluation/{config.metric.key}")


def _refused(config: TrainConfig, flag: str, values: Sequence[str]) -> list[str]:
    """Return why the trainer would refuse values."""
    problems = []
    for value in values:
        try:
            parse_train([*to_args(config), flag, value])
        except ConfigError as error:
            problems += [f"{flag} {value}: {problem}" for problem in error.problems]
    return problems


def _parameter(flag: str) -> str:
    return flag.removeprefix("--").replace(".", "_").replace("-", "_")
