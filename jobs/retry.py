"""Repeats requests while Azure does not answer, for minutes if need be, until someone stops it.

azure-core repeats each request for some seconds by itself (`jobs.azure.requests`). This is for a
network or a service that is away for longer: an upload waits for it, and so does who follows a job.
"""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final, TypeVar

from azure.core.exceptions import (
    ClientAuthenticationError,
    HttpResponseError,
    IncompleteReadError,
    ServiceRequestError,
    ServiceResponseError,
)

from jobs.errors import AccessError, SignInError, UnreachableError

T = TypeVar("T")

FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 15.0

_BUSY: Final = {408, 429, 500, 502, 503, 504}


class StoppedError(Exception):
    """Somebody else's failure, or a person, ended the work of this thread."""


class Retry(ABC):
    """Repeats requests until they are answered, for many threads at once.

    Args:
        timeout_seconds: longest time that a request may go without an answer.
        say: prints a line for a person.
        first_pause: seconds before a request is repeated; the pause doubles each time.
        longest_pause: seconds that the pause grows to at most.
    """

    answered: str
    """What a person is told when an answer has come again."""

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

    @abstractmethod
    def is_transient(self, error: Exception) -> bool:
        """Whether the same request may succeed later."""

    @abstractmethod
    def explain(self, error: Exception) -> str:
        """What a person is told once when no answer comes."""

    def pause_asked_by(self, error: Exception) -> float:  # noqa: ARG002
        """Seconds that the service asks to wait."""
        return 0.0

    def call(self, request: Callable[[], T], *, unless: tuple[type[Exception], ...] = ()) -> T:
        """The answer to a request that can be repeated without harm.

        Args:
            request: to send.
            unless: errors that are raised at once, although they may be transient.

        Raises:
            StoppedError: the work was stopped meanwhile.
            Exception: what the request raises and waiting does not help, or none came in time.
        """
        pause, ends = self._first_pause, None
        while True:
            self.check()
            try:
                answer = request()
            except Exception as error:
                if isinstance(error, unless) or not self.is_transient(error):
                    raise
                now = time.monotonic()
                ends = now + self.timeout_seconds if ends is None else ends
                if now >= ends:
                    raise
                self._tell(away=True, text=self.explain(error))
                self._wait(min(max(pause, self.pause_asked_by(error)), ends - now))
                pause = min(2 * pause, self._longest_pause)
            else:
                self._tell(away=False, text=self.answered)
                return answer

    def stop(self) -> None:
        """Let all threads end as soon as they can."""
        self._stop.set()

    def interrupt(self) -> None:
        """Let all threads end, as a person has said so."""
        self._say("stopping as soon as the requests that are under way have ended")
        self.stop()

    @property
    def stopped(self) -> bool:
        return self._stop.is_set()

    def check(self) -> None:
        """Raise if the work was stopped.

        Raises:
            StoppedError: it was.
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
    """Repeats requests to blob storage, whose errors are azure-core's own."""

    answered = "storage answers again"

    def is_transient(self, error: Exception) -> bool:
        """Whether the network or the service was away, or the service busy."""
        if isinstance(error, HttpResponseError) and error.status_code is not None:
            return error.status_code in _BUSY
        # A new token may be needed just when the network is away.
        cause: BaseException | None = error
        while isinstance(cause, ClientAuthenticationError):
            cause = cause.__cause__
        return isinstance(cause, IncompleteReadError | ServiceRequestError | ServiceResponseError)

    def explain(self, error: Exception) -> str:
        """The cause in a word or two, and for how long requests are repeated."""
        minutes = f"{self.timeout_seconds / 60:g} minutes"
        return f"storage does not answer ({_cause(error)}); trying again for {minutes}"

    def pause_asked_by(self, error: Exception) -> float:
        """Seconds in the header Retry-After."""
        response = getattr(error, "response", None)
        text = str(response.headers.get("Retry-After", "")) if response is not None else ""
        return float(text) if text.isdecimal() else 0.0


class AzureRetry(Retry):
    """Repeats questions about a run, whose errors are our own.

    Args:
        timeout_seconds: longest continuous outage of Azure to tolerate.
        say: prints a line for a person.
        pause: seconds between two questions.
    """

    answered = "Azure answers again"

    def __init__(self, timeout_seconds: float, say: Callable[[str], None], pause: float) -> None:
        super().__init__(timeout_seconds, say, first_pause=pause, longest_pause=pause)
        self._was_answered = False

    def is_transient(self, error: Exception) -> bool:
        """Whether Azure was away, or refuses who was allowed to ask before: that one is on another
        network now, or has to sign in again.
        """
        if isinstance(error, AccessError | SignInError):
            return self._was_answered
        return isinstance(error, UnreachableError)

    def explain(self, error: Exception) -> str:
        """The first line of the error."""
        text = str(error).splitlines()[0]
        return f"no answer from Azure; a job that runs goes on, and so does asking ({text})"

    def call(self, request: Callable[[], T], *, unless: tuple[type[Exception], ...] = ()) -> T:
        """See `Retry.call`."""
        answer = super().call(request, unless=unless)
        self._was_answered = True
        return answer


def _cause(error: Exception) -> str:
    status = getattr(error, "status_code", None)
    if status is not None:
        return f"status {status}"
    inner = getattr(error, "inner_exception", None)
    if "refused" in str(inner or error):
        return "connection refused"
    return type(inner or error).__name__
