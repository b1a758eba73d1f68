"""Requests to Azure's REST interfaces: signed, repeated while Azure is busy, errors in words.

Requests go through azure-core's pipeline, which repeats what was refused for a moment (429 and 5xx,
after what Retry-After says). With ARM_CLOUD_METADATA_URL and AZURE_AUTHORITY_HOST all of them go to
another cloud.
"""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Final
from urllib.parse import quote, urlsplit

from azure.core import PipelineClient
from azure.core.credentials import TokenCredential
from azure.core.exceptions import AzureError, HttpResponseError
from azure.core.pipeline import policies
from azure.core.rest import HttpRequest, HttpResponse

from common.errors import UserError
from infra.outputs import PlatformOutputs
from jobs.azure.error_messages import explained
from jobs.azure.sign_in import name_in_token
from jobs.errors import RequestError

CONNECT_SECONDS: Final = 10
READ_SECONDS: Final = 60
RETRIES = 6
"""Of what is refused for a moment."""
BACKOFF_SECONDS = 0.5
"""The first pause; the further ones double: half a minute in all, unless Azure asks for others by
Retry-After.
"""
LONGEST_PAUSE: Final = 60.0
"""Seconds, whatever Azure asks for."""
REPORTED_PAUSE: Final = 5.0
"""Seconds of a pause from which on a person is told why nothing happens."""

_PUBLIC: Final = "https://management.azure.com"
_ACTIONS: Final = ("details", "cancel", "listNodes", "startPendingUpload")
"""Last parts of addresses that are no name."""


class Requests:
    """Sends requests as whoever is signed in, and explains what goes wrong.

    Args:
        outputs: of the stack, for what its network and roles mean to an error.
        credential: who asks.
    """

    def __init__(self, outputs: PlatformOutputs, credential: TokenCredential) -> None:
        self._outputs, self._credential = outputs, credential

    def send(self, method: str, url: str, body: object = None, *, signed: bool = True) -> Any:
        """Send a request to a service that answers in JSON.

        Args:
            method: of HTTP.
            url: the whole address.
            body: what JSON can hold.
            signed: whether the request bears a token.

        Returns:
            The JSON of the answer; None if it is empty.

        Raises:
            RequestError: one of its kinds by what went wrong.
        """
        request = HttpRequest(method, url, json=body)
        with self.errors(name_of(url)):
            response = (self._signed if signed else self._anonymous).send_request(request)
            if response.status_code >= 400:
                raise HttpResponseError(response=response)
            return read_json(response.content, url)

    def get_anonymously(self, url: str, headers: Mapping[str, str]) -> HttpResponse:
        """The answer of an address that needs no token, or holds a signature of its own."""
        request = HttpRequest("GET", url, headers=dict(headers))
        response: HttpResponse = self._anonymous.send_request(request)
        return response

    def user(self) -> str | None:
        """Who is signed in, by a name that a person knows; None if nobody is."""
        try:
            return name_in_token(self._credential.get_token(self._scope).token)
        except AzureError:
            return None

    def authenticate(self) -> None:
        """Get a token for Resource Manager, which tells whether somebody is signed in.

        Raises:
            SignInError: nobody is.
        """
        with self.errors("sign-in"):
            self._credential.get_token(self._scope)

    @contextmanager
    def errors(self, what: str) -> Iterator[None]:
        """Turn Azure's errors inside of it into ours.

        Args:
            what: was asked for, by its name, such as "job NAME".

        Raises:
            RequestError: one of its kinds by what went wrong.
        """
        try:
            yield
        except UserError:
            raise
        except AzureError as error:
            raise explained(error, what, self._outputs, self.user) from error

    @cached_property
    def manager_url(self) -> str:
        """Address of Resource Manager, without a slash at its end."""
        metadata = os.environ.get("ARM_CLOUD_METADATA_URL")
        if metadata is None:
            return _PUBLIC
        clouds = self.send("GET", metadata, signed=False)
        urls = [str(cloud["resourceManager"]).rstrip("/") for cloud in clouds]
        # As the SDK does it, so that both speak to the same cloud.
        return next((url for url in urls if metadata.startswith(url)), _PUBLIC)

    @property
    def _scope(self) -> str:
        return f"{self.manager_url}/.default"

    @cached_property
    def _signed(self) -> PipelineClient[Any, Any]:
        return pipeline(policies.BearerTokenCredentialPolicy(self._credential, self._scope))

    @cached_property
    def _anonymous(self) -> PipelineClient[Any, Any]:
        return pipeline()


class ReportedRetryPolicy(policies.RetryPolicy[Any, Any]):
    """Repeats requests, without a pause that is silent and long."""

    def get_retry_after(self, response: Any) -> float | None:
        """Seconds that an answer asks to wait, within reason."""
        asked = super().get_retry_after(response)
        if not asked:
            return asked
        pause = min(asked, LONGEST_PAUSE)
        _report(f"busy (status {response.http_response.status_code})", pause)
        return pause

    def get_backoff_time(self, settings: dict[str, Any]) -> float:
        """Seconds to wait where nothing was asked for."""
        pause = super().get_backoff_time(settings)
        _report("not answering as it should", pause)
        return pause


def pipeline(
    *auth: policies.SansIOHTTPPolicy[Any, Any] | policies.HTTPPolicy[Any, Any],
) -> PipelineClient[Any, Any]:
    """Sends requests, and repeats what may succeed in a moment.

    Args:
        auth: what signs each request, if anything does.
    """
    # A host that does not answer is given up soon; one that says it is busy is waited for.
    retry = ReportedRetryPolicy(
        retry_total=RETRIES,
        retry_connect=2,
        retry_read=3,
        retry_status=RETRIES,
        retry_backoff_factor=BACKOFF_SECONDS,
    )
    return PipelineClient(
        "",
        policies=[
            policies.RequestIdPolicy(),
            policies.HeadersPolicy(),
            policies.UserAgentPolicy("ml-azure-horovod"),
            retry,
            *auth,
        ],
        connection_timeout=CONNECT_SECONDS,
        read_timeout=READ_SECONDS,
    )


def segment(name: str) -> str:
    """A name as one segment of a path."""
    return quote(name, safe="")


def name_of(url: str) -> str:
    """What a person calls the thing at an address: the kind and name at its end."""
    parts = [part for part in urlsplit(url).path.split("/") if part]
    if len(parts) > 1 and parts[-1] in _ACTIONS:
        parts.pop()
    if len(parts) > 3 and parts[-2] == "versions":
        *parts, kind, name, _, version = parts
        parts += [kind, f"{name}:{version}"]
    return f"{parts[-2].rstrip('s')} {parts[-1]}" if len(parts) > 1 else urlsplit(url).netloc


def read_json(content: bytes, url: str) -> Any:
    """What an answer holds; None if it is empty.

    Args:
        content: of the answer.
        url: that was asked.

    Raises:
        RequestError: it is not Azure that answers.
    """
    try:
        return json.loads(content) if content else None
    except ValueError as error:
        raise RequestError(
            f"{name_of(url)}: {urlsplit(url).netloc} answers, but not as Azure does (no JSON); is"
            " a proxy or a sign-in page of the network between?"
        ) from error


def _report(state: str, pause: float) -> None:
    if pause > REPORTED_PAUSE:
        print(f"Azure is {state}; asking again in {pause:.0f} s", file=sys.stderr, flush=True)
