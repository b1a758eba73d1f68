"""Metrics of one class per pixel: functions of the pixels by class, a row each in the task's
description. Classes that occur neither in masks nor in predictions have no intersection over union,
and are left out of means. NumPy only.
"""

import numpy as np

from trainer.tasks.by_class import Array, ByClass, mean_of_known, ratio


def intersection_over_union(pixels: ByClass) -> Array:
    """Return the intersection over union of each class, float64 [classes]; NaN for a class that
    does not occur.
    """
    return ratio(pixels.right, pixels.true + pixels.predicted - pixels.right)


def largest_class(pixels: ByClass) -> ByClass:
    """Return the counts if all pixels are predicted to be of the class that most of them are of."""
    largest = np.arange(len(pixels.true)) == np.argmax(pixels.true)
    return ByClass(
        pixels.true, np.where(largest, pixels.true.sum(), 0.0), np.where(largest, pixels.true, 0.0)
    )


def mean_iou(pixels: ByClass) -> float:
    """Return the mean intersection over union of all classes."""
    return mean_of_known(intersection_over_union(pixels))


def foreground_iou(pixels: ByClass) -> float:
    """Return the mean intersection over union of all classes but the first, the background."""
    return mean_of_known(intersection_over_union(pixels)[1:])


def pixel_accuracy(pixels: ByClass) -> float:
    """Return the fraction of the pixels that are right."""
    return float(pixels.right.sum() / max(pixels.true.sum(), 1.0))
