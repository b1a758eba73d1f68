"""Failures on request."""

import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from rehearsal.control_plane.http_messages import Request, Respond, Response


@dataclass(frozen=True)
class Fault:
    """A fault for requests that match a pattern."""

    match: str
    """Regular expression, searched in `METHOD /path?query`."""
    caller: str | None = None
    """Client id of the program whose requests match; None for all programs."""
    status: int | None = None
    """Status of the response that replaces the service's own; None leaves it."""
    code: str = "ServerError"
    message: str = "Injected failure."
    retry_after: float | None = None
    """Value of the Retry-After header, in seconds."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Other headers of that response."""
    delay: float = 0.0
    """Seconds to wait before responding."""
    cut: bool = False
    """Whether the connection is closed without a response."""
    body: str | None = None
    """Body of the response that replaces the service's own, such as a sign-in page; None leaves it.
    Its status is 200 unless `status` is given."""
    carried_out: bool = False
    """Whether the service carries the request out before its response is lost or replaced."""
    after: int = 0
    """Number of matching requests that pass before the fault applies."""
    times: int | None = 1
    """Number of requests that the fault applies to; None for all."""


class Faults:
    """Faults that have not been used up."""

    def __init__(self) -> None:
        """Start without faults."""
        self._faults: list[Fault] = []
        self._lock = threading.Lock()

    def add(self, fault: Fault) -> None:
        """Make requests fail from now on.

        Raises:
            re.error: its `match` is not a regular expression.
        """
        re.compile(fault.match)
        with self._lock:
            self._faults.append(fault)

    def clear(self) -> None:
        """Remove all faults."""
        with self._lock:
            self._faults.clear()

    def respond(self, request: Request, service: Respond) -> Response:
        """Wait and respond as the first matching fault says, or let the service respond."""
        query = request.query_string
        text = f"{request.method} {request.path}" + (f"?{query}" if query else "")
        fault = self._take(text, request.caller)
        if fault is None:
            return service(request)
        time.sleep(fault.delay)
        if fault.carried_out:
            service(request)
        if fault.cut:
            return Response(0, cut=True)
        if fault.body is not None:
            return Response(fault.status or 200, fault.body.encode())
        if fault.status is None:
            return service(request)
        headers = {} if fault.retry_after is None else {"Retry-After": f"{fault.retry_after:g}"}
        headers |= fault.headers
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
