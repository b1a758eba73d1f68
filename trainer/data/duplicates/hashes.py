"""Perceptual hashes of images, and the search for pairs of them. NumPy and Pillow alone.

The hash is that of the discrete cosine transform ("pHash", Zauner 2010): an image is shrunk to 32 x
32 levels of grey, and each of its 64 lowest frequencies gives a bit, whether it is above their
median. Scaling, another encoding and small changes of brightness leave nearly all bits.
"""

import io
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any, Final

import numpy as np
from PIL import Image

Array = np.ndarray[Any, Any]

BITS: Final = 64
_SIDE: Final = 32
_LOW: Final = 8
_FLAT: Final = 2.0
"""Standard deviation, in levels of grey, below which an image has nothing to compare."""
_PAIRS: Final = 1 << 20
"""Pairs that are compared at once, which bounds the memory."""

_FREQUENCIES: Final = np.arange(_LOW)[:, None]
_COSINES: Final = np.cos(np.pi * (2 * np.arange(_SIDE) + 1) * _FREQUENCIES / (2 * _SIDE))
"""The lowest frequencies of a row of pixels."""


def perceptual_hash(encoded: bytes) -> int | None:
    """Return the hash of an image, 64 bits; None if it is of one level, or cannot be decoded."""
    try:
        image = Image.open(io.BytesIO(encoded))
        # A JPEG is decoded to a smaller size, which takes less than half of the work.
        image.draft("L", (2 * _SIDE, 2 * _SIDE))
        grey = image.convert("L").resize((_SIDE, _SIDE), Image.Resampling.LANCZOS)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None
    pixels = np.asarray(grey, np.float64)
    if pixels.std() < _FLAT:
        return None
    waves = (_COSINES @ pixels @ _COSINES.T).ravel()
    return int.from_bytes(np.packbits(waves > np.median(waves)).tobytes())


_MOST_EQUAL: Final = 3
"""Most bands that must be equal: with more, their choices are too many."""


@dataclass(frozen=True)
class Matches:
    """The held-out images that have near-duplicates, in their order."""

    held_out: Array
    """Place of each in its split, int64."""
    training: Array
    """Place of the nearest training image, the first of equally near ones, int64."""
    distance: Array
    """Bits in which both differ."""


def find_matches(training: Array, held_out: Array, distance: int) -> Matches:
    """Find the nearest training image of each held-out one, among those that are near.

    Two hashes that differ in at most d bits are equal in at least k of d + k bands of bits, so only
    those that share k bands are compared. The more hashes there are, the larger k, so that few
    others share the same bands: time and memory are linear in the images, up to sorting. Equal
    hashes are compared once.

    Args:
        training: Hashes, uint64 [n].
        held_out: Hashes, uint64 [m].
        distance: Most bits in which near-duplicates differ.
    """
    training, firsts = np.unique(training, return_index=True)
    held_out, same = np.unique(held_out, return_inverse=True)
    best: Array = np.full(len(held_out), BITS + 1, np.int64)
    nearest: Array = np.full(len(held_out), -1, np.int64)
    for chosen in _choices_of_bits(len(training), distance):
        keys: Array = training & chosen
        order = np.argsort(keys, kind="stable")
        wanted: Array = held_out & chosen
        ordered = keys[order]
        begins = np.asarray(np.searchsorted(ordered, wanted, "left"))
        ends = np.asarray(np.searchsorted(ordered, wanted, "right"))
        for rows, places in _candidates(begins, ends):
            others = order[places]
            differ = np.bitwise_count(training[others] ^ held_out[rows]).astype(np.int64)
            near = differ <= distance
            # The nearest, and the first of these.
            originals = firsts[others]
            ranked = np.lexsort((originals[near], differ[near], rows[near]))
            own, other, bits = (column[near][ranked] for column in (rows, originals, differ))
            first = np.flatnonzero(np.diff(own, prepend=-1))
            own, other, bits = own[first], other[first], bits[first]
            better = (bits < best[own]) | ((bits == best[own]) & (other < nearest[own]))
            best[own[better]], nearest[own[better]] = bits[better], other[better]
    best, nearest = best[same], nearest[same]
    found = np.flatnonzero(nearest >= 0)
    return Matches(found, nearest[found], best[found])


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
