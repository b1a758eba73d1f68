"""Requests that wait at the same time share one call of the model. Standard library only.

A call takes TensorFlow longer than the work for one small image, so one call for several images
costs much less than as many calls. Of the threads that wait, one makes the next call for all. There
is no thread besides, so a worker that is told to end answers what it has accepted.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

Values = dict[str, Any]
"""Outputs of the model by name, each an array."""

_SHARED: Final = "class_names"
"""Output that a model may return once for all images, as an array of one dimension."""


class BusyError(Exception):
    """A request that waited too long, or for which there is no place to wait."""


@dataclass(frozen=True)
class Limits:
    """When requests share a call."""

    wait: float
    """Longest time that a call waits for requests that are being read, in seconds."""
    images: int
    """Most images in a call, unless one request has more."""
    waiting: int
    """Most images that wait."""
    deadline: float
    """Longest time that a request waits for its call to begin, in seconds."""


class _Request:
    def __init__(self, images: Sequence[bytes]) -> None:
        self.images = images
        self.outcome: Values | Exception | None = None


class Batcher:
    """Calls a model for the images of requests in several threads; one call at a time."""

    def __init__(self, call: Callable[[Sequence[bytes]], Values], limits: Limits) -> None:
        """Wrap a model.

        Args:
            call: Function from encoded images, b of them, to outputs [b, ...].
            limits: When requests share a call.
        """
        self._call, self._limits = call, limits
        self._changed = threading.Condition()
        self._queue: deque[_Request] = deque()
        self._arriving = 0
        self._busy = False

    @contextmanager
    def arriving(self) -> Iterator[Callable[[Sequence[bytes]], Values]]:
        """While a request is read, so that a call may wait for it; gives the function that returns
        the outputs for its images.

        That function raises:
            BusyError: Too many images wait, or the call did not begin in time.
            Exception: The exception of the model for these images alone.
        """
        arrived = False

        def arrive() -> None:
            nonlocal arrived
            self._arriving -= not arrived
            arrived = True
            self._changed.notify_all()

        def values(images: Sequence[bytes]) -> Values:
            request = _Request(images)
            with self._changed:
                self._add(request)
                arrive()
                self._wait_for(request)
            assert request.outcome is not None
            if isinstance(request.outcome, Exception):
                raise request.outcome
            return request.outcome

        with self._changed:
            self._arriving += 1
        try:
            yield values
        finally:
            with self._changed:
                arrive()

    def _add(self, request: _Request) -> None:
        if self._queue and self._waiting() + len(request.images) > self._limits.waiting:
            raise BusyError("too many images are waiting")
        self._queue.append(request)

    def _wait_for(self, request: _Request) -> None:
        """Wait until a request is answered; make the calls for which no other thread is there."""
        self._wait_for_turn(request)
        while request.outcome is None:
            self._busy = True
            try:
                self._wait_for_others()
                self._work(self._next())
            finally:
                self._busy = False
                self._changed.notify_all()

    def _waiting(self) -> int:
        return sum(len(request.images) for request in self._queue)

    def _wait_for_turn(self, request: _Request) -> None:
        """Wait until a request is answered, or its thread is to make the next call."""
        end = time.monotonic() + self._limits.deadline
        while self._busy and request.outcome is None:
            left = end - time.monotonic()
            # A call that has begun is waited for: its answer is near.
            if left <= 0 and request in self._queue:
                self._queue.remove(request)
                raise BusyError("no call of the model began in time")
            self._changed.wait(left if left > 0 else None)

    def _wait_for_others(self) -> None:
        """Wait until all requests that are being read are here, but not for long."""
        end = time.monotonic() + self._limits.wait
        while self._arriving and self._waiting() < self._limits.images:
            left = end - time.monotonic()
            if left <= 0:
                return
            self._changed.wait(left)

    def _next(self) -> list[_Request]:
        """Take the requests of the next call, the oldest first."""
        taken = [self._queue.popleft()]
        room = self._limits.images - len(taken[0].images)
        while self._queue and len(self._queue[0].images) <= room:
            taken.append(self._queue.popleft())
            room -= len(taken[-1].images)
        return taken

    def _work(self, requests: list[_Request]) -> None:
        """Answer requests in one call. Others may come meanwhile."""
        self._changed.release()
        try:
            outcomes = self._outcomes(requests)
        finally:
            self._changed.acquire()
        for request, outcome in zip(requests, outcomes, strict=True):
            request.outcome = outcome

    def _outcomes(self, requests: Sequence[_Request]) -> list[Values | Exception]:
        """Call the model for some requests, or for each alone if that fails."""
        begin, outcomes = 0, list[Values | Exception]()
        try:
            values = self._call([image for request in requests for image in request.images])
        except Exception as error:  # noqa: BLE001 - raised where the request is answered
            if len(requests) == 1:
                return [error]
            return [outcome for request in requests for outcome in self._outcomes([request])]
        for request in requests:
            end = begin + len(request.images)
            outcomes.append(rows(values, begin, end))
            begin = end
        return outcomes


def rows(values: Mapping[str, Any], begin: int, end: int) -> Values:
    """Return the outputs of some of the images."""
    return {
        name: value if name == _SHARED and value.ndim == 1 else value[begin:end]
        for name, value in values.items()
    }
