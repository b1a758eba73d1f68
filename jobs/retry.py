"""Requests to a service that may be away for minutes, and that a person may stop."""

import threading
import time
from collections.abc import Callable
from typing import Final, TypeVar

from azure.core.exceptions import (
    ClientAuthenticationError,
    HttpResponseError,
    IncompleteReadError,
    ServiceRequestError,
    ServiceResponseError,
)

from jobs.console import Console
from jobs.errors import AccessError, RequestError, SignInError, UnreachableError

T = TypeVar("T")

FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 15.0

_PASSING: Final = {408, 429, 500, 502, 503, 504}


class StoppedError(Exception):
    """Somebody else's failure, or a person, ended the work of this thread."""


class Patience:
    """Repeats requests until they are answered, for many threads at once.

    Args:
        seconds: that a request may go unanswered before it counts as failed.
        say: prints a line for a person.
    """

    def __init__(self, seconds: float, say: Callable[[str], None]) -> None:
        self._seconds = seconds
        self._say = say
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._away = False

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

    def ask(self, request: Callable[[], T]) -> T:
        """The answer to a request that can be repeated without harm.

        Raises:
            StoppedError: the work was stopped meanwhile.
            AzureError: the answer is an error that stays, or none came in time.
        """
        pause, ends = FIRST_PAUSE, None
        while True:
            self.check()
            try:
                answer = request()
            except (
                HttpResponseError,
                IncompleteReadError,
                ServiceRequestError,
                ServiceResponseError,
            ) as error:
                if not passing(error):
                    raise
                now = time.monotonic()
                ends = now + self._seconds if ends is None else ends
                if now >= ends:
                    raise
                self._told(away=True, why=error)
                self._stop.wait(min(max(pause, _asked_for(error)), ends - now))
                pause = min(2 * pause, LONGEST_PAUSE)
            else:
                if self._away:
                    self._told(away=False)
                return answer

    def _told(self, *, away: bool, why: BaseException | None = None) -> None:
        with self._lock:
            if self._away == away:
                return
            self._away = away
            if away:
                self._say(
                    f"storage does not answer ({_short(why)}); trying again for"
                    f" {self._seconds / 60:g} minutes"
                )
            else:
                self._say("storage answers again")


def passing(error: Exception) -> bool:
    """Whether the same request may succeed later."""
    if isinstance(error, HttpResponseError) and error.status_code is not None:
        return error.status_code in _PASSING
    # A new token may be needed just when the network is away.
    cause: BaseException | None = error
    while isinstance(cause, ClientAuthenticationError):
        cause = cause.__cause__
    return isinstance(cause, IncompleteReadError | ServiceRequestError | ServiceResponseError)


def _asked_for(error: Exception) -> float:
    """Seconds that the service asks to wait."""
    response = getattr(error, "response", None)
    text = str(response.headers.get("Retry-After", "")) if response is not None else ""
    return float(text) if text.isdecimal() else 0.0


def _short(error: BaseException | None) -> str:
    status = getattr(error, "status_code", None)
    if status is not None:
        return f"status {status}"
    inner = getattr(error, "inner_exception", None)
    text = str(inner or error)
    refused = "refused" in text
    return "connection refused" if refused else type(inner or error).__name__


PASSING: Final = (UnreachableError, AccessError, SignInError)
"""What may pass by itself: who could ask before is on another network now, or signs in again."""


class Outage:
    """Whether Azure answers at the moment, for all who ask about one run."""

    def __init__(self, console: Console, patience_seconds: float, poll_seconds: float) -> None:
        self._console = console
        self._patience = patience_seconds
        self._poll = poll_seconds
        self._lost_at: float | None = None
        self._answered = False

    def answered(self) -> None:
        """An answer has come."""
        self._answered = True
        if self._lost_at is not None:
            self._lost_at = None
            self._console.note("Azure answers again")

    def lost(self, error: RequestError) -> None:
        """No answer has come.

        Raises:
            RequestError: the one given, if no waiting helps or it has lasted too long.
        """
        if not isinstance(error, PASSING):
            raise error
        if not self._answered and not isinstance(error, UnreachableError):
            raise error
        now = time.monotonic()
        if self._lost_at is None:
            self._lost_at = now
            text = str(error).splitlines()[0]
            self._console.note(
                f"no answer from Azure; a job that runs goes on, and so does asking ({text})"
            )
        if now - self._lost_at > self._patience:
            raise error

    def ask(self, question: Callable[[], T], *, despite_refusal: bool = True) -> T:
        """Ask until an answer comes.

        Args:
            question: to ask.
            despite_refusal: whether a refusal may pass; it does not for what needs a role of its
                own, as nobody gets that by waiting.

        Raises:
            RequestError: no waiting helps, or it has lasted too long.
        """
        while True:
            try:
                found = question()
            except RequestError as error:
                if isinstance(error, AccessError) and not despite_refusal:
                    raise
                self.lost(error)
                time.sleep(self._poll)
            else:
                self.answered()
                return found
