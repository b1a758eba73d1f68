"""Who asks Azure: a service principal or managed identity of the environment, else `az login`."""

import base64
import json
import os
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from azure.core.credentials import TokenCredential
from azure.identity import DefaultAzureCredential

if TYPE_CHECKING:
    from azure.core.credentials_async import AsyncTokenCredential

_MICROSOFT: Final = (
    "login.microsoftonline.com",
    "login.microsoftonline.us",
    "login.chinacloudapi.cn",
)
"""Authorities of Microsoft's own clouds."""


def credential() -> TokenCredential:
    """The credential of whoever asks; nothing is asked before a token is needed."""
    return DefaultAzureCredential(**_options())


def async_credential() -> "AsyncTokenCredential":
    """The same for libraries that use asyncio."""
    from azure.identity.aio import DefaultAzureCredential as Asynchronous  # noqa: PLC0415

    return Asynchronous(**_options())


def name_in_token(token: str) -> str | None:
    """The name in a token: a person's, or the id of a service principal; None if there is none."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except ValueError:
        return None
    names = (claims.get(claim) for claim in ("upn", "unique_name", "appid", "oid"))
    return next((str(name) for name in names if name), None)


def _options() -> dict[str, Any]:
    """Arguments of a credential: which ways to authenticate are tried."""
    return {
        "exclude_interactive_browser_credential": True,
        "exclude_shared_token_cache_credential": True,
        "exclude_visual_studio_code_credential": True,
        "exclude_powershell_credential": True,
        "exclude_broker_credential": True,
        # Another authority is not in Microsoft's list of them, which would be asked first.
        "disable_instance_discovery": _authority() not in _MICROSOFT,
    }


def _authority() -> str:
    host = os.environ.get("AZURE_AUTHORITY_HOST", _MICROSOFT[0])
    return urlsplit(host if "//" in host else f"//{host}").netloc
