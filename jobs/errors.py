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


class PlatformReadError(JobsError):
    """Outputs of a stack that could not be read: no Pulumi, no login, no such stack, no file."""

    exit_code = 4


class NotDeployedError(PlatformReadError):
    """A stack that exports nothing: it was never deployed to its end, or was taken down."""


class LockedError(JobsError):
    """A stack that somebody changes now, or whose change was killed."""


class HalfMadeError(LockedError):
    """A stack of which Pulumi cannot know whether Azure has made all that it asked for."""


class RequestError(JobsError):
    """Azure could not be asked, or said no. A job that runs is not touched by it."""

    exit_code = 22

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        """Of HTTP; none if no answer came."""


class SignInError(RequestError):
    """Nobody is signed in, or the sign-in has ended."""


class AccessError(RequestError):
    """Signed in, but without the role, or from a network that is not let in."""


class MissingError(RequestError):
    """What was asked for is not there, most often as its name is mistyped."""

    exit_code = 1


class ConflictError(RequestError):
    """What was asked for contradicts what is there."""


class UnreachableError(RequestError):
    """No answer, or none but that the service is busy; asking later may help."""
