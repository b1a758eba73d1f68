"""Requests to Resource Manager with the deployer's credentials."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from azure.core import PipelineClient
from azure.core.exceptions import AzureError as ClientError
from azure.core.pipeline.policies import (
    BearerTokenCredentialPolicy,
    HeadersPolicy,
    RetryPolicy,
    UserAgentPolicy,
)
from azure.core.rest import HttpRequest, HttpResponse
from azure.identity import ClientSecretCredential

USER_AGENT: Final = "simulated-pulumi-azure-native"
"""Name of the provider in the log of requests."""
_OPERATION_SECONDS: Final = 600
_POLL_SECONDS: Final = 0.1
_BUSY: Final = frozenset({"Creating", "Updating", "RegisteringDns"})
_FAILED: Final = frozenset({"Failed", "Canceled"})
_ERROR: Final = 400
_ACCEPTED: Final = 202
_MISSING: Final = 404


class RefusedError(Exception):
    """Resource Manager refused a request, or did not answer it."""


class ArmClient:
    """A client of Resource Manager.

    Args:
        environment: Environment with the credentials of a client, such as `Simulator.environment`.
        url: Address of Resource Manager.
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
                UserAgentPolicy(USER_AGENT),
                RetryPolicy(),
                BearerTokenCredentialPolicy(credential, f"{url}/.default"),
            ],
            connection_verify=trusted,
        )

    def get(self, identifier: str, version: str) -> dict[str, Any] | None:
        """Return a resource; None if it does not exist.

        Raises:
            RefusedError: the request failed.
        """
        response = self._send("GET", identifier, version)
        if response.status_code == _MISSING:
            return None
        resource: dict[str, Any] = _checked(response).json()
        return resource

    def put(self, identifier: str, version: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Create or update a resource; return it as it is when the operation has ended.

        Raises:
            RefusedError: the request failed, or its operation failed or does not end.
        """
        response = _checked(self._send("PUT", identifier, version, body))
        state = (_content(response).get("properties") or {}).get("provisioningState", "")
        if response.status_code != _ACCEPTED and state not in _BUSY:
            resource: dict[str, Any] = response.json()
            return resource
        self._wait(f"PUT {identifier}", response)
        deadline = time.monotonic() + _OPERATION_SECONDS
        while True:
            current = self.get(identifier, version)
            if current is None:
                raise RefusedError(f"PUT {identifier} has ended, but there is no such resource")
            state = str((current.get("properties") or {}).get("provisioningState", ""))
            if state == "Failed":
                raise RefusedError(f"PUT {identifier} has ended in the state {state}")
            if state not in _BUSY:
                return current
            if time.monotonic() > deadline:
                raise RefusedError(f"PUT {identifier} does not end: its state is {state}")
            time.sleep(_POLL_SECONDS)

    def delete(self, identifier: str, version: str) -> None:
        """Delete a resource with no query parameter but the version, as azure-native does.

        A resource that does not exist counts as deleted.

        Raises:
            RefusedError: the request failed, or the deletion does not finish.
        """
        response = self._send("DELETE", identifier, version)
        if response.status_code == _MISSING:
            return
        if _checked(response).status_code == _ACCEPTED:
            self._wait(f"DELETE {identifier}", response)

    def _wait(self, request: str, response: HttpResponse) -> None:
        """Wait for the end of an operation where its answer says that it can be read.

        Raises:
            RefusedError: the operation failed, or does not end.
        """
        address = response.headers.get("Azure-AsyncOperation", "")
        result = response.headers.get("Location", "")
        if not address and response.status_code != _ACCEPTED:
            return
        deadline = time.monotonic() + _OPERATION_SECONDS
        while address or result:
            answer = _checked(self._request(HttpRequest("GET", address or result)))
            state = _content(answer).get("status", "") if address else ""
            if state in _FAILED:
                error = _content(answer).get("error") or {}
                details = f'Code="{error.get("code")}" Message="{error.get("message")}"'
                raise RefusedError(f"{request}: {state} {details}")
            if state == "Succeeded" or (not address and answer.status_code != _ACCEPTED):
                return
            if time.monotonic() > deadline:
                break
            # Shorter than Retry-After asks: the operations here are.
            time.sleep(_POLL_SECONDS)
        raise RefusedError(f"{request} was accepted, but does not end")

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


def _content(response: HttpResponse) -> dict[str, Any]:
    """Return the JSON object of a response; an empty one if it has none."""
    content = response.json() if response.content else None
    return content if isinstance(content, dict) else {}


def _checked(response: HttpResponse) -> HttpResponse:
    """Return the response unless it is an error.

    Raises:
        RefusedError: the response is an error; the message is in azure-native's format.
    """
    if response.status_code < _ERROR:
        return response
    try:
        error = json.loads(response.text())["error"]
        details = f'Code="{error["code"]}" Message="{error["message"]}"'
    except (ValueError, KeyError, TypeError):
        details = response.text()
    method, url = response.request.method, response.request.url
    raise RefusedError(f"{method} {url}: Status={response.status_code} {details}")
