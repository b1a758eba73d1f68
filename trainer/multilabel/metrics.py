"""Metrics of independent classes. NumPy only.

Average precision is that of scikit-learn's `average_precision_score`: the sum of the precision at
each distinct probability, weighted by the recall that it adds, without interpolation. The area
under the ROC curve is that of `roc_auc_score`: the probability that an image with the class has a
larger one than an image without it, ties counted as half (Mann-Whitney).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from trainer.classification.trust import BINS

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class ClassMetrics:
    """Metrics and counts of each class, float64 [classes]; NaN where a metric is not defined."""

    ap: Array
    """Average precision; not defined for a class that no image has."""
    auc: Array
    """Area under the ROC curve; not defined for a class that no image has, or that all have."""
    images: Array
    """Images that have the class."""
    said: Array
    """Images that are said to have it."""
    right: Array
    """Images that have it and are said to."""

    @property
    def f1(self) -> Array:
        """F1, 2 right / (images + said); not defined for a class that no image has."""
        return np.where(self.images > 0, _f1(self.right, self.images, self.said), np.nan)

    @property
    def micro_f1(self) -> float:
        """F1 of all images and classes together; 1 if there is nothing to find or to say."""
        sums = (part.sum() for part in (self.right, self.images, self.said))
        return float(_f1(*sums))


def class_metrics(probabilities: Array, there: Array, threshold: float) -> ClassMetrics:
    """Return the metrics of all classes.

    Args:
        probabilities: [images, classes].
        there: Whether an image has a class, bool [images, classes].
        threshold: Probability from which an image is said to have a class, compared in float32.
    """
    curves = [_areas(*of_class) for of_class in zip(probabilities.T, there.T, strict=True)]
    ap, auc = np.reshape(curves, [-1, 2]).T
    said = probabilities >= np.float32(threshold)
    counts = (part.sum(0).astype(np.float64) for part in (there, said, there & said))
    return ClassMetrics(ap, auc, *counts)


def _areas(probabilities: Array, there: Array) -> tuple[float, float]:
    """Return the average precision and the area under the ROC curve of a class."""
    order = np.argsort(-probabilities, kind="stable")
    # Where the last one of equal probabilities is: no order among them counts.
    last = np.append(np.flatnonzero(np.diff(probabilities[order])), len(order) - 1)
    right = np.cumsum(there[order])[last].astype(np.float64)
    wrong = last + 1.0 - right
    positives, negatives = right[-1], wrong[-1]
    if not positives:
        return np.nan, np.nan
    ap = np.sum(right / (right + wrong) * np.diff(right, prepend=0.0)) / positives
    if not negatives:
        return float(ap), np.nan
    before = np.concatenate([[0.0], right[:-1]])
    area = np.sum(np.diff(wrong, prepend=0.0) * (right + before)) / 2
    return float(ap), float(area / (positives * negatives))


def _f1(right: Array, images: Array, said: Array) -> Array:
    total = np.asarray(images + said, np.float64)
    return np.divide(2.0 * right, total, out=np.ones_like(total), where=total > 0)


def reliability(probabilities: Array, there: Array) -> Array:
    """Return, by `BINS` of probabilities, how many pairs of an image and a class there are, how
    many of the images have the class, and the sum of the probabilities; float64 [`BINS`, 3].
    """
    values = probabilities.ravel().astype(np.float64)
    known = ~np.isnan(values)
    values, true = values[known], there.ravel()[known]
    number = np.minimum((values * BINS).astype(int), BINS - 1)
    sums = (np.bincount(number, weights, BINS) for weights in (None, true, values))
    return np.stack([part.astype(np.float64) for part in sums], 1)
