"""Requests to Azure's REST APIs: authenticated, retried while Azure is busy, errors explained.

Requests go through azure-core's pipeline, which retries transient errors (429 and 5xx, after the
pause in Retry-After). With ARM_CLOUD_METADATA_URL and AZURE_AUTHORITY_HOST all requests go to
another cloud.
"""

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import cached_property, partial
from typing import Any, Final, NoReturn
from urllib.parse import quote, urlsplit

from azure.core import PipelineClient
from azure.core.credentials import TokenCredential
from azure.core.exceptions import AzureError, HttpResponseError
from azure.core.pipeline import policies
from azure.core.rest import HttpRequest, HttpResponse

from common.errors import UserError
from common.text import duration
from jobs.azure.error_messages import Platform, explained
from jobs.azure.sign_in import PRODUCT, about_changes, name_in_token
from jobs.errors import OddAnswerError, RequestError

CONNECT_SECONDS: Final = 10
READ_SECONDS: Final = 60
RETRIES = 6
"""Maximum retries of a request after transient errors."""
BACKOFF_SECONDS = 0.5
"""First pause in seconds; each further pause doubles, half a minute in all, unless Azure requests
others by Retry-After.
"""
LONGEST_WAIT: Final = 360.0
"""Longest time in seconds, in all pauses of a request, that Azure requests by Retry-After and the
request waits. A longer one is an error, after which `jobs.retry.AzureRetry` waits as long."""
CLOCK_TOLERANCE: Final = timedelta(minutes=5)
"""Difference between two clocks that is not corrected."""
REPORTED_PAUSE: Final = 5.0
"""Pause in seconds above which the reason for waiting is printed."""

_SECRETS: Final = "7.4"
"""API version of the secrets of key vaults."""
_PUBLIC: Final = "https://management.azure.com"
_ACTIONS: Final = ("details", "cancel", "listNodes", "startPendingUpload", "getLogs", "score")
"""Last path segments of URLs that are actions, not names."""


class Answer(dict[str, Any]):
    """A JSON object of a response. To read a member that it lacks is an `OddAnswerError`.

    Args:
        what: Name of the request.
        members: Members of the object.
    """

    def __init__(self, what: str, members: Iterable[tuple[str, Any]] = ()) -> None:
        super().__init__(members)
        self._what = what

    def __missing__(self, name: str) -> NoReturn:
        raise OddAnswerError(f"{self._what}: the response from Azure lacks {name!r}")


@contextmanager
def well_formed(what: str) -> Iterator[None]:
    """Convert the errors of reading a response of another form; also a decorator of functions that
    parse one.

    Args:
        what: Name of the object that the response describes.

    Raises:
        OddAnswerError: The response has another form than documented.
    """
    try:
        yield
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise OddAnswerError(
            f"{what}: the response from Azure has an unexpected form ({error!r})"
        ) from error


