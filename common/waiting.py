"""Wait for a condition instead of a fixed time."""

import time
from collections.abc import Callable


def wait_until(
    condition: Callable[[], object], timeout_seconds: float, poll_seconds: float = 0.05
) -> bool:
    """Check a condition repeatedly until it holds or a timeout has passed.

    Args:
        condition: Condition, checked at least once; its exceptions are not caught.
        timeout_seconds: Longest time to wait.
        poll_seconds: Time between two checks.

    Returns:
        Whether the condition held before the timeout.
    """
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(poll_seconds)
    return True
