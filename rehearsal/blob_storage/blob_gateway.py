"""The entry point of blob storage: the blob server behind roles, faults and a log.

The blob server itself can neither refuse an identity that lacks a role, nor be slow, nor lose a
connection; and it must be restarted to learn of a new account.
"""

import html
import http.client
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from rehearsal.blob_storage.azurite import Azurite
from rehearsal.blob_storage.blobs import DELEGATED, NOT_AUTHORIZED, PERMISSION_MISMATCH
from rehearsal.blob_storage.role_policy import Access
from rehearsal.control_plane.faults import Faults
from rehearsal.control_plane.http_messages import Request, Response
from rehearsal.control_plane.identity import Identity
from rehearsal.control_plane.request_log import RequestLog
from rehearsal.errors import AzureError

Allow: TypeAlias = Callable[[str, str, str, Access, str], bool]
"""Check whether a principal (its object id) may access a path in an account's container."""

_SECONDS = 60
_READING = {"GET", "HEAD", "OPTIONS"}
_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "date", "server"}


@dataclass
class BlobGateway:
    """Forwards requests to the blob server."""

    azurite: Azurite
    identity: Identity
    allow: Allow
    accepts_keys: Callable[[str], bool]
    """Check whether an account accepts requests that are signed with its keys."""
    faults: Faults
    log: RequestLog
    trusted: Path
    """File of certificates to trust."""

    def __post_init__(self) -> None:
        self._tls = ssl.create_default_context(cafile=str(self.trusted))
        self._local = threading.local()

    def respond(self, request: Request) -> Response:
        """Return the blob server's response, or a fault or a refusal."""
        try:
            claims = self._claims(request)
        except AzureError as error:
            refusal = Response(error.status, error.body())
            return self.log.log(request, lambda _: self._as_storage(refusal))
        request = replace(request, caller=str(claims.get("appid", "")))
        return self.log.log(
            request,
            lambda request: self._as_storage(
                self.faults.respond(request, lambda request: self._pass(request, claims))
            ),
        )

    def _claims(self, request: Request) -> dict[str, Any]:
        """Return the claims of the token; empty without one, as the blob server then checks a
        signature.

        Raises:
            AzureError: the token is not valid, or an account key is used.
        """
        authorization = request.headers.get("authorization", "")
        account = request.path.strip("/").partition("/")[0]
        by_key = "sig" in request.query and "skoid" not in request.query
        if not authorization and (not by_key or self.accepts_keys(account)):
            return {}
        if not authorization.lower().startswith("bearer"):
            raise AzureError(
                403,
                "KeyBasedAuthenticationNotPermitted",
                "Key based authentication is not permitted on this storage account.",
            )
        return self.identity.claims(request)

    def _pass(self, request: Request, claims: dict[str, Any]) -> Response:
        account, container, path = [*request.path.split("/", 3)[1:], "", "", ""][:3]
        access: Access = "read" if request.method in _READING else "write"
        if claims and not self.allow(claims["oid"], account, container, access, path):
            return Response(403, AzureError(403, PERMISSION_MISMATCH, NOT_AUTHORIZED).body())
        self.azurite.ensure(account)
        for last in (False, True):
            fresh = not hasattr(self._local, "connection")
            try:
                return self._send(request)
            except (OSError, http.client.HTTPException):
                # A kept connection may have been closed meanwhile; a new one shows the real state.
                self._disconnect()
                if fresh or last:
                    break
        return Response(0, cut=True)

    def _send(self, request: Request) -> Response:
        if not hasattr(self._local, "connection"):
            self._local.connection = http.client.HTTPSConnection(
                "127.0.0.1", self.azurite.port, timeout=_SECONDS, context=self._tls
            )
        connection: http.client.HTTPSConnection = self._local.connection
        headers = {name: text for name, text in request.headers.items() if name not in _HOP_BY_HOP}
        target = request.target.replace(f"{DELEGATED}&", "")
        connection.request(request.method, target, request.body, headers)
        response = connection.getresponse()
        body = response.read()
        kept_headers = {
            name: text for name, text in response.getheaders() if name.lower() not in _HOP_BY_HOP
        }
        return Response(response.status, body, kept_headers)

    def _disconnect(self) -> None:
        if hasattr(self._local, "connection"):
            self._local.connection.close()
            del self._local.connection

    def _as_storage(self, response: Response) -> Response:
        """Convert a response to Azure Storage's form: its error format, and no response while it is
        down.
        """
        if self.azurite.is_down:
            return Response(0, cut=True)
        return _error_as_xml(response) if isinstance(response.body, dict) else response


def _error_as_xml(response: Response) -> Response:
    error = response.body["error"]
    text = html.escape(error["message"])
    body = (
        '<?xml version="1.0" encoding="utf-8"?>'
        f"<Error><Code>{error['code']}</Code><Message>{text}</Message></Error>"
    )
    headers = {
        **response.headers,
        "x-ms-error-code": error["code"],
        "content-type": "application/xml",
    }
    return Response(response.status, body.encode(), headers)
