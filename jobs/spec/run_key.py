"""What a run is called through all of its attempts. Pure.

A run keeps one key, and with it one folder of checkpoints, however often Azure takes its nodes
away. Each attempt is a job of its own, named after the key, so that two who supervise the same run
ask for the same job and not for two.
"""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Self

from jobs.errors import SpecError

KEY = r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}"
"""What both take: a job's name (Azure's REST definitions: 255 of these characters, the suffix of
the attempt included) and the trainer's, which ends at 100."""

MAX_ATTEMPTS = 99

_NAME = re.compile(rf"({KEY}?)-r([1-9][0-9]?)")


@dataclass(frozen=True)
class RunAttempt:
    """One job of a run.

    Raises:
        SpecError: the key or the number has another form.
    """

    run: str
    """Key of the run."""
    number: int = 1
    """From 1 to `MAX_ATTEMPTS`."""

    def __post_init__(self) -> None:
        problems = key_problems(self.run)
        if not 1 <= self.number <= MAX_ATTEMPTS:
            problems.append(f"attempt: {self.number} must be from 1 to {MAX_ATTEMPTS}")
        if problems:
            raise SpecError(problems)

    @property
    def name(self) -> str:
        """Of the job."""
        return f"{self.run}-r{self.number}"

    @property
    def display_name(self) -> str:
        """Of the job, for people."""
        return f"{self.run}, attempt {self.number}"

    @property
    def folder(self) -> str:
        """Of the run, below the container of results; the same for all attempts."""
        return f"runs/{self.run}"

    @property
    def tags(self) -> dict[str, str]:
        return {"run": self.run, "attempt": str(self.number)}

    def following(self) -> Self:
        """The attempt after this one."""
        return type(self)(self.run, self.number + 1)


def attempt_of(name: str) -> RunAttempt | None:
    """The attempt that a job is; None for a job that is not named by this module."""
    match = _NAME.fullmatch(name)
    return RunAttempt(match[1], int(match[2])) if match and not key_problems(match[1]) else None


def run_of(name: str) -> str:
    """Key of the run that a name stands for: that of a run, or of one of its jobs."""
    attempt = attempt_of(name)
    return attempt.run if attempt else name


def new_key(preset: str, when: datetime, token: str) -> str:
    """A key for a run that was not given a name.

    Args:
        preset: what the run's configuration started from.
        when: when it is submitted.
        token: a few random letters or digits, so that two runs of one second stay apart.
    """
    return f"{preset}-{when:%Y%m%d-%H%M%S}-{token}"


def key_problems(key: str) -> list[str]:
    """What keeps a text from being the key of a run; empty when nothing does."""
    if not re.fullmatch(KEY, key):
        return [
            f"--name: {key!r} must be letters, digits, '_' and '-' (at most 100, the first a letter"
            " or digit), as it names jobs of Azure Machine Learning"
        ]
    attempt = _NAME.fullmatch(key)
    if attempt:
        return [f"--name: {key!r} is the name of an attempt; its run is {attempt[1]!r}"]
    if key == "latest":
        return ["--name: 'latest' points to the newest run of a folder; take another name"]
    return []
