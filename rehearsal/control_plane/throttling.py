"""Rates of requests that Resource Manager allows: a bucket of tokens for each client.

Source: Microsoft, "Understand how Azure Resource Manager throttles requests", limits since 2024. A
bucket belongs to a subscription, a principal and a kind of operation. The code of the refusal is
reported by users, and not documented.
"""

import math
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from rehearsal.control_plane.http_messages import Request, Respond, Response
from rehearsal.errors import AzureError

BUCKETS: Final = {"reads": (250, 25.0), "writes": (200, 10.0), "deletes": (200, 10.0)}
"""Size of a bucket, and the tokens that it gets in a second, by operation."""
_SUBSCRIPTION: Final = re.compile(r"/subscriptions/([^/]+)", re.IGNORECASE)


@dataclass
class Throttling:
    """Refuses the requests of a client that are too many."""

    next: Respond
    """Responds to requests to Resource Manager."""
    clock: Callable[[], float] = time.monotonic
    """Returns the time in seconds."""
    _buckets: dict[tuple[str, str, str], tuple[float, float]] = field(default_factory=dict)
    """Tokens, and the time at which there were that many."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def respond(self, request: Request) -> Response:
        """Take a token for a request below a subscription; respond with 429 if there is none."""
        match = _SUBSCRIPTION.match(request.path)
        if match is None:
            return self.next(request)
        reads = request.method in {"GET", "HEAD"}
        operation = "reads" if reads else "deletes" if request.method == "DELETE" else "writes"
        size, rate = BUCKETS[operation]
        key = (match[1].lower(), request.caller, operation)
        with self._lock:
            now = self.clock()
            tokens, since = self._buckets.get(key, (float(size), now))
            tokens = min(size, tokens + (now - since) * rate)
            taken = tokens >= 1
            self._buckets[key] = (tokens - 1 if taken else tokens, now)
        if taken:
            return self.next(request)
        error = AzureError(
            429,
            "SubscriptionRequestsThrottled",
            f"Number of '{operation}' for subscription '{match[1]}' exceeded the limit; try again"
            " after the time of the header Retry-After.",
        )
        wait = math.ceil((1 - tokens) / rate)
        return Response(429, error.body(), {"Retry-After": str(wait)})
