"""Failures on request."""

import re
import threading
import time
from dataclasses import dataclass, replace

from rehearsal.control_plane.http_messages import Request, Response


@dataclass(frozen=True)
class Fault:
    """What happens to requests that match."""

    match: str
    """A regular expression, searched in `METHOD /path?query`."""
    caller: str | None = None
    """Client id of the program whose requests match; None for all programs."""
    status: int | None = None
    """Status to respond with in place of the service's own response."""
    code: str = "ServerError"
    message: str = "Injected failure."
    retry_after: float | None = None
    """Seconds, in the Retry-After header."""
    delay: float = 0.0
    """Seconds to wait before anything else."""
    cut: bool = False
    """Whether the connection is closed without a response."""
    after: int = 0
    """How many matching requests pass first."""
    times: int | None = 1
    """How many requests it happens to; None for all of them."""


class Faults:
    """Faults that wait for their requests."""

    def __init__(self) -> None:
        """Let everything pass."""
        self._faults: list[Fault] = []
        self._lock = threading.Lock()

    def add(self, fault: Fault) -> None:
        """Let requests fail from now on.

        Raises:
            re.error: its `match` is no regular expression.
        """
        re.compile(fault.match)
        with self._lock:
            self._faults.append(fault)

    def clear(self) -> None:
        """Let everything pass again."""
        with self._lock:
            self._faults.clear()

    def response(self, request: Request) -> Response | None:
        """Wait and respond as the first fault that matches says; None if the request may pass."""
        query = request.query_string
        text = f"{request.method} {request.path}" + (f"?{query}" if query else "")
        fault = self._take(text, request.caller)
        if fault is None:
            return None
        time.sleep(fault.delay)
        if fault.cut:
            return Response(0, cut=True)
        if fault.status is None:
            return None
        headers = {} if fault.retry_after is None else {"Retry-After": f"{fault.retry_after:g}"}
        body = {"error": {"code": fault.code, "message": fault.message}}
        return Response(fault.status, body, headers)

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
