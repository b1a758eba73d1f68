"""What a step finds, and what must be so."""

from collections.abc import Sequence
from pathlib import Path

from rehearsal.cycle.commands import CommandError
from rehearsal.errors import RehearsalError

Found = Sequence[str]
"""In a few words."""


def require(condition: object, words: str, place: Path | None = None) -> None:
    """End the step unless something is so.

    Args:
        condition: that must hold.
        words: what is wrong if it does not.
        place: where to look then.

    Raises:
        RehearsalError: it does not hold.
    """
    if not condition:
        raise RehearsalError(words) if place is None else CommandError([words], place)
