"""Requests to Resource Manager, as the program that deploys."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from azure.core import PipelineClient
from azure.core.exceptions import AzureError as ClientError
from azure.core.pipeline.policies import BearerTokenCredentialPolicy, HeadersPolicy, RetryPolicy
from azure.core.rest import HttpRequest, HttpResponse
from azure.identity import ClientSecretCredential

_PATIENCE_SECONDS: Final = 600
_ERROR: Final = 400
_ACCEPTED: Final = 202
_MISSING: Final = 404


class RefusedError(Exception):
    """Resource Manager refuses a request, or does not answer it."""


class Manager:
    """Resource Manager at an address.

    Args:
        environment: of a program that is signed in, as `Loopback.environment` gives it.
        url: of Resource Manager.
    """

    def __init__(self, environment: Mapping[str, str], url: str) -> None:
        trusted = str(Path(environment["SSL_CERT_FILE"]))
        self.client_id, self.tenant_id = (
            environment["AZURE_CLIENT_ID"],
            environment["AZURE_TENANT_ID"],
        )
        self._url = url
        credential = ClientSecretCredential(
            self.tenant_id,
            self.client_id,
            environment["AZURE_CLIENT_SECRET"],
            authority=environment["AZURE_AUTHORITY_HOST"],
            disable_instance_discovery=True,
            connection_verify=trusted,
        )
        self._client: PipelineClient[HttpRequest, HttpResponse] = PipelineClient(
            url,
            policies=[
                HeadersPolicy(),
                RetryPolicy(),
                BearerTokenCredentialPolicy(credential, f"{url}/.default"),
            ],
            connection_verify=trusted,
        )

    def get(self, identifier: str, version: str) -> dict[str, Any] | None:
        """A resource, or none if it is not there.

        Raises:
            RefusedError: the request failed.
        """
        answer = self._send("GET", identifier, version)
        if answer.status_code == _MISSING:
            return None
        found: dict[str, Any] = _checked(answer).json()
        return found

    def put(self, identifier: str, version: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Make or change a resource; what it has become.

        Raises:
            RefusedError: the request failed.
        """
        found: dict[str, Any] = _checked(self._send("PUT", identifier, version, body)).json()
        return found

    def delete(self, identifier: str, version: str) -> None:
        """Delete a resource, without any other query than the version, as azure-native does.

        One that is not there is deleted already.

        Raises:
            RefusedError: the request failed, or the deletion does not end.
        """
        answer = self._send("DELETE", identifier, version)
        if answer.status_code == _MISSING:
            return
        deadline = time.monotonic() + _PATIENCE_SECONDS
        address = _checked(answer).headers.get("Location", "")
        while answer.status_code == _ACCEPTED:
            if not address or time.monotonic() > deadline:
                raise RefusedError(f"DELETE {identifier} was accepted, and does not end")
            time.sleep(float(answer.headers.get("Retry-After", "1")))
            answer = _checked(self._request(HttpRequest("GET", address)))

    def _send(
        self, method: str, identifier: str, version: str, body: Mapping[str, Any] | None = None
    ) -> HttpResponse:
        return self._request(
            HttpRequest(
                method,
                f"{self._url}{identifier}",
                params={"api-version": version},
                json=None if body is None else dict(body),
            )
        )

    def _request(self, request: HttpRequest) -> HttpResponse:
        try:
            return self._client.send_request(request)
        except ClientError as error:
            raise RefusedError(f"{request.method} {request.url}: {error}") from error


def _checked(answer: HttpResponse) -> HttpResponse:
    """The answer, unless it is an error, in azure-native's words."""
    if answer.status_code < _ERROR:
        return answer
    try:
        error = json.loads(answer.text())["error"]
        words = f'Code="{error["code"]}" Message="{error["message"]}"'
    except (ValueError, KeyError, TypeError):
        words = answer.text()
    method, url = answer.request.method, answer.request.url
    raise RefusedError(f"{method} {url}: Status={answer.status_code} {words}")
