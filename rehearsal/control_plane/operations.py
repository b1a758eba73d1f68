"""What Azure accepts first and does later."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from rehearsal.control_plane.http_messages import Answer
from rehearsal.control_plane.resource_kind import new_id
from rehearsal.errors import AzureError

PATH = "/providers/Microsoft.MachineLearningServices/locations/any/mfeOperationResults/"


@dataclass
class _Operation:
    due: float
    finish: Callable[[], None]
    done: bool = False


class Operations:
    """Operations that go on for a while after their request was answered."""

    def __init__(self, seconds: float) -> None:
        """Let operations take so many seconds."""
        self._seconds = seconds
        self._operations: dict[str, _Operation] = {}
        self._lock = threading.RLock()

    def accept(self, subscription: str, base: str, finish: Callable[[], None]) -> Answer:
        """Answer a request whose work is done later.

        Args:
            subscription: that the operation belongs to.
            base: address of this Azure.
            finish: does the work.
        """
        name = new_id()
        with self._lock:
            self._operations[name] = _Operation(time.monotonic() + self._seconds, finish)
        address = f"{base}/subscriptions/{subscription}{PATH}{name}"
        return Answer(202, None, {"Location": address, "Retry-After": "1"})

    def settle(self) -> None:
        """Do what is due."""
        with self._lock:
            for operation in self._operations.values():
                if not operation.done and operation.due <= time.monotonic():
                    operation.done = True
                    operation.finish()

    def answer(self, path: str) -> Answer | None:
        """Whether an operation goes on, or none if the path is that of no operation."""
        _, marker, name = path.partition(PATH)
        if not marker:
            return None
        with self._lock:
            operation = self._operations.get(name)
        if operation is None:
            raise AzureError(404, "NotFound", f"There is no operation {name}")
        return Answer(200, {"status": "Succeeded"}) if operation.done else Answer(202)
