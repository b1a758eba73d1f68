"""Which checkpoints stay: a pure function."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from trainer.checkpoints.names import Key


@dataclass(frozen=True)
class Entry:
    """A checkpoint in a run's folder, whatever its state."""

    key: Key
    state: Literal["valid", "damaged", "incomplete"]
    """incomplete: was never finished, or is partly deleted; damaged: whatever else is wrong, which
    includes that another version wrote it."""
    top1: float | None = None
    """Of these weights on the held-out images, if there was an evaluation; the best is kept."""
    bytes: int = 0


def to_delete(
    checkpoints: Sequence[Entry], keep: int, *, keep_best: bool, keep_every_steps: int
) -> list[Entry]:
    """What may go, in the order in which it should: at any time the newer of what is left is there.

    Invalid ones neither count nor go, as a person may want to look, or another version may know how
    to read them. The exception is what an earlier attempt did not finish: nobody ever will, and
    a run that is often interrupted would fill the disk.

    Args:
        checkpoints: of a run, in any order.
        keep: the newest that stay; the newest one always does.
        keep_best: whether the one with the best top-1 stays.
        keep_every_steps: the first one in each stretch of so many steps stays; 0 keeps none.
    """
    valid = sorted((e for e in checkpoints if e.state == "valid"), key=lambda e: e.key)
    if not valid:
        return []
    staying = set(valid[-max(keep, 1) :])
    best_entry = best(valid) if keep_best else None
    if best_entry:
        staying.add(best_entry)
    if keep_every_steps:
        staying.update(first_of_stretches(valid, keep_every_steps))
    unfinished = [
        entry
        for entry in checkpoints
        if entry.state == "incomplete" and entry.key.attempt < valid[-1].key.attempt
    ]
    return unfinished + [entry for entry in valid if entry not in staying]


def first_of_stretches(valid: Sequence[Entry], steps: int) -> Iterator[Entry]:
    """The first checkpoint at or after each multiple of so many steps but 0."""
    seen = {0}
    for entry in valid:
        stretch = entry.key.step // steps
        if stretch not in seen:
            seen.add(stretch)
            yield entry


def best(valid: Iterable[Entry]) -> Entry | None:
    """The one with the best top-1, of equals the newest; none if none was evaluated."""
    rated = [entry for entry in valid if entry.top1 is not None]
    return max(rated, key=lambda entry: (entry.top1, entry.key), default=None)
