"""Explain Azure's errors, and what to do about them. Pure, except for looking up the signed-in
user.
"""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import urlsplit

from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    HttpResponseError,
    ServiceRequestError,
    ServiceResponseError,
)

from common.text import duration
from infra.outputs import PlatformOutputs
from jobs.errors import (
    SECOND_FACTOR,
    AccessError,
    ConflictError,
    MissingError,
    RequestError,
    SignInError,
    UnreachableError,
    sign_in_command,
)

if TYPE_CHECKING:
    # Its import takes as long as all others.
    from infra.prerequisites import Prerequisites

Platform: TypeAlias = "PlatformOutputs | Prerequisites"
"""The facts of a stack, deployed or not yet."""

_NETWORK: Final = re.compile(
    r"public network access|private endpoint|private link|virtual network"
    r"|AuthorizationFailure|not allowed (?:to access|from)|ip address|forbidden by its firewall",
    re.IGNORECASE,
)
"""Messages of services that refuse a network rather than a user. Storage uses AuthorizationFailure
for the former and AuthorizationPermissionMismatch for the latter."""

_ACTION: Final = re.compile(r"\baction:? '([^']+)'", re.IGNORECASE)
"""The action that a user lacks, in the messages of Resource Manager and of key vaults."""
_OF_SCIENTISTS: Final = re.compile(
    r"Microsoft\.MachineLearningServices/workspaces/"
    r"(?!(?:computes/)?(?:write|delete)$|computes/listKeys/)",
    re.IGNORECASE,
)
"""Actions of the role AzureML Data Scientist (Azure, "Built-in roles")."""

_WAY: Final = re.compile(r"^\s+\w+Credential: (.+)$", re.MULTILINE)
_NOT_TRIED: Final = re.compile(
    r"unavailable|could not be found|not installed|not found on path|please run|isn't|is not set"
    r"|incomplete",
    re.IGNORECASE,
)
_NO_ANSWER: Final = re.compile(
    r"Failed to establish a new connection|Failed to resolve|Name or service not known"
    r"|getaddrinfo failed|Connection refused|timed out"
)

_CHALLENGE: Final = re.compile(r'\bclaims="?([\w+/=-]+)')
"""The claims that a service demands of a token, in base64, in a header WWW-Authenticate."""
_CERTIFICATE_TIME: Final = re.compile(r"certificate (?:is not yet valid|has expired)")
_BLOB_HOST: Final = ".blob."
_BLOB_ROLE: Final = "AuthorizationPermissionMismatch"
_BUSY: Final = {408, 429, 500, 502, 503, 504}


def explained(
    error: AzureError, what: str, outputs: Platform, who: Callable[[], str | None]
) -> RequestError:
    """Return the error to raise in place of one of Azure's.

    Args:
        error: Error from the SDK, azure-core or azure-identity.
        what: Name of the request.
        outputs: Outputs of the stack, for its network settings.
        who: Returns the signed-in user, or None.
    """
    away = _network_away(error)
    if away is not None:
        host = _host(away)
        wrong_clock = _CERTIFICATE_TIME.search(str(away))
        return UnreachableError(
            f"{what}: no response from {host or 'Azure'} ({_first_line(away)})\n"
            + ("check this machine's clock" if wrong_clock else _network(outputs, host))
        )
    command = _sign_in_command(error, outputs.tenant_id)
    if command is not None:
        return SignInError(
            f"{what}: this sign-in does not suffice; sign in with {command}\nSince October 2025"
            " Azure demands a second factor of people who create, change or delete, but not of"
            " those who read (docs/deploy-the-platform.md)",
            getattr(error, "status_code", None),
        )
    tried = _ways_tried(error)
    if _NO_ANSWER.search(tried):
        return UnreachableError(
            f"{what}: no response from the sign-in service ({tried})\n{_network(outputs, '')}"
        )
    if isinstance(error, ClientAuthenticationError) and _of_identity(error):
        return SignInError(
            f"not signed in to Azure: {tried or _first_line(error)}\nrun `az login --tenant"
            f" {outputs.tenant_id}`, or set AZURE_TENANT_ID, AZURE_CLIENT_ID and its secret or"
            " certificate in the environment"
        )
    if isinstance(error, HttpResponseError) and error.status_code is not None:
        return _of_status(error, error.status_code, what, outputs, who)
    return RequestError(f"{what}: {_first_line(error)}")


def _sign_in_command(error: AzureError, tenant: str) -> str | None:
    """Return the command that signs in as a service demands by a claims challenge, or as the tenant
    does for a second factor; None for any other error.
    """
    cause: BaseException | None = error
    demanded, challenge = False, None
    while cause is not None:
        said = str(cause)
        if command := sign_in_command(said):
            # The SDK's own line does not name the tenant.
            named = "" if "--tenant" in command else f" --tenant {tenant}"
            return f"`az login{named}{command.removeprefix('az login')}`"
        headers = getattr(getattr(cause, "response", None), "headers", None) or {}
        match = _CHALLENGE.search(str(headers.get("WWW-Authenticate") or ""))
        challenge = challenge or (match[1] if match else None)
        demanded = demanded or SECOND_FACTOR.search(said) is not None
        cause = cause.__cause__
    if challenge is not None:
        return f'`az login --tenant {tenant} --claims-challenge "{challenge}"`'
    return f"your second factor: `az logout; az login --tenant {tenant}`" if demanded else None


