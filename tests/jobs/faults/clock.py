"""A clock that only waiting advances: minutes of outage take milliseconds."""

import heapq
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from jobs import retry
from rehearsal.control_plane import identity

_REAL = time.time


class Clock:
    """Time of a command: starts at 0, and advances by the waits of the command."""

    def __init__(self) -> None:
        self.now = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._lock = threading.RLock()

    def after(self, seconds: float, event: Callable[[], None]) -> None:
        """Let something happen once the clock has advanced by some seconds."""
        with self._lock:
            heapq.heappush(self._events, (self.now + seconds, next(self._numbers), event))

    def clear(self) -> None:
        """Let nothing happen that was to."""
        with self._lock:
            self._events.clear()

    def sleep(self, seconds: float) -> None:
        """Advance the clock, and let due events happen."""
        with self._lock:
            until = self.now + max(seconds, 0.0)
            while self._events and self._events[0][0] <= until:
                due, _, event = heapq.heappop(self._events)
                self.now = max(self.now, due)
                event()
            self.now = max(self.now, until)

    @contextmanager
    def patched(self, ahead: float = 0.0) -> Iterator[None]:
        """Make a command that this thread runs live by this clock, with all threads that it starts.
        Threads that run already keep the real time: the event loop of a server would otherwise wait
        for hours once the clock is gone.

        Args:
            ahead: Seconds by which the wall clock is ahead of Azure's.
        """

        def wait(retries: retry.Retry, seconds: float) -> None:
            del retries
            self.sleep(seconds)

        others = {*threading.enumerate()} - {threading.current_thread()}

        def unless_other(own: Callable[..., Any], real: Callable[..., Any]) -> Callable[..., Any]:
            def call(*args: float) -> Any:
                return (real if threading.current_thread() in others else own)(*args)

            return call

        with ExitStack() as stack:
            for owner, name, value in (
                (time, "sleep", unless_other(self.sleep, time.sleep)),
                (time, "monotonic", unless_other(lambda: self.now, time.monotonic)),
                (time, "time", unless_other(lambda: _REAL() + self.now + ahead, _REAL)),
                (retry.Retry, "_wait", wait),
                # Tokens are checked by the blob server too, which has the real time.
                (identity, "time", SimpleNamespace(time=_REAL)),
            ):
                stack.enter_context(patch.object(owner, name, value))
            yield
