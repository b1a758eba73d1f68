"""A log of all requests, for tests and for the page of a rehearsal."""

import threading
import time
from collections import deque
from dataclasses import dataclass

from rehearsal.control_plane.http_messages import Request, Respond, Response

_KEPT = 20_000


@dataclass(frozen=True)
class LoggedRequest:
    """A request and its response."""

    method: str
    path: str
    query: str
    status: int
    """HTTP status, or 0 if the connection was cut."""
    caller: str
    at: float
    """Seconds since the epoch."""
    seconds: float | None = None
    """Time until the response."""
    user_agent: str = ""
    """Name and version of the program that sent it, in its own words; nothing is refused for it."""


class RequestLog:
    """The most recent requests, shared by all threads."""

    def __init__(self) -> None:
        """Start with an empty log."""
        self._requests: deque[LoggedRequest] = deque(maxlen=_KEPT)
        self._lock = threading.Lock()

    @property
    def requests(self) -> list[LoggedRequest]:
        """Return all requests, the oldest first."""
        with self._lock:
            return list(self._requests)

    def clear(self) -> None:
        """Remove all requests."""
        with self._lock:
            self._requests.clear()

    def log(self, request: Request, respond: Respond) -> Response:
        """Respond to a request, and log it with its status and time."""
        began = time.time()
        response = respond(request)
        logged = LoggedRequest(
            method=request.method,
            path=request.path,
            query=request.query_string,
            status=response.status,
            caller=request.caller,
            at=began,
            seconds=time.time() - began,
            user_agent=request.headers.get("user-agent", ""),
        )
        with self._lock:
            self._requests.append(logged)
        return response
