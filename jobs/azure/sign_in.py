"""Sign-in to Azure: by the environment's service principal or managed identity, or `az login`."""

import base64
import json
import os
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from azure.core.credentials import AccessToken, TokenCredential
from azure.identity import DefaultAzureCredential

from jobs.errors import SignInError

if TYPE_CHECKING:
    from azure.core.credentials_async import AsyncTokenCredential

PRODUCT: Final = "ml-azure-horovod"
"""Name with which the User-Agent of every request begins, for the logs of Azure and of proxies."""
_MICROSOFT: Final = (
    "login.microsoftonline.com",
    "login.microsoftonline.us",
    "login.chinacloudapi.cn",
)
"""Authorities of Microsoft's own clouds."""


class PinnedCredential:
    """A credential that refuses tokens of another tenant, before they are used."""

    def __init__(self, inner: TokenCredential, tenant: str) -> None:
        self._inner, self._tenant = inner, tenant

    def get_token(self, *scopes: str, **options: Any) -> AccessToken:
        """Return a token of the stack's tenant.

        Raises:
            SignInError: The user is signed in to another tenant.
        """
        token = self._inner.get_token(*scopes, **options)
        tenant = _claims(token.token).get("tid")
        if tenant is not None and tenant.lower() != self._tenant.lower():
            raise SignInError(
                f"signed in to tenant {tenant} as {name_in_token(token.token)}, but the stack"
                f" belongs to tenant {self._tenant}; nothing was done. Sign in there: az login"
                f" --tenant {self._tenant}"
            )
        return token


def credential(tenant: str) -> TokenCredential:
    """Create the user's credential for a tenant; it sends no request until a token is needed."""
    return PinnedCredential(DefaultAzureCredential(**_options()), tenant)


def async_credential() -> "AsyncTokenCredential":
    """Create the same credential for libraries that use asyncio."""
    from azure.identity.aio import DefaultAzureCredential as Asynchronous  # noqa: PLC0415

    return Asynchronous(**_options())


def name_in_token(token: str) -> str | None:
    """Return the user name, or id of a service principal, in a token; None if it has neither."""
    claims = _claims(token)
    names = (claims.get(claim) for claim in ("upn", "unique_name", "appid", "oid"))
    return next((str(name) for name in names if name), None)


def about_changes(token: str, tenant: str) -> str:
    """Return the limits of a token that reads: since October 2025 Azure demands a second factor of
    people who create, change or delete.

    Args:
        token: Token of the sign-in.
        tenant: Id of the tenant to sign in to.

    Returns:
        A clause; empty for a service principal or a managed identity, which need none.
    """
    claims = _claims(token)
    if claims.get("idtyp") == "app" or not {"scp", "upn", "unique_name"} & claims.keys():
        return ""
    methods = claims.get("amr")
    if isinstance(methods, list) and not any("mfa" in str(method) for method in methods):
        return (
            ", without a second factor: reading needs none, but Azure demands one of people for"
            f" every change; sign in with it (az login --tenant {tenant})"
        )
    return "; that reading works does not prove that Azure accepts changes"


def object_id(of: TokenCredential, scope: str) -> str:
    """Return the object id of the signed-in user.

    Args:
        of: Credential of the user.
        scope: Scope of the token that is read, such as https://management.azure.com/.default.

    Raises:
        SignInError: The token names no user.
    """
    identity = _claims(of.get_token(scope).token).get("oid")
    if not isinstance(identity, str):
        raise SignInError("the token of this sign-in has no object id; sign in with `az login`")
    return identity


def _claims(token: str) -> dict[str, Any]:
    """Return the claims of a token; empty if it cannot be read."""
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except ValueError:
        return {}
    return claims if isinstance(claims, dict) else {}


def _options() -> dict[str, Any]:
    """Return the arguments that select how a credential signs in."""
    return {
        "user_agent": PRODUCT,
        "exclude_interactive_browser_credential": True,
        "exclude_shared_token_cache_credential": True,
        "exclude_visual_studio_code_credential": True,
        "exclude_powershell_credential": True,
        "exclude_broker_credential": True,
        # Discovery would ask Microsoft's service, which does not know any other authority.
        "disable_instance_discovery": _authority() not in _MICROSOFT,
    }


def _authority() -> str:
    host = os.environ.get("AZURE_AUTHORITY_HOST", _MICROSOFT[0])
    return urlsplit(host if "//" in host else f"//{host}").netloc
