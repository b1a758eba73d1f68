"""Average precision as COCO defines it; numbers equal those of pycocotools. NumPy only.

For each class, predictions are matched to objects image by image, the highest score first, each to
the object with the largest IoU that is still free. Precision is the mean over 101 recalls of the
best precision from there on, and the mean over classes, and over IoU 0.5, 0.55, ..., 0.95.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, Any]

THRESHOLDS: Final = np.linspace(0.5, 0.95, 10)
RECALLS: Final = np.linspace(0.0, 1.0, 101)
SIZES: Final = {"all": (0.0, 1e10), "small": (0.0, 32.0**2), "medium": (32.0**2, 96.0**2),
                "large": (96.0**2, 1e10)}  # fmt: skip
"""Smallest and largest area of objects, in pixels."""
MOST: Final = 100
"""Most predictions of a class in an image."""


@dataclass(frozen=True)
class Image:
    """Objects and predictions of an image; corners are left, top, right and bottom in pixels."""

    objects: Array
    """float64 [n, 4]."""
    classes: Array
    """Classes of the objects, [n]."""
    crowd: Array
    """Whether objects are regions that count neither as found nor as missed, bool [n]."""
    areas: Array
    """Areas of the objects, which decide their sizes, float64 [n]."""
    found: Array
    """Predictions, float64 [m, 4]."""
    scores: Array
    found_classes: Array


@dataclass(frozen=True)
class Precision:
    """Precision of each class."""

    curves: Array
    """Precision by IoU, recall, class and size, float64 [10, 101, classes, 4]; -1 for a class
    without objects."""
    objects: Array
    """Number of objects that count by class and size, [classes, 4]."""

    def mean(self, size: str = "all", threshold: float | None = None) -> float:
        """Return the mean over the classes that occur; -1 if none does, as pycocotools does.

        Args:
            size: Key of `SIZES`.
            threshold: IoU; None is the mean over all of them.
        """
        values = self.curves[..., list(SIZES).index(size)]
        if threshold is not None:
            values = values[np.isclose(THRESHOLDS, threshold)]
        known = values[values > -1]
        return float(known.mean()) if known.size else -1.0


def average_precision(images: Sequence[Image], classes: int) -> Precision:
    """Return the precision over images, each of which counts once."""
    shape = (len(THRESHOLDS), len(RECALLS), classes, len(SIZES))
    curves, objects = np.full(shape, -1.0), np.zeros([classes, len(SIZES)], int)
    for label in range(classes):
        matched = [
            _matched(image, label)
            for image in images
            if label in image.classes or label in image.found_classes
        ]
        if not matched:
            continue
        scores, right, ignored, counts = (list(column) for column in zip(*matched, strict=True))
        objects[label] = np.sum(counts, 0)
        order = np.argsort(-np.concatenate(scores), kind="mergesort")
        hits, left_out = (np.concatenate(part, 2)[..., order] for part in (right, ignored))
        for size in range(len(SIZES)):
            if objects[label, size]:
                curves[:, :, label, size] = [
                    _curve(hits[size, row], left_out[size, row], objects[label, size])
                    for row in range(len(THRESHOLDS))
                ]
    return Precision(curves, objects)


def _curve(right: Array, ignored: Array, objects: int) -> Array:
    """Return the best precision from each recall on."""
    true, false = np.cumsum(right & ~ignored), np.cumsum(~right & ~ignored)
    precision = true / (true + false + np.spacing(1))
    best = np.maximum.accumulate(precision[::-1])[::-1]
    place = np.searchsorted(true / objects, RECALLS, side="left")
    return np.append(best, 0.0)[np.minimum(place, len(best))]


def _matched(image: Image, label: int) -> tuple[Array, Array, Array, Array]:
    """Match the predictions of a class in an image, for all sizes and IoU at once.

    Returns:
        Scores [m]; whether a prediction has an object, and whether it does not count, both bool
        [sizes, IoU, m]; and the number of objects that count [sizes].
    """
    mine = image.classes == label
    objects, crowd, areas = image.objects[mine], image.crowd[mine], image.areas[mine]
    chosen = np.flatnonzero(image.found_classes == label)
    chosen = chosen[np.argsort(-image.scores[chosen], kind="mergesort")[:MOST]]
    boxes, scores = image.found[chosen], image.scores[chosen]
    low, high = np.array(list(SIZES.values())).T[:, :, None]
    # By size and object.
    ignore = crowd | (areas < low) | (areas > high)
    shape = (len(SIZES), len(THRESHOLDS), len(boxes))
    right, ignored = np.zeros(shape, bool), np.zeros(shape, bool)
    counts = (~ignore).sum(1)
    ious = _ious(boxes, objects, crowd)
    free = np.ones([*shape[:2], len(objects)], bool)
    least = np.minimum(THRESHOLDS, 1 - 1e-10)[None, :, None]
    sides = boxes[:, 2:] - boxes[:, :2]
    outside = (sides.prod(1) < low) | (sides.prod(1) > high)
    sizes, rows = np.indices(shape[:2])
    for number in range(len(boxes)):
        ignored[:, :, number] = outside[:, None, number]
        if not len(objects):
            continue
        possible = free & (ious[number] >= least)
        for regions in (False, True):
            # Of equal IoU, the last one.
            values = np.where(possible & (ignore == regions)[:, None], ious[number], -1.0)
            best = len(objects) - 1 - np.argmax(values[..., ::-1], -1)
            hit = (values.max(-1) > -1.0) & ~right[:, :, number]
            right[:, :, number] |= hit
            ignored[:, :, number] = np.where(hit, regions, ignored[:, :, number])
            free[sizes[hit], rows[hit], best[hit]] = crowd[best[hit]]
    return scores, right, ignored, counts


def _ious(boxes: Array, objects: Array, crowd: Array) -> Array:
    """Return the IoU of predictions and objects, [m, n]; with a crowd, the part of the prediction
    that is in it.
    """
    low = np.maximum(boxes[:, None, :2], objects[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], objects[None, :, 2:])
    shared = np.maximum(high - low, 0.0).prod(-1)
    area, other = ((box[:, 2:] - box[:, :2]).prod(-1) for box in (boxes, objects))
    union = np.where(crowd, area[:, None], area[:, None] + other - shared)
    ious: Array = np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
    return ious
