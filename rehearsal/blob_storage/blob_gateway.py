"""What clients of blob storage connect to: the blob server behind faults and a record.

The blob server itself can neither refuse an identity that lacks a role, nor be slow, nor lose a
connection; and it must be started again to learn of a new account.
"""

import dataclasses
import html
import http.client
import ssl
import threading
import time
from pathlib import Path
from typing import Any

from rehearsal.blob_storage.azurite import Azurite
from rehearsal.control_plane.faults import Faults, Request
from rehearsal.control_plane.http_messages import Answer, Asked
from rehearsal.control_plane.identity import Identity
from rehearsal.errors import AzureError
from rehearsal.resources.roles import MISMATCH, REFUSAL, Access, Roles

_SECONDS = 60
_READING = {"GET", "HEAD", "OPTIONS"}
_OF_THE_HOP = {"connection", "keep-alive", "transfer-encoding", "date", "server"}


class BlobFront:
    """Passes requests on to the blob server."""

    def __init__(
        self, azurite: Azurite, identity: Identity, roles: Roles, faults: Faults, trusted: Path
    ) -> None:
        """Pass nothing yet.

        Args:
            azurite: the server.
            identity: knows whose tokens come.
            roles: say what they may do.
            faults: to inject, and where requests are remembered.
            trusted: file of certificates to trust.
        """
        self._azurite = azurite
        self._identity = identity
        self._roles = roles
        self._faults = faults
        self._tls = ssl.create_default_context(cafile=str(trusted))
        self._local = threading.local()

    def answer(self, asked: Asked) -> Answer:
        """Answer a request with the blob server's answer, or with a fault."""
        began = time.time()
        query = asked.target.partition("?")[2]
        caller = ""
        try:
            claims = self._claims(asked)
            caller = str(claims.get("appid", ""))
            asked = dataclasses.replace(asked, caller=caller)
            answer = self._faults.answer(asked, query) or self._allowed(asked, claims)
        except AzureError as error:
            answer = Answer(error.status, error.body())
        if isinstance(answer.body, dict):
            answer = _as_storage(answer)
        if self._azurite.held:
            answer = Answer(0, cut=True)
        took = time.time() - began
        request = Request(asked.method, asked.path, query, answer.status, caller, began, took)
        self._faults.note(request)
        return answer

    def _claims(self, asked: Asked) -> dict[str, Any]:
        """Of the token; empty for who has none, whom the blob server judges by a signature."""
        authorization = asked.headers.get("authorization", "")
        if not authorization:
            return {}
        if not authorization.lower().startswith("bearer"):
            raise AzureError(
                403,
                "KeyBasedAuthenticationNotPermitted",
                "Key based authentication is not permitted on this storage account.",
            )
        return self._identity.caller(authorization)

    def _allowed(self, asked: Asked, claims: dict[str, Any]) -> Answer:
        """The blob server's answer to who has a role for what is asked.

        Raises:
            AzureError: there is no such role.
        """
        account, container = [*asked.path.split("/")[1:], "", ""][:2]
        access: Access = "read" if asked.method in _READING else "write"
        if claims and not self._roles.allow(claims["oid"], account, container, access):
            raise AzureError(403, MISMATCH, REFUSAL)
        return self._pass(asked)

    def _pass(self, asked: Asked) -> Answer:
        self._azurite.ensure(asked.path.split("/")[1])
        for last in (False, True):
            fresh = not hasattr(self._local, "connection")
            try:
                return self._ask(asked)
            except (OSError, http.client.HTTPException):
                # One that was kept may have been closed meanwhile; a new one says the truth.
                self._forget()
                if fresh or last:
                    break
        return Answer(0, cut=True)

    def _ask(self, asked: Asked) -> Answer:
        if not hasattr(self._local, "connection"):
            self._local.connection = http.client.HTTPSConnection(
                "127.0.0.1", self._azurite.port, timeout=_SECONDS, context=self._tls
            )
        connection: http.client.HTTPSConnection = self._local.connection
        headers = {name: text for name, text in asked.headers.items() if name not in _OF_THE_HOP}
        connection.request(asked.method, asked.target, asked.raw, headers)
        response = connection.getresponse()
        body = response.read()
        found = {
            name: text for name, text in response.getheaders() if name.lower() not in _OF_THE_HOP
        }
        return Answer(response.status, body, found)

    def _forget(self) -> None:
        if hasattr(self._local, "connection"):
            self._local.connection.close()
            del self._local.connection


def _as_storage(answer: Answer) -> Answer:
    """An error in the form of Azure Storage."""
    error = answer.body["error"]
    text = html.escape(error["message"])
    body = (
        '<?xml version="1.0" encoding="utf-8"?>'
        f"<Error><Code>{error['code']}</Code><Message>{text}</Message></Error>"
    )
    headers = {
        **answer.headers,
        "x-ms-error-code": error["code"],
        "content-type": "application/xml",
    }
    return Answer(answer.status, body.encode(), headers)
