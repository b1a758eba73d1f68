"""Wait for a condition instead of a fixed time."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(condition: Callable[[], T], timeout_seconds: float, poll_seconds: float = 0.05) -> T:
    """Check a condition repeatedly until it holds or a timeout has passed.

    Args:
        condition: Condition, checked at least once, and once more when the timeout has passed; its
            exceptions are not caught.
        timeout_seconds: Longest time to wait.
        poll_seconds: Time between two checks.

    Returns:
        The last result of the condition: true if it held before the timeout, false otherwise.
    """
    deadline = time.monotonic() + timeout_seconds
    while True:
        left = deadline - time.monotonic()
        held = condition()
        if held or left <= 0:
            return held
        time.sleep(min(poll_seconds, left))
