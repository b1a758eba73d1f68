"""How far to trust an accuracy and its probabilities: intervals and calibration. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Final

BINS: Final = 10
"""Bins of equal width over probabilities."""
_Z: Final = 1.959964
"""Standard score of a two-sided interval of 95 %."""


def wilson(hits: float, of: float) -> tuple[float, float]:
    """Return the 95 % confidence interval of the probability behind a fraction (Wilson 1927), which
    also holds for few examples and for fractions near 0 and 1.

    Args:
        hits: Examples that count.
        of: All examples, above 0.
    """
    fraction, spread = hits / of, _Z * _Z / of
    centre = fraction + spread / 2
    half = _Z * sqrt(fraction * (1 - fraction) / of + spread / (4 * of))
    low, high = (centre - half) / (1 + spread), (centre + half) / (1 + spread)
    return max(0.0, low), min(1.0, high)


def wilson_of_groups(groups: Sequence[tuple[int, int]]) -> tuple[float, float]:
    """Return the 95 % confidence interval of the probability behind a fraction of examples that
    come in groups, such as the images of a patient, which are alike.

    It is that of as many independent examples as would vary as much as groups that are drawn anew
    do (the linearised variance of a ratio, which the bootstrap over groups approaches), with
    Student's t for few groups; see Korn and Graubard 1998, "Confidence Intervals for Proportions
    with Small Expected Number of Positive Counts Estimated from Survey Data".

    Args:
        groups: Examples that count, and all examples, of each group; at least two groups.
    """
    count, of = len(groups), sum(whole for _, whole in groups)
    fraction = sum(hits for hits, _ in groups) / of
    squares = sum((hits - fraction * whole) ** 2 for hits, whole in groups)
    if not squares:
        return wilson(fraction * count, count)
    variance, free = squares * count / (count - 1) / of**2, count - 1
    # Cornish and Fisher's expansion of the quantile of Student's t.
    quantile = _Z + (_Z**3 + _Z) / (4 * free) + (5 * _Z**5 + 16 * _Z**3 + 3 * _Z) / (96 * free**2)
    alike = min(of, fraction * (1 - fraction) / variance) * (_Z / quantile) ** 2
    return wilson(fraction * alike, alike)


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
    total = sum(bin_.count for bin_ in bins.values())
    return sum(abs(bin_.right - bin_.probability) for bin_ in bins.values()) / total
