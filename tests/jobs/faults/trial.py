"""One command of the fault matrix, and what must be true afterwards."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Trial:
    """One command, ready to run."""

    run: Callable[[], int]
    """Runs the command, and returns its exit status; 0 if nothing disturbs it."""
    problem: Callable[[], str | None]
    """Return the fault after the command ended with 0, or None."""
    damage: Callable[[], str | None] = lambda: None
    """Return the fault, however the command ended, or None."""
    again: Callable[[], int] | None = None
    """Continues after an error; None runs the same command."""
    told: Callable[[str], bool] = lambda _: False
    """Tells whether the output names an error in another form than `error: ...`."""
    output: bytes = b""
    """Lines that the command must show, or say that it could not read them."""
