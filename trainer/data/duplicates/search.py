"""The search for pairs of perceptual hashes that differ in few bits, in bounded memory.

Two hashes that differ in at most d bits are equal in at least k of d + k bands of bits, so only
those that share k bands are compared. The more hashes there are, the larger k, so that few others
share the same bands: time is linear in the images, up to sorting. Hashes are in files. For each
choice of k bands they are divided into smaller files, each with all hashes that share these bands.
"""

import sqlite3
import tempfile
from collections.abc import Iterator
from itertools import combinations, pairwise
from math import ceil
from typing import Final

import numpy as np

from trainer.data.duplicates.hashes import BITS, Array
from trainer.data.prepare.on_disk import scratch_database

ROW: Final = np.dtype([("hash", "<u8"), ("place", "<i8")])
"""A perceptual hash, and the place of its image in its split."""
_ROWS: Final = 1 << 18
"""Rows of a file that are in memory at once, which bounds it together with `_PAIRS`."""
_PAIRS: Final = 1 << 20
"""Pairs that are compared at once."""
_FILES: Final = 64
"""Most files into which the hashes of a split are divided."""
_MIX: Final = np.uint64(0x9E3779B97F4A7C15)
"""Odd number that spreads the values of some bits (Fibonacci hashing, Knuth)."""
_MOST_EQUAL: Final = 3
"""Most bands that must be equal: with more, their choices are too many."""
_NEAREST: Final = """
INSERT INTO match VALUES (?, ?, ?) ON CONFLICT (held_out)
    DO UPDATE SET training = excluded.training, distance = excluded.distance
    WHERE (excluded.distance, excluded.training) < (distance, training)
"""


class HashFile:
    """The hashes of a split in any order, in a temporary file."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - it vanishes with this object
        self.count = 0

    def add(self, rows: Array) -> None:
        """Add hashes with their places, an array of `ROW`."""
        self._file.write(rows.tobytes())
        self.count += len(rows)

    def parts(self) -> Iterator[Array]:
        """Yield all rows, so many at once as may be in memory."""
        for begin in range(0, self.count, _ROWS):
            self._file.seek(begin * ROW.itemsize)
            yield np.frombuffer(self._file.read(_ROWS * ROW.itemsize), ROW)

    def divided(self, bits: np.uint64, count: int) -> list["HashFile"]:
        """Return the rows in so many files; those that are equal in some bits are in the same."""
        if count == 1:
            return [self]
        files = [HashFile() for _ in range(count)]
        for rows in self.parts():
            numbers = ((rows["hash"] & bits) * _MIX >> np.uint64(32)) % np.uint64(count)
            for number, file in enumerate(files):
                file.add(rows[numbers == number])
        return files


def find_matches(training: HashFile, held_out: HashFile, distance: int) -> sqlite3.Connection:
    """Find the nearest training image of each held-out one, among those that are near.

    Args:
        training: Hashes of the training images.
        held_out: Hashes of the held-out images.
        distance: Most bits in which near-duplicates differ.

    Returns:
        A database with the table `match`: `held_out` and `training`, the places of both images, the
        first of equally near ones; and `distance`, the bits in which they differ.
    """
    matches = scratch_database(
        "CREATE TABLE match (held_out INTEGER PRIMARY KEY, training INTEGER, distance INTEGER);"
    )
    files = min(ceil(max(training.count, held_out.count, 1) / _ROWS), _FILES)
    for bits in _choices_of_bits(training.count, distance):
        pairs = zip(training.divided(bits, files), held_out.divided(bits, files), strict=True)
        for of_training, of_held_out in pairs:
            for others in of_training.parts():
                for own in of_held_out.parts():
                    nearest = _nearest(others, own, bits, distance)
                    matches.executemany(
                        _NEAREST, zip(*(column.tolist() for column in nearest), strict=True)
                    )
    return matches


def _nearest(
    training: Array, held_out: Array, bits: np.uint64, distance: int
) -> tuple[Array, Array, Array]:
    """Return places of held-out images, those of the nearest training images that are equal in some
    bits, and the distances. Equal hashes are compared once.
    """
    by_place = training[np.argsort(training["place"])]
    others, firsts = np.unique(by_place["hash"], return_index=True)
    own, same = np.unique(held_out["hash"], return_inverse=True)
    originals = by_place["place"][firsts]
    keys = others & bits
    order = np.argsort(keys, kind="stable")
    ordered, wanted = keys[order], own & bits
    begins = np.asarray(np.searchsorted(ordered, wanted, "left"))
    ends = np.asarray(np.searchsorted(ordered, wanted, "right"))
    nearest: Array = np.full(len(own), -1, np.int64)
    least = nearest.copy()
    for rows, places in _candidates(begins, ends):
        candidates = order[places]
        differ = np.bitwise_count(others[candidates] ^ own[rows])
        near = differ <= distance
        # The nearest, and the first of these.
        columns = (originals[candidates[near]], differ[near], rows[near])
        place, differing, row = (column[np.lexsort(columns)] for column in columns)
        first = np.flatnonzero(np.diff(row, prepend=-1))
        nearest[row[first]], least[row[first]] = place[first], differing[first]
    has_any = np.flatnonzero(nearest[same] >= 0)
    return held_out["place"][has_any], nearest[same][has_any], least[same][has_any]


def _choices_of_bits(count: int, distance: int) -> Iterator[np.uint64]:
    """Yield the bits of each choice of k bands of d + k, for the smallest k of at most 3 with which
    the hashes are no more than the values of these bits.
    """
    equal = 1
    while equal < _MOST_EQUAL and count > 1 << BITS * equal // (distance + equal):
        equal += 1
    bands = distance + equal
    bounds = [BITS * number // bands for number in range(bands + 1)]
    whole = [(1 << high) - (1 << low) for low, high in pairwise(bounds)]
    for bands_chosen in combinations(whole, equal):
        yield np.uint64(sum(bands_chosen))


def _candidates(begins: Array, ends: Array) -> Iterator[tuple[Array, Array]]:
    """Yield pairs of a row and a place in [begin, end) of that row, at most about `_PAIRS` at once
    and all of a row together.
    """
    counts = ends - begins
    total = np.cumsum(counts)
    row = 0
    while row < len(counts):
        before = total[row - 1] if row else 0
        end = max(row + 1, int(np.searchsorted(total, before + _PAIRS, "right")))
        part = counts[row:end]
        rows: Array = np.repeat(np.arange(row, end), part)
        within = np.arange(part.sum()) - np.repeat(np.cumsum(part) - part, part)
        yield rows, np.repeat(begins[row:end], part) + within
        row = end
