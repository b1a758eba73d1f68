"""Waiting in tests: as long as a busy machine may need, and no longer than it takes."""

from common.waiting import wait_until

SECONDS = 300.0
"""Until something must have come about, or a process must have ended: machines are busy."""


def until(condition, problem="it has not come to that"):
    """Wait until a condition holds.

    Args:
        condition: a function.
        problem: what to say if it never does; a function if it is to be said only then.
    """
    assert wait_until(condition, SECONDS, 0.02), problem() if callable(problem) else problem
