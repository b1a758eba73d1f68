"""Metrics of independent classes: functions of `ClassMetrics`, a row each in the task's
description. A mean leaves out the classes for which it is not defined. NumPy only.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from trainer.tasks.by_class import mean_of_known
from trainer.tasks.classification.metrics import areas
from trainer.tasks.classification.trust import BINS

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
    examples: int
    """Images."""

    @property
    def f1(self) -> Array:
        """F1, 2 right / (images + said); not defined for a class that no image has."""
        return np.where(self.images > 0, _f1(self.right, self.images, self.said), np.nan)

    def all_classes(self) -> "ClassMetrics":
        """Return the metrics of the same probability for all images, from which every image is said
        to have every class: the average precision is then the part of the images that have it.
        """
        share = np.where(self.images > 0, self.images / self.examples, np.nan)
        chance = np.where(np.isnan(self.auc), np.nan, 0.5)
        said = np.full_like(self.said, self.examples)
        return replace(self, ap=share, auc=chance, said=said, right=self.images)


def mean_ap(classes: ClassMetrics) -> float:
    """Return the mean of the average precisions."""
    return mean_of_known(classes.ap)


def mean_auc(classes: ClassMetrics) -> float:
    """Return the mean of the areas under the ROC curves."""
    return mean_of_known(classes.auc)


def macro_f1(classes: ClassMetrics) -> float:
    """Return the mean of F1."""
    return mean_of_known(classes.f1)


def micro_f1(classes: ClassMetrics) -> float:
    """Return F1 of all images and classes together; 1 if there is nothing to find or to say."""
    sums = (part.sum() for part in (classes.right, classes.images, classes.said))
    return float(_f1(*sums))


def class_metrics(probabilities: Array, true: Array, threshold: float) -> ClassMetrics:
    """Return the metrics of all classes.

    Args:
        probabilities: [images, classes].
        true: Whether an image has a class, bool [images, classes].
        threshold: Probability from which an image is said to have a class, compared in float32.
    """
    curves = [areas(*of_class) for of_class in zip(probabilities.T, true.T, strict=True)]
    ap, auc = np.reshape(curves, [-1, 2]).T
    said = probabilities >= np.float32(threshold)
    images, said_to, right = (part.sum(0).astype(float) for part in (true, said, true & said))
    return ClassMetrics(ap, auc, images, said_to, right, len(true))


def _f1(right: Array, images: Array, said: Array) -> Array:
    total = np.asarray(images + said, np.float64)
    return np.divide(2.0 * right, total, out=np.ones_like(total), where=total > 0)


def reliability(probabilities: Array, target: Array) -> Array:
    """Return, by `BINS` of probabilities, how many pairs of an image and a class there are, how
    many of the images have the class, and the sum of the probabilities; float64 [`BINS`, 3].
    """
    values = probabilities.ravel().astype(np.float64)
    known = ~np.isnan(values)
    values, true = values[known], target.ravel()[known]
    number = np.minimum((values * BINS).astype(int), BINS - 1)
    sums = (np.bincount(number, weights, BINS) for weights in (None, true, values))
    return np.stack([part.astype(np.float64) for part in sums], 1)
