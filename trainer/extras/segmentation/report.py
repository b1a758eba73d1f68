"""The predictions of a segmentation: pixels by class, and overlays of the worst examples."""

from collections.abc import Sequence
from typing import Final

from common.page.parts import Block, Section
from trainer.report.rated import Rated, Row, class_table
from trainer.report.run_data import Run

RATED: Final = Rated(
    ("predictions.csv", "classes.csv"),
    ("How well each class is found", "The worst images"),
    "The intersection over union (IoU) of a class is the number of pixels that are of it and"
    " predicted as it, divided by those that are either.",
    "mean_iou",
    "mean IoU",
    "The images with the lowest mean IoU: the image, its mask, and the prediction.",
    "the image, its mask and its prediction",
    pixelated=True,
)


def sections(run: Run) -> list[Section]:
    """Return the sections of a run's report about its predictions."""
    return RATED.sections(run, _about)


def _about(_: Sequence[Row], classes: Sequence[Row]) -> list[Block]:
    counts = {"right": "right", "pixels": "of the class", "predicted": "predicted"}
    title = "Pixels by class, over all images"
    return [class_table(title, classes, {"iou": "IoU"}, counts)]