def _of_status(
    error: HttpResponseError,
    status: int,
    what: str,
    outputs: Platform,
    who: Callable[[], str | None],
) -> RequestError:
    said = _said(error)
    if status == 401:
        return SignInError(
            f"{what}: Azure rejects this sign-in ({said})\nsign in to the tenant of the stack: az"
            f" login --tenant {outputs.tenant_id}",
            status,
        )
    if status == 403:
        return AccessError(
            f"{what}: access denied ({said})\n" + _access(error, said, outputs, who), status
        )
    if status == 404:
        return MissingError(
            f"{what}: not found ({said})\nlooked in workspace {outputs.workspace}, resource group"
            f" {outputs.resource_group}, subscription {outputs.subscription_id}; if the stack"
            f" {outputs.stack} was redeployed or torn down, read its outputs again",
            status,
        )
    if status in (409, 412):
        return ConflictError(f"{what}: conflicts with what exists ({said})", status)
    if status in _BUSY:
        asked = getattr(error.response, "headers", {}).get("Retry-After", "")
        again = duration(int(asked)) if asked.isdigit() else "some minutes"
        return UnreachableError(
            f"{what}: Azure is still busy (status {status}: {said}); try again in {again}", status
        )
    return RequestError(f"{what}: Azure refused the request (status {status}: {said})", status)


def _access(
    error: HttpResponseError, said: str, outputs: Platform, who: Callable[[], str | None]
) -> str:
    host = _host(error)
    if _NETWORK.search(said):
        return _network(outputs, host)
    name = who()
    person = f"the signed-in user {name}" if name else "the signed-in user"
    if _BLOB_HOST in host or _BLOB_ROLE in f"{said} {error}":
        return (
            f"{person} needs the role Storage Blob Data Reader (to read) or Storage Blob Data"
            f" Contributor (to write) on the container in {host}; the stack {outputs.stack} lets"
            " the group people.scientists read everything and write results, and the group"
            " people.publishers write training data"
        )
    action = _ACTION.search(said)
    if action is not None and not _OF_SCIENTISTS.match(action[1]):
        return (
            f"{person} needs a role with the action {action[1]}, there or on a scope above; a new"
            " role may take some minutes to take effect"
        )
    return (
        f"{person} needs the role AzureML Data Scientist on workspace {outputs.workspace}; the"
        " stack assigns it to the group people.scientists; new members may have to sign in again"
    )


def _network(outputs: Platform, host: str) -> str:
    access = outputs.access
    if host.startswith("management.") or not host:
        return "check this machine's network, proxy and name resolution"
    if access.profile == "private":
        return (
            f"the stack {outputs.stack} is private: its services can be reached only from inside"
            " its network; connect through its VPN or peering, or work from a machine inside it"
            " (docs/platform.md)"
        )
    ranges = ", ".join(access.allowed_addresses) or "no addresses"
    return (
        f"the stack {outputs.stack} allows access from {ranges}; if this machine has another public"
        " address, add it to allowed_addresses and deploy the stack again"
    )


def _network_away(error: AzureError) -> AzureError | None:
    """Return the underlying error of an unreachable network, also during a token request."""
    cause: BaseException | None = error
    while isinstance(cause, ClientAuthenticationError):
        cause = cause.__cause__
    return cause if isinstance(cause, ServiceRequestError | ServiceResponseError) else None


def _ways_tried(error: AzureError) -> str:
    """Return the errors of the credentials that were available; empty if none was."""
    if not isinstance(error, ClientAuthenticationError):
        return ""
    return "; ".join(text for text in _WAY.findall(str(error)) if not _NOT_TRIED.search(text))


def _of_identity(error: ClientAuthenticationError) -> bool:
    """Whether the token request failed, rather than a service that rejected the token."""
    path = urlsplit(_url(error)).path
    return not path or "/oauth2/" in path


def _host(error: AzureError) -> str:
    url = _url(error)
    if url:
        return urlsplit(url).netloc
    # A failed connection has no response, but its message names the host.
    match = re.search(r"host='([^']+)'|to '?([\w.-]+\.[a-z]+)'?", str(error))
    return (match[1] or match[2]) if match else ""


def _url(error: AzureError) -> str:
    response: Any = getattr(error, "response", None)
    request = getattr(response, "request", None)
    return str(getattr(request, "url", "") or "")


def _said(error: HttpResponseError) -> str:
    """Return the innermost code and message of Azure's error."""
    inner: Any = error.error
    code, message = getattr(inner, "code", None), getattr(inner, "message", None)
    text = f"{code}: {message}" if code and message else str(message or error.message or error)
    return " ".join(text.split())


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # The SDK's checks mark the problems with (x), among general advice.
    wrong = [line.removeprefix("(x)").strip() for line in lines if line.startswith("(x)")]
    return "; ".join(wrong) or (lines[0] if lines else type(error).__name__)
