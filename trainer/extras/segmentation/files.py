"""The files about held-out examples that a report on a segmentation shows.

`RUN/predictions.csv` has one line per example that counted, `RUN/classes.csv` one per class, and
`RUN/overlays/` the examples with the lowest mean IoU, named by their index: the image, its mask and
the prediction side by side.
"""

from pathlib import Path
from typing import Any, Final

import numpy as np
from PIL import Image

from common.files import write_table
from trainer.extras.segmentation import metrics
from trainer.extras.segmentation.mask_files import IGNORED
from trainer.tasks.by_class import ByClass
from trainer.tasks.overlays import colour, write_overlays
from trainer.tasks.task import Array, HeldOut

PREDICTIONS, CLASSES = "predictions.csv", "classes.csv"
SIDE: Final = 192
"""Shortest side of an overlay, in pixels; smaller inputs are enlarged by a whole factor."""
_OPACITY: Final = 0.6
"""Part of a class's colour in an overlay; the rest is the image."""


def write_predictions(
    folder: Path, index: Array, pixels: Array, held_out: HeldOut
) -> dict[str, Any]:
    """Write the files; see `Task.write_predictions`.

    Args:
        folder: Folder of the run.
        index: Number of each example in the split, int64 [n].
        pixels: Pixels of each example by class, right, true and predicted, float64 [n, 3, classes].
        held_out: Access to the examples.
    """
    (folder / PREDICTIONS).unlink(missing_ok=True)
    images = [ByClass(true, predicted, right) for right, true, predicted in pixels]
    mean_iou = [metrics.mean_iou(image) for image in images]

    def draw(_: int, image: Array, target: Array, logits: Array) -> Image.Image:
        return overlay(image, target, logits.argmax(-1))

    facts = write_overlays(folder, index, mean_iou, held_out, draw)
    right, true, predicted = totals = pixels.sum(0)
    iou = metrics.intersection_over_union(ByClass(true, predicted, right))
    by_class = zip(held_out.class_names, iou, *totals.astype(np.int64), strict=True)
    write_table(
        folder / CLASSES,
        ("class", "iou", "right", "pixels", "predicted"),
        ((name, _text(iou), *counts) for name, iou, *counts in by_class),
    )
    accuracy = [metrics.pixel_accuracy(image) for image in images]
    write_table(
        folder / PREDICTIONS,
        ("index", "mean_iou", "pixel_accuracy"),
        ((i, _text(m), _text(a)) for i, m, a in zip(index, mean_iou, accuracy, strict=True)),
    )
    return facts


def overlay(image: Array, target: Array, predicted: Array) -> Image.Image:
    """Draw an image, its mask over it, and the prediction over it, side by side.

    Args:
        image: uint8 [size, size, 3].
        target: Class of each pixel, or `IGNORED`, which is not coloured; [size, size].
        predicted: Predicted class of each pixel, [size, size].
    """
    factor = max(1, -(-SIDE // len(image)))
    panels = [image, *(_coloured(image, classes) for classes in (target, predicted))]
    row = np.concatenate([np.pad(panel, [(0, 0), (0, 1), (0, 0)]) for panel in panels], 1)
    return Image.fromarray(row.repeat(factor, 0).repeat(factor, 1))


def _coloured(image: Array, classes: Array) -> Array:
    result = image.astype(np.float64)
    for number in np.unique(classes):
        if number not in (0, IGNORED):
            inside = classes == number
            result[inside] += _OPACITY * (np.array(colour(int(number))) - result[inside])
    return result.round().astype(np.uint8)


def _text(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.6f}"
