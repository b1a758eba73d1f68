"""Names of runs and their attempts. Pure.

A run keeps one key, and with it one folder of checkpoints, however often its nodes are pre-empted.
Each attempt is a job named after the key and its number, so that two supervisors of the same run
submit the same job instead of two.
"""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Self

from infra.outputs import RUNS_FOLDER
from jobs.errors import SpecError

KEY = r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}"
"""Pattern of a key, valid both in a job's name (Azure's REST definitions: 255 of these characters,
including the suffix of the attempt) and as the trainer's name of a run (at most 100)."""

MAX_ATTEMPTS = 99

_NAME = re.compile(rf"({KEY}?)-r([1-9][0-9]?)")


@dataclass(frozen=True)
class RunAttempt:
    """One job of a run.

    Raises:
        SpecError: The key or the number is invalid.
    """

    run: str
    """Key of the run."""
    number: int = 1
    """Number of the attempt, from 1 to `MAX_ATTEMPTS`."""

    def __post_init__(self) -> None:
        problems = key_problems(self.run)
        if not 1 <= self.number <= MAX_ATTEMPTS:
            problems.append(f"attempt: {self.number} must be from 1 to {MAX_ATTEMPTS}")
        if problems:
            raise SpecError(problems)

    @property
    def name(self) -> str:
        """Name of the job."""
        return f"{self.run}-r{self.number}"

    @property
    def display_name(self) -> str:
        """Display name of the job."""
        return f"{self.run}, attempt {self.number}"

    @property
    def folder(self) -> str:
        """Folder of the run in the container of results, the same for all attempts."""
        return f"{RUNS_FOLDER}/{self.run}"

    @property
    def tags(self) -> dict[str, str]:
        return {"run": self.run, "attempt": str(self.number)}

    def following(self) -> Self:
        """Return the next attempt."""
        return type(self)(self.run, self.number + 1)


def attempt_of(name: str) -> RunAttempt | None:
    """Parse the name of a job; None for a name that is not from this module."""
    match = _NAME.fullmatch(name)
    return RunAttempt(match[1], int(match[2])) if match and not key_problems(match[1]) else None


def run_of(name: str) -> str:
    """Return the key of a run, given the key or the name of one of its jobs."""
    attempt = attempt_of(name)
    return attempt.run if attempt else name


def new_key(preset: str, when: datetime, token: str) -> str:
    """Create a key for a run without a name.

    Args:
        preset: Preset of the run's configuration.
        when: Time of the submission.
        token: Random letters or digits that distinguish runs of the same second.
    """
    return f"{preset}-{when:%Y%m%d-%H%M%S}-{token}"


def key_problems(key: str) -> list[str]:
    """Return why a text is not a valid key of a run; empty if it is valid."""
    if not re.fullmatch(KEY, key):
        return [
            f"--name: {key!r} must be at most 100 letters, digits, '_' and '-', the first a letter"
            " or digit, as Azure Machine Learning requires of a job's name"
        ]
    attempt = _NAME.fullmatch(key)
    if attempt:
        return [
            f"--name: {key!r} is the name of an attempt; pass the key of its run, {attempt[1]!r}"
        ]
    if key == "latest":
        return ["--name: 'latest' is reserved for the newest run of a folder; choose another name"]
    return []
