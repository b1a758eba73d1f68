"""Waiting for a condition instead of for a fixed time."""

import time
from collections.abc import Callable


def wait_until(
    condition: Callable[[], object], timeout_seconds: float, poll_seconds: float = 0.05
) -> bool:
    """Check a condition until it holds or the time is over.

    Args:
        condition: checked at least once; an exception that it raises is not caught.
        timeout_seconds: longest time to wait.
        poll_seconds: time between two checks.

    Returns:
        Whether the condition came to hold.
    """
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(poll_seconds)
    return True