class Requests:
    """Sends requests as the signed-in user, and explains errors.

    Args:
        outputs: Outputs of the stack, whose network and roles explain errors.
        credential: Credential of the user.
    """

    def __init__(self, outputs: Platform, credential: TokenCredential) -> None:
        self._outputs, self.credential = outputs, credential
        self._ahead = timedelta(0)

    def send(self, method: str, url: str, body: object = None, *, signed: bool = True) -> Answer:
        """Send a request to a service that responds with a JSON object.

        Args:
            method: HTTP method.
            url: Full URL.
            body: Body of the request, serialized as JSON.
            signed: Whether the request carries a token.

        Returns:
            The object in the response; without members if the response is empty.

        Raises:
            OddAnswerError: The response is not Azure's.
            RequestError: The request failed; the subclass tells why.
        """
        answer = self._json(method, url, body, signed=signed)
        if answer is None:
            return Answer(name_of(url))
        if not isinstance(answer, Answer):
            raise OddAnswerError(f"{name_of(url)}: the response from Azure is not an object")
        return answer

    def _json(self, method: str, url: str, body: object = None, *, signed: bool) -> Any:
        """Send a request, and return the parsed JSON of the response; None if it is empty."""
        request = HttpRequest(method, url, json=body)
        with self.errors(name_of(url)):
            response = (self._signed if signed else self._anonymous).send_request(request)
            if signed:
                self._set_clock(response.headers.get("Date") or "")
            if response.status_code >= 400:
                raise HttpResponseError(response=response)
            return read_json(response.content, url)

    def now(self) -> datetime:
        """Return the time by Azure's clock, as its last response tells it."""
        return datetime.now(UTC) + self._ahead

    def _set_clock(self, date: str) -> None:
        """Note how far Azure's clock is ahead of this machine's, by the date of a response."""
        try:
            ahead = parsedate_to_datetime(date) - datetime.now(UTC)
        except (ValueError, TypeError):
            return
        # A date has whole seconds, and a response takes some.
        known = abs(ahead) > CLOCK_TOLERANCE
        if known and abs(self._ahead) <= CLOCK_TOLERANCE:
            way = "behind" if ahead > timedelta(0) else "ahead of"
            wrong = duration(abs(ahead).total_seconds())
            print(
                f"this machine's clock is {wrong} {way} Azure's, whose times are shown; set it, as"
                " Azure refuses tokens and signatures of another time",
                file=sys.stderr,
            )
        self._ahead = ahead if known else timedelta(0)

    def get_anonymously(self, url: str, headers: Mapping[str, str]) -> HttpResponse:
        """Get a URL that needs no token, or contains a signature."""
        request = HttpRequest("GET", url, headers=dict(headers))
        response: HttpResponse = self._anonymous.send_request(request)
        return response

    def post_content(
        self, url: str, content: bytes, headers: Mapping[str, str], scope: str
    ) -> HttpResponse:
        """Post a content to a service whose answer does not depend on how often it is asked.

        Args:
            url: Full URL.
            content: Body of the request.
            headers: Headers of the request.
            scope: Scope of the token, such as https://ml.azure.com/.default.

        Raises:
            RequestError: The request failed; the subclass tells why.
        """
        client = pipeline(policies.BearerTokenCredentialPolicy(self.credential, scope))
        request = HttpRequest("POST", url, content=content, headers=dict(headers))
        with self.errors(name_of(url)):
            response: HttpResponse = client.send_request(request, retry_on_methods=["POST"])
            if response.status_code >= 400:
                raise HttpResponseError(_sentence(response), response=response)
            return response

    def secret(self, uri: str) -> str:
        """Return the value of a secret in a key vault.

        Args:
            uri: URI of the secret, such as https://NAME.vault.azure.net/secrets/webhook.

        Raises:
            RequestError: The URI is not one of a secret, or the secret cannot be read.
        """
        vault, _, path = uri.removeprefix("https://").partition("/")
        if not uri.startswith("https://") or not path.startswith("secrets/"):
            raise RequestError(f"{uri}: is not the URI of a secret: https://VAULT/secrets/NAME")
        # Each cloud's tokens for vaults name the domain of its vaults.
        scope = f"https://{vault.partition('.')[2] or vault}/.default"
        client = pipeline(policies.BearerTokenCredentialPolicy(self.credential, scope))
        with self.errors(f"secret {uri}"):
            request = HttpRequest("GET", f"{uri}?api-version={_SECRETS}")
            response = client.send_request(request)
            if response.status_code >= 400:
                raise HttpResponseError(response=response)
            return str(read_json(response.content, uri)["value"])

    def user(self) -> str | None:
        """Return the name of the signed-in user, or None."""
        try:
            return name_in_token(self.credential.get_token(self._scope).token)
        except AzureError:
            return None

    def user_words(self) -> str:
        """Return the signed-in user, and the limits of this proof.

        Raises:
            SignInError: No user is signed in.
        """
        with self.errors("sign-in"):
            token = self.credential.get_token(self._scope).token
        name = name_in_token(token) or "an unnamed user"
        return f"as {name}{about_changes(token, self._outputs.tenant_id)}"

    @contextmanager
    def errors(self, what: str) -> Iterator[None]:
        """Convert Azure's errors in this context to those of `jobs.errors`.

        Args:
            what: Name of the request, such as "job NAME".

        Raises:
            RequestError: A request failed; the subclass tells why.
        """
        try:
            yield
        except UserError:
            raise
        except AzureError as error:
            raise explained(error, what, self._outputs, self.user) from error

    @cached_property
    def manager_url(self) -> str:
        """URL of Resource Manager, without a trailing slash."""
        metadata = os.environ.get("ARM_CLOUD_METADATA_URL")
        if metadata is None:
            return _PUBLIC
        clouds = self._json("GET", metadata, signed=False)
        with well_formed("the list of clouds"):
            urls = [str(cloud["resourceManager"]).rstrip("/") for cloud in clouds]
        # Chosen as in the SDK, so that both use the same cloud.
        return next((url for url in urls if metadata.startswith(url)), _PUBLIC)

    @property
    def _scope(self) -> str:
        return f"{self.manager_url}/.default"

    @cached_property
    def _signed(self) -> PipelineClient[Any, Any]:
        return pipeline(policies.BearerTokenCredentialPolicy(self.credential, self._scope))

    @cached_property
    def _anonymous(self) -> PipelineClient[Any, Any]:
        return pipeline()


