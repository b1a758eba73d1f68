"""Errors of `python -m jobs`, each with its exit status."""

import re
from typing import Final

from common.errors import ProblemsError, UserError

_LOGIN: Final = re.compile(r"az login\b[^\n;]*--claims-challenge[= ]+[\"']?[\w+/=-]+[\"']?")
"""The command that the Azure CLI names for such claims."""
SECOND_FACTOR: Final = re.compile(
    r"claims[- ]challenge|insufficient_claims|InteractionRequired|interaction_required"
    r"|AADSTS5007[69]|mfaforazure|multi-?factor authentication|must use MFA",
    re.IGNORECASE,
)
"""Messages that demand a second factor, or another condition of the tenant, of a sign-in."""


def sign_in_command(message: str) -> str | None:
    """Return the command with which the Azure CLI asks for another sign-in, in a message; None if
    it has none.
    """
    match = _LOGIN.search(message)
    return match[0] if match else None


class SpecError(ProblemsError):
    """A job cannot run with the requested options."""

    subject = "job"


class SnapshotError(UserError):
    """A file that a code snapshot or an image is built from is missing, or not a regular file."""

    exit_code = 3


class PlatformReadError(UserError):
    """The outputs of a stack could not be read: no Pulumi, no login, no such stack or no file."""

    exit_code = 4


class PulumiMissingError(PlatformReadError):
    """The Pulumi CLI is not on the PATH."""


class NotDeployedError(PlatformReadError):
    """A stack has no outputs: its deployment never completed, or it was torn down."""


class UnreadableStateError(PlatformReadError):
    """The state of the stack is damaged, so nothing says what the stack has and protects."""


class LockedError(UserError):
    """A stack is locked by another update, or by one that was killed."""


class PendingOperationsError(LockedError):
    """A stack has pending operations: Pulumi cannot know whether Azure has completed them."""


class RequestError(UserError):
    """A request to Azure failed or was refused. Running jobs are not affected."""

    exit_code = 22

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        """HTTP status, or None if there was no response."""


class SignInError(RequestError):
    """The user is not signed in, or the sign-in has expired."""


class AccessError(RequestError):
    """The user is signed in, but lacks a role, or connects from a network without access."""


class MissingError(RequestError):
    """The requested resource does not exist; often its name is mistyped."""

    exit_code = 1


class ConflictError(RequestError):
    """The request conflicts with a resource that exists."""


class UnreachableError(RequestError):
    """Azure did not respond, or reported that it is busy; a later retry may succeed."""


class OddAnswerError(UnreachableError):
    """A response is not one of Azure's: not JSON, or of another form than documented. A proxy or a
    network's sign-in page sends such responses, and so does a service that is being updated.
    """


class FateUnknownError(RequestError):
    """A run or its submission is no longer observed, so how it ends is unknown."""

    exit_code = 25
