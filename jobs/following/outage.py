"""Waits while Azure cannot be asked, and tells a person once that it does."""

import time
from collections.abc import Callable
from typing import Final, TypeVar

from jobs.console import Console
from jobs.errors import AccessError, RequestError, SignInError, UnreachableError

T = TypeVar("T")

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
