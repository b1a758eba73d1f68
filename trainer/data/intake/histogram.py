"""A histogram of numbers of any range in bounded memory, from which percentiles are read."""

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

LIMIT: Final = 131_072
"""Most bins: enough to tell all integers of 16 bits apart, with or without sign."""
_CHUNK: Final = 1 << 20
"""Numbers that are sorted at once."""
_MAGNITUDE: Final = np.int64((1 << 63) - 1)

_Array = np.ndarray[Any, np.dtype[np.int64]]


@dataclass
class Histogram:
    """Counts of the numbers of each bin.

    A bin has the numbers whose bits, as float64, agree except for the last `shift` ones. A bit is
    dropped only if there would be more than `LIMIT` bins, so the bins depend on the numbers alone:
    neither on their order nor on the parts that are merged.
    """

    shift: int = 0
    keys: _Array = field(default_factory=lambda: np.empty(0, np.int64))
    """Bins, least first, int64 [k]: the bits of their numbers as integers, see `_keys`."""
    counts: _Array = field(default_factory=lambda: np.empty(0, np.int64))
    """Numbers in each bin, int64 [k]."""

    def add(self, numbers: np.ndarray[Any, Any]) -> None:
        """Add finite numbers of any shape."""
        flat = numbers.ravel()
        for begin in range(0, flat.size, _CHUNK):
            part = flat[begin : begin + _CHUNK]
            least = part.min()
            if part.dtype.kind in "iu" and int(part.max()) - int(least) < LIMIT:
                # Counting takes a fraction of the time of sorting.
                counts = np.bincount(part.astype(np.int64) - int(least))
                (places,) = counts.nonzero()
                keys = _keys((places + int(least)).astype(np.float64)) >> self.shift
                self.merge(_binned(self.shift, keys, counts[places]))
            else:
                keys = np.sort(_keys(part.astype(np.float64)) >> self.shift)
                self.merge(_binned(self.shift, keys, np.ones(keys.size, np.int64)))

    def merge(self, other: "Histogram") -> None:
        """Add the numbers of another histogram."""
        shift = max(self.shift, other.shift)
        parts = (self, other) if self.keys.size else (other,)
        keys = np.concatenate([part.keys >> (shift - part.shift) for part in parts])
        order = np.argsort(keys, kind="stable")
        total = _binned(shift, keys[order], np.concatenate([part.counts for part in parts])[order])
        self.shift, self.keys, self.counts = total.shift, total.keys, total.counts

    def range(self, tail: float) -> tuple[float, float]:
        """Return the numbers of which at most a fraction `tail` is less, and greater; those of a
        bin count as its least, or greatest, number. There must be numbers.
        """
        part = np.cumsum(self.counts) / self.counts.sum()
        low = self.keys[np.searchsorted(part, tail, "right")] << self.shift
        high = ((self.keys[np.searchsorted(part, 1 - tail)] + 1) << self.shift) - 1
        return _number(low), _number(high)


def _binned(shift: int, keys: _Array, counts: _Array) -> Histogram:
    """Return the histogram of sorted keys that may repeat."""
    while 1 + np.count_nonzero(keys[1:] != keys[:-1]) > LIMIT:
        shift, keys = shift + 1, keys >> 1
    starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    return Histogram(shift, keys[starts], np.add.reduceat(counts, starts))


def _keys(numbers: np.ndarray[Any, np.dtype[np.float64]]) -> _Array:
    """Return the bits of numbers as integers in the same order."""
    # Negative zero is zero.
    bits = (numbers + 0.0).view(np.int64)
    return np.where(bits < 0, bits ^ _MAGNITUDE, bits)


def _number(key: np.int64) -> float:
    bits = key ^ _MAGNITUDE if key < 0 else key
    return float(bits.view(np.float64))
