"""How far to trust an accuracy and its probabilities: intervals and calibration. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Final

BINS: Final = 10
"""Bins of equal width over probabilities."""
_Z: Final = 1.959964
"""Standard score of a two-sided interval of 95 %."""


def wilson(hits: int, of: int) -> tuple[float, float]:
    """Return the 95 % interval of a fraction (Wilson 1927), which also holds for few examples and
    for fractions near 0 and 1.

    Args:
        hits: Examples that count.
        of: All examples, at least 1.
    """
    fraction, spread = hits / of, _Z * _Z / of
    centre = fraction + spread / 2
    half = _Z * sqrt(fraction * (1 - fraction) / of + spread / (4 * of))
    low, high = (centre - half) / (1 + spread), (centre + half) / (1 + spread)
    return max(0.0, low), min(1.0, high)


@dataclass(frozen=True)
class Bin:
    """Predictions whose probability lies in one bin."""

    count: int
    right: int
    probability: float
    """Sum of the probabilities of their predicted classes."""

    def plus(self, probability: float, *, right: bool) -> "Bin":
        return Bin(self.count + 1, self.right + right, self.probability + probability)

    @property
    def mean(self) -> float:
        """Mean probability."""
        return self.probability / self.count

    @property
    def accuracy(self) -> float:
        return self.right / self.count


def bin_of(probability: float) -> int:
    """Return the bin of a probability, 0 to 1."""
    return min(int(probability * BINS), BINS - 1)


def calibration_error(bins: Mapping[int, Bin]) -> float:
    """Return the expected calibration error (Guo et al. 2017): by how much probabilities and
    accuracies differ, weighted by the predictions of each bin.
    """
    total = sum(one.count for one in bins.values())
    return sum(abs(one.right - one.probability) for one in bins.values()) / total
