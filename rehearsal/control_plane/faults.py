"""Failures on request, and a record of what was asked."""

import re
import threading
import time
from collections import deque
from dataclasses import dataclass, replace

from rehearsal.control_plane.http_messages import Answer, Asked

_KEPT = 20_000


@dataclass(frozen=True)
class Request:
    """One request that was answered, or not."""

    method: str
    path: str
    query: str
    status: int
    """0 if the connection was cut."""
    caller: str
    at: float
    """Seconds since the epoch."""
    seconds: float | None = None
    """Until it was answered."""


@dataclass(frozen=True)
class Fault:
    """What happens to requests that match."""

    match: str
    """A regular expression, searched in `METHOD /path?query`."""
    caller: str | None = None
    """Client id of who asks; anybody if none."""
    status: int | None = None
    """Answer this instead of doing what is asked."""
    code: str = "ServerError"
    message: str = "A failure that was asked for."
    retry_after: float | None = None
    """Seconds, in the Retry-After header."""
    delay: float = 0.0
    """Seconds before anything else."""
    cut: bool = False
    """Close the connection without an answer."""
    after: int = 0
    """How many matching requests pass before."""
    times: int | None = 1
    """How many requests it happens to; without end if none."""


class Faults:
    """Faults that are waiting for their requests, and the requests that came."""

    def __init__(self) -> None:
        """Let everything pass."""
        self._faults: list[Fault] = []
        self._requests: deque[Request] = deque(maxlen=_KEPT)
        self._lock = threading.Lock()

    def add(self, fault: Fault) -> None:
        """Let requests fail from now on."""
        re.compile(fault.match)
        with self._lock:
            self._faults.append(fault)

    def clear(self) -> None:
        """Let everything pass again."""
        with self._lock:
            self._faults.clear()

    def note(self, request: Request) -> None:
        """Remember a request."""
        with self._lock:
            self._requests.append(request)

    @property
    def requests(self) -> list[Request]:
        """What was asked, the oldest first."""
        with self._lock:
            return list(self._requests)

    def forget(self) -> None:
        """Forget what was asked."""
        with self._lock:
            self._requests.clear()

    def answer(self, asked: Asked, query: str) -> Answer | None:
        """Wait, and answer, as a fault wants it; none if the request may pass."""
        text = f"{asked.method} {asked.path}" + (f"?{query}" if query else "")
        fault = self._take(text, asked.caller)
        if fault is None:
            return None
        time.sleep(fault.delay)
        if fault.cut:
            return Answer(0, cut=True)
        if fault.status is None:
            return None
        headers = {} if fault.retry_after is None else {"Retry-After": f"{fault.retry_after:g}"}
        body = {"error": {"code": fault.code, "message": fault.message}}
        return Answer(fault.status, body, headers)

    def _take(self, text: str, caller: str) -> Fault | None:
        with self._lock:
            for index, fault in enumerate(self._faults):
                if fault.caller not in {None, caller} or not re.search(
                    fault.match, text, re.IGNORECASE
                ):
                    continue
                if fault.after:
                    self._faults[index] = replace(fault, after=fault.after - 1)
                    continue
                if fault.times is not None:
                    self._faults[index] = replace(fault, times=fault.times - 1)
                    if fault.times <= 1:
                        del self._faults[index]
                return fault
        return None
