"""Retry requests while Azure does not respond: for minutes, until a timeout or until stopped.

The SDKs retry each request a few times, for some seconds. This module waits for the end of longer
outages of the network or a service, during uploads and downloads and while following a job: until a
time has passed, with pauses of at least Retry-After, told once for all threads, ended by Ctrl-C.
"""

import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final, TypeVar

from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    HttpResponseError,
    IncompleteReadError,
    ServiceRequestError,
    ServiceResponseError,
)
from azure.core.pipeline.policies import RetryPolicy
from azure.storage.blob import ExponentialRetry
from requests import RequestException

from jobs.errors import (
    AccessError,
    RequestError,
    SignInError,
    UnreachableError,
)

T = TypeVar("T")

FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 15.0

REFUSAL_SECONDS: Final = 300.0
"""Longest time in seconds for which a refusal by Azure is retried once Azure has answered: a single
400, 404 or 409 does not mean that the next request is refused as well."""

_BUSY: Final = {408, 429, 500, 502, 503, 504}
_DAMAGED: Final = 2
"""How often a response whose MD5 is wrong is requested again."""


class StoppedError(Exception):
    """The work of this thread was stopped by a failure in another thread, or by the user."""


class Retry(ABC):
    """Retries requests until they succeed; shared by many threads.

    Args:
        timeout_seconds: Seconds after which a request is no longer retried.
        say: Prints a progress line.
        first_pause: Seconds before the first retry; the pause doubles with each further retry.
        longest_pause: Maximum pause, in seconds.
    """

    answered: str
    """Message for the first response after an outage."""

    def __init__(
        self,
        timeout_seconds: float,
        say: Callable[[str], None],
        *,
        first_pause: float = FIRST_PAUSE,
        longest_pause: float = LONGEST_PAUSE,
    ) -> None:
        self.timeout_seconds = timeout_seconds
        self._say = say
        self._first_pause, self._longest_pause = first_pause, longest_pause
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._away = False
        self._was_answered = False

    @abstractmethod
    def is_transient(self, error: Exception) -> bool:
        """Whether the same request may succeed later."""

    def patience(self, error: Exception) -> float:  # noqa: ARG002
        """Return the seconds for which such a transient error is retried."""
        return self.timeout_seconds

    @abstractmethod
    def explain(self, error: Exception) -> str:
        """Return the message that is printed once when an outage begins."""

    def call(
        self,
        request: Callable[[], T],
        *,
        unless: tuple[type[Exception], ...] = (),
        at_most: float = math.inf,
    ) -> T:
        """Send an idempotent request, retry it while its errors are transient, return its answer.

        Args:
            request: Sends the request.
            unless: Errors that are raised at once, even if they are transient.
            at_most: Seconds after which this request is no longer retried, if less than the
                timeout.

        Raises:
            StoppedError: The work was stopped.
            Exception: The request's error, if it is not transient or the timeout has passed.
        """
        pause, began = self._first_pause, None
        while True:
            self.check()
            try:
                answer = request()
            except Exception as error:
                if isinstance(error, unless) or not self.is_transient(error):
                    raise
                now = time.monotonic()
                began = now if began is None else began
                left = began + min(self.patience(error), at_most) - now
                if left <= 0:
                    raise
                self._tell(away=True, text=self.explain(error))
                self._wait(min(max(pause, _retry_after(error)), left))
                pause = min(2 * pause, self._longest_pause)
            else:
                self._was_answered = True
                self._tell(away=False, text=self.answered)
                return answer

    def stop(self) -> None:
        """Make all threads stop as soon as possible."""
        self._stop.set()

    def interrupt(self) -> None:
        """Make all threads stop at the user's request."""
        self._say("stopping as soon as the current requests have completed")
        self.stop()

    def check(self) -> None:
        """Check whether the work was stopped.

        Raises:
            StoppedError: The work was stopped.
        """
        if self._stop.is_set():
            raise StoppedError

    def _wait(self, seconds: float) -> None:
        self._stop.wait(seconds)

    def _tell(self, *, away: bool, text: str) -> None:
        with self._lock:
            if self._away != away:
                self._away = away
                self._say(text)


