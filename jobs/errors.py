"""What can go wrong between a person and a platform."""

from common.errors import ProblemsError, UserError


class SpecError(ProblemsError):
    """A job that could not run as asked."""

    subject = "job"


class SnapshotError(UserError):
    """Files that a code snapshot or an image is made of, and that are missing or not files."""

    exit_code = 3


class PlatformReadError(UserError):
    """Outputs of a stack that could not be read: no Pulumi, no login, no such stack, no file."""

    exit_code = 4


class PulumiMissingError(PlatformReadError):
    """The command line of Pulumi is not on the path."""


class NotDeployedError(PlatformReadError):
    """A stack that exports nothing: it was never deployed to its end, or was taken down."""


class LockedError(UserError):
    """A stack that somebody changes now, or whose change was killed."""


class PendingOperationsError(LockedError):
    """A stack with pending operations: Pulumi cannot know whether Azure has ended them."""


class RequestError(UserError):
    """Azure could not be asked, or said no. A job that runs is not touched by it."""

    exit_code = 22

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        """HTTP status, or None if there was no response."""


class SignInError(RequestError):
    """Nobody is signed in, or the sign-in has expired."""


class AccessError(RequestError):
    """Signed in, but without the role, or from a network that is not let in."""


class MissingError(RequestError):
    """What was asked for is not there, most often as its name is mistyped."""

    exit_code = 1


class ConflictError(RequestError):
    """What was asked for contradicts what is there."""


class UnreachableError(RequestError):
    """No answer, or none but that the service is busy; asking later may help."""
