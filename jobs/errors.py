"""Errors that a person can act on: the command line prints them without a traceback."""

from collections.abc import Sequence


class JobsError(Exception):
    """Something a user can mend; the message names the thing, what is wrong and what to do."""

    exit_code = 1


class SpecError(JobsError):
    """A job that could not run as asked. Lists every problem at once, not only the first."""

    exit_code = 2

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        head = "1 problem" if len(self.problems) == 1 else f"{len(self.problems)} problems"
        super().__init__("\n".join([f"{head} in the job:", *(f"  - {p}" for p in self.problems)]))


class SnapshotError(JobsError):
    """Files that a code snapshot or an image is made of, and that are missing or not files."""

    exit_code = 3
