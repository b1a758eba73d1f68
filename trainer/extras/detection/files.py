"""The files about held-out examples that a report on a detection shows.

`RUN/predictions.csv` has one line per example, `RUN/classes.csv` one per class, `RUN/curves.csv`
precision by recall and class at an IoU of 0.5, and `RUN/overlays/` the worst examples, named by
their index: true objects and predicted ones.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from PIL import Image as Pixels

from common.files import write_table
from trainer.extras.detection.average_precision import RECALLS, Image, Precision, average_precision
from trainer.extras.detection.drawing import Drawn, draw_boxes
from trainer.extras.detection.serving import SCORE
from trainer.tasks.overlays import write_overlays
from trainer.tasks.task import Array, HeldOut

PREDICTIONS, CLASSES, CURVES = "predictions.csv", "classes.csv", "curves.csv"
SIDE: Final = 256
"""Shortest side of an image in an overlay, in pixels; smaller inputs are enlarged."""


def write_predictions(
    folder: Path,
    index: Array,
    images: Sequence[Image],
    precision: Precision,
    held_out: HeldOut,
) -> dict[str, Any]:
    """Write the files; see `Task.write_predictions`.

    Args:
        folder: Folder of the run.
        index: Number of each example in the split, int64 [n].
        images: True and predicted objects of each example.
        precision: Precision over all of them.
        held_out: Access to the examples.
    """
    (folder / PREDICTIONS).unlink(missing_ok=True)
    names = held_out.class_names
    rated = [rating(image, len(names)) for image in images]

    def draw(row: int, pixels: Array, target: Array, _: Array) -> Pixels.Image:
        return overlay(pixels, images[row], target[0, :2].astype(float), names)

    facts = write_overlays(folder, index, rated, held_out, draw)
    by_class = precision.curves[..., 0]
    means, halves = (map(_text, part.mean((0, 1))) for part in (by_class, by_class[:1]))
    write_table(
        folder / CLASSES,
        ("class", "ap", "ap50", "objects", "small", "medium", "large"),
        zip(names, means, halves, *precision.objects.T.tolist(), strict=True),
    )
    write_table(
        folder / CURVES,
        ("recall", *names),
        (
            (f"{recall:.2f}", *(_text(value) for value in by_class[0, place]))
            for place, recall in enumerate(RECALLS)
        ),
    )
    write_table(
        folder / PREDICTIONS,
        ("index", "ap", "objects", "found"),
        (
            (i, f"{value:.6f}", (~image.crowd).sum(), (image.scores >= SCORE).sum())
            for i, value, image in zip(index, rated, images, strict=True)
        ),
    )
    return facts


def rating(image: Image, classes: int) -> float:
    """Return the mAP of an image alone; without objects, 1 less the highest score."""
    value = average_precision([image], classes).mean()
    return 1.0 - float(image.scores.max(initial=0.0)) if value < 0 else value


def overlay(pixels: Array, image: Image, size: Array, names: Sequence[str]) -> Pixels.Image:
    """Draw true and predicted objects side by side, in the shape of the original image.

    Args:
        pixels: The input, uint8 [size, size, 3].
        image: True and predicted objects.
        size: Width and height of the original image.
        names: Names of the classes.
    """
    short = max(SIDE, len(pixels))
    shape = [round(float(side * short / size.min())) for side in size]
    # Not wider than a page shows.
    shape = [min(side, 4 * short) for side in shape]
    large = Pixels.fromarray(pixels).resize((shape[0], shape[1]), Pixels.Resampling.BICUBIC)
    unit = np.tile(size, 2)
    true: list[Drawn] = [
        (corners, int(label), "ignored" if crowd else names[int(label)])
        for corners, label, crowd in zip(
            image.objects / unit, image.classes, image.crowd, strict=True
        )
    ]
    predicted: list[Drawn] = [
        (corners, int(label), f"{names[int(label)]} {score:.0%}")
        for corners, label, score in zip(
            image.found / unit, image.found_classes, image.scores, strict=True
        )
        if score >= SCORE
    ]
    pair = Pixels.new("RGB", (2 * shape[0] + 2, shape[1]), "white")
    pair.paste(draw_boxes(large, true), (0, 0))
    pair.paste(draw_boxes(large, predicted), (shape[0] + 2, 0))
    return pair


def _text(value: float) -> str:
    return "" if value < 0 else f"{value:.6f}"