class StorageRetry(Retry):
    """Retries requests to blob storage, whose errors are azure-core's; see `StorageRetryPolicy`."""

    answered = "storage responds again"

    def is_transient(self, error: Exception) -> bool:
        """Whether the network or the service was unavailable, or the service was busy."""
        if isinstance(error, HttpResponseError) and error.status_code is not None:
            return error.status_code in _BUSY
        # A new token may be needed while the network is down.
        cause: BaseException | None = error
        while isinstance(cause, ClientAuthenticationError):
            cause = cause.__cause__
        return isinstance(cause, IncompleteReadError | ServiceRequestError | ServiceResponseError)

    def explain(self, error: Exception) -> str:
        """Return the cause, and for how long requests are retried."""
        minutes = f"{self.timeout_seconds / 60:g} minutes"
        return f"storage does not respond ({_cause(error)}); retrying for {minutes}"


class StorageRetryPolicy(ExponentialRetry):
    """Retry policy of a client of blob storage, which waits as a `StorageRetry` does.

    The SDK's own policy gives up after a number of retries, not after a time; it ignores status 429
    and Retry-After, and Ctrl-C does not end its pauses. Only damaged responses are left to it.

    Args:
        retry: Retries of this client's requests; several clients may share them.
    """

    def __init__(self, retry: StorageRetry) -> None:
        super().__init__(0, 0, _DAMAGED, random_jitter_range=0)
        self._retry = retry

    def send(self, request: Any) -> Any:
        """Send a request, and wait for the end of an outage. See `Retry.call` for the errors."""
        return self._retry.call(lambda: self._send(request))

    def _send(self, request: Any) -> Any:
        try:
            response: Any = super().send(request)  # type: ignore[no-untyped-call]
        except RequestException as error:
            # The SDK reads the body to check its MD5, and lets errors of that through.
            raise ServiceResponseError("the connection was cut", error=error) from error
        if response.http_response.status_code in _BUSY:
            raise HttpResponseError(response=response.http_response)
        return response

    def increment(
        self,
        settings: dict[str, Any],
        request: Any,
        response: Any = None,
        error: AzureError | None = None,
    ) -> bool:
        """Whether to send a request again at once: only if its response is damaged."""
        damaged = response is not None and response.status_code < 300
        return damaged and super().increment(settings, request, response, error)


class AzureRetry(Retry):
    """Retries requests about a run, whose errors are those of `jobs.errors`.

    Args:
        timeout_seconds: Longest continuous outage of Azure to tolerate, in seconds.
        say: Prints a progress line.
        pause: Seconds between two requests.
    """

    answered = "Azure responds again"

    def __init__(self, timeout_seconds: float, say: Callable[[str], None], pause: float) -> None:
        super().__init__(timeout_seconds, say, first_pause=pause, longest_pause=pause)

    def is_transient(self, error: Exception) -> bool:
        """Whether Azure was unreachable or gave an odd answer, or refuses a user whom it served
        before: after a change of network, an expired sign-in, or for no reason.
        """
        if isinstance(error, UnreachableError):
            return True
        return isinstance(error, RequestError) and self._was_answered

    def patience(self, error: Exception) -> float:
        """Return the timeout; for a refusal that waiting seldom changes, at most
        `REFUSAL_SECONDS`.
        """
        if isinstance(error, UnreachableError | AccessError | SignInError):
            return self.timeout_seconds
        return min(self.timeout_seconds, REFUSAL_SECONDS)

    def explain(self, error: Exception) -> str:
        """Return a message with the first line of the error."""
        text = str(error).splitlines()[0]
        if not isinstance(error, UnreachableError | AccessError | SignInError):
            return f"Azure refuses a request; retrying for some minutes ({text})"
        is_away = isinstance(error, UnreachableError) and error.status is None
        state = "no response from Azure" if is_away else "Azure serves no requests now"
        return f"{state}; retrying, a running job is not affected ({text})"


def _retry_after(error: Exception) -> float:
    """Return the seconds that the service asks the client to wait; 0 if it does not say.

    Retry-After is a number of seconds or a date (RFC 9110, section 10.2.3).
    """
    response = getattr(error, "response", None) or getattr(error.__cause__, "response", None)
    text = str(response.headers.get("Retry-After", "")) if response is not None else ""
    try:
        return RetryPolicy().parse_retry_after(text)
    except ValueError:
        return 0.0


def _cause(error: Exception) -> str:
    status = getattr(error, "status_code", None)
    if status is not None:
        return f"status {status}"
    inner = getattr(error, "inner_exception", None)
    if "refused" in str(inner or error):
        return "connection refused"
    return type(inner or error).__name__
