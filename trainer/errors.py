"""Errors that a person can act on: the command line prints them without a traceback."""

from collections.abc import Sequence


class TrainerError(Exception):
    """Something a user can mend; the message names the thing, what is wrong and what to do."""

    exit_code = 1


class ConfigError(TrainerError):
    """A configuration that cannot be run. Lists every problem at once, not only the first."""

    exit_code = 2

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        count = len(self.problems)
        head = "1 problem" if count == 1 else f"{count} problems"
        super().__init__(
            "\n".join([f"{head} in the configuration:"] + [f"  - {p}" for p in self.problems])
        )


class DataError(TrainerError):
    """A data set that cannot be trained on: missing, damaged, or not what its manifest says."""

    exit_code = 3


class CheckpointError(TrainerError):
    """A checkpoint or a run folder that cannot be continued from."""

    exit_code = 4


class SupersededError(CheckpointError):
    """A later attempt of the same run has begun, so this one may change nothing any more."""


class NonFiniteError(TrainerError):
    """The loss or a gradient became infinite or not a number."""

    exit_code = 5


class PeerError(TrainerError):
    """Another rank ended, so this one cannot go on; the cause is in that rank's log."""

    exit_code = 6


WATCHDOG_EXIT_CODE = 7
"""Of a rank that its watchdog has ended; no error is raised, as what hangs can catch none."""
