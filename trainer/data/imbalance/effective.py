"""How much an image counts by the size of its class. Standard library only."""

from collections.abc import Sequence


def factors(counts: Sequence[int], beta: float) -> list[float]:
    """Return the factor of each class by its effective number of images (Cui et al. 2019,
    "Class-Balanced Loss Based on Effective Number of Samples"), 1 on average over all images. A
    class without images has the factor 0.

    Args:
        counts: Training images of each class.
        beta: See `ImbalanceOptions`.
    """
    raw = [_of_class(count, beta) if count else 0.0 for count in counts]
    mean = sum(factor * count for factor, count in zip(raw, counts, strict=True)) / sum(counts)
    return [factor / mean for factor in raw]


def _of_class(count: int, beta: float) -> float:
    return 1 / count if beta == 1 else (1 - beta) / (1 - beta**count)