class ReportedRetryPolicy(policies.RetryPolicy[Any, Any]):
    """Retries requests, and prints the reason for long pauses."""

    def is_retry(self, settings: dict[str, Any], response: Any) -> bool:
        """Whether to send a request again, which Azure does not delay beyond `LONGEST_WAIT`."""
        settings["asked"] = settings.get("asked", 0.0) + (self._asked(response) or 0.0)
        return settings["asked"] <= LONGEST_WAIT and super().is_retry(settings, response)

    def get_retry_after(self, response: Any) -> float | None:
        """Return the seconds in Retry-After; None if unreadable."""
        asked = self._asked(response)
        if asked:
            _report(f"busy (status {response.http_response.status_code})", asked)
        return asked

    def _asked(self, response: Any) -> float | None:
        try:
            return super().get_retry_after(response)
        except ValueError:
            return None

    def get_backoff_time(self, settings: dict[str, Any]) -> float:
        """Return the seconds to wait without a Retry-After header."""
        pause = super().get_backoff_time(settings)
        _report("not responding properly", pause)
        return pause


def pipeline(
    *auth: policies.SansIOHTTPPolicy[Any, Any] | policies.HTTPPolicy[Any, Any],
) -> PipelineClient[Any, Any]:
    """Create a client that retries transient errors.

    Args:
        auth: Policies that authenticate each request, if any.
    """
    # An unresponsive host is given up soon; a busy one gets more retries.
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
            policies.UserAgentPolicy(user_agent=PRODUCT),
            retry,
            *auth,
        ],
        connection_timeout=CONNECT_SECONDS,
        read_timeout=READ_SECONDS,
    )


def is_of_storage(headers: Mapping[str, str]) -> bool:
    """Whether a response has headers of Azure Storage, which all of its responses have."""
    return any(name.lower().startswith("x-ms-") for name in headers)


def segment(name: str) -> str:
    """Quote a name as one segment of a URL path."""
    return quote(name, safe="")


def name_of(url: str) -> str:
    """Return a readable name for a URL: the kind and name at its end."""
    parts = [part for part in urlsplit(url).path.split("/") if part]
    if len(parts) > 1 and parts[-1] in _ACTIONS:
        parts.pop()
    if len(parts) > 3 and parts[-2] == "versions":
        *parts, kind, name, _, version = parts
        parts += [kind, f"{name}:{version}"]
    return f"{parts[-2].rstrip('s')} {parts[-1]}" if len(parts) > 1 else urlsplit(url).netloc


def read_json(content: bytes, url: str) -> Any:
    """Parse the content of a response as JSON; None if it is empty.

    Args:
        content: Content of the response.
        url: URL of the request.

    Raises:
        OddAnswerError: The content is not JSON, so the response is not from Azure.
    """
    what = name_of(url)
    try:
        return json.loads(content, object_pairs_hook=partial(Answer, what)) if content else None
    except ValueError as error:
        raise OddAnswerError(
            f"{what}: the response from {urlsplit(url).netloc} is not JSON; check for a"
            " proxy or a network sign-in page in between"
        ) from error


def _sentence(response: HttpResponse) -> str | None:
    """Return the reason in {"error": "reason"}, as servers of models write it; None otherwise."""
    try:
        reason = json.loads(response.content)["error"]
    except (ValueError, LookupError, TypeError):
        return None
    return reason if isinstance(reason, str) else None


def _report(state: str, pause: float) -> None:
    if pause > REPORTED_PAUSE:
        print(f"Azure is {state}; retrying in {pause:.0f} s", file=sys.stderr, flush=True)
