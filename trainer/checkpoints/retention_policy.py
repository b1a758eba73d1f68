"""Which checkpoints to keep: a pure function."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from trainer.checkpoints.names import Key


@dataclass(frozen=True)
class Entry:
    """A checkpoint in a run's folder, whatever its state."""

    key: Key
    state: Literal["valid", "damaged", "incomplete"]
    """incomplete: never finished, or partly deleted; damaged: anything else that is wrong,
    including that another version wrote it."""
    score: float | None = None
    """The metric that decides, for these weights on held-out images, if there was an
    evaluation."""
    bytes: int = 0


def to_delete(
    checkpoints: Sequence[Entry], keep: int, *, keep_best: bool, keep_every_steps: int
) -> list[Entry]:
    """Return the checkpoints to delete, in the order of deletion: older ones first.

    Invalid checkpoints are neither counted nor deleted, because the user may want to inspect them,
    or another version may be able to read them. The exception is a checkpoint that an earlier
    attempt did not finish: no attempt ever will, and a run that is often interrupted would fill the
    disk.

    Args:
        checkpoints: Checkpoints of a run, in any order.
        keep: Number of newest checkpoints to keep; the newest one is always kept.
        keep_best: Whether to keep the best one by its score.
        keep_every_steps: Keep the first checkpoint in each interval of this number of steps; 0
        keeps none.
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
    """Yield the first checkpoint at or after each multiple of `steps`, except 0."""
    seen = {0}
    for entry in valid:
        stretch = entry.key.step // steps
        if stretch not in seen:
            seen.add(stretch)
            yield entry


def best(valid: Iterable[Entry]) -> Entry | None:
    """Return the best entry by its score, the newest of equals; None if none was evaluated."""
    rated = [entry for entry in valid if entry.score is not None]
    return max(rated, key=lambda entry: (entry.score, entry.key), default=None)
