"""The predictions of a segmentation: pixels by class, and overlays of the worst examples."""

import csv
from dataclasses import dataclass, replace

from common.page.parts import Gallery, Section, Table, Text
from common.text import plural
from trainer.report.page import about_predictions, image_file, kept_image, missing, percent
from trainer.report.run_data import Run

OVERLAYS = 12
"""Largest number of overlays that are shown."""


@dataclass(frozen=True)
class ClassPixels:
    """The pixels of one class over all held-out images."""

    name: str
    iou: float | None
    """Intersection over union; None if the class does not occur."""
    right: int
    true: int
    predicted: int


@dataclass(frozen=True)
class Overlay:
    """One held-out example with its mask and its prediction."""

    index: int
    mean_iou: float
    image: bytes | None
    """PNG; None if it was not kept."""


@dataclass(frozen=True)
class Segments:
    """The predictions of a run."""

    step: int
    """Steps after which the predictions were made."""
    examples: int
    classes: tuple[ClassPixels, ...]
    overlays: tuple[Overlay, ...]
    """The examples with the lowest mean IoU, the lowest first."""
    problem: str | None
    """Why an overlay is missing, if an example could not be read when the run ended."""


def read_segments(run: Run) -> Segments | str:
    """Read the predictions of a run, or return a sentence on why there are none."""
    noted = run.of("predictions")
    if not (run.path / "predictions.csv").is_file() or not noted:
        return "No predictions: they are written when a run with held-out images is finished."
    try:
        with (run.path / "predictions.csv").open(encoding="utf-8", newline="") as file:
            rated = [(float(row["mean_iou"]), int(row["index"])) for row in csv.DictReader(file)]
        with (run.path / "classes.csv").open(encoding="utf-8", newline="") as file:
            classes = tuple(
                ClassPixels(
                    row["class"],
                    float(row["iou"]) if row["iou"] else None,
                    *(int(row[name]) for name in ("right", "pixels", "predicted")),
                )
                for row in csv.DictReader(file)
            )
    except (OSError, ValueError, KeyError, TypeError, csv.Error) as error:
        return f"The predictions cannot be read ({type(error).__name__}: {error})."
    overlays = (
        Overlay(index, iou, image_file(run.path / "overlays" / str(index)))
        for iou, index in sorted(rated)[:OVERLAYS]
    )
    problem = noted[-1].get("problem")
    return Segments(
        noted[-1]["step"], len(rated), classes, tuple(overlays), str(problem) if problem else None
    )


def sections(run: Run) -> list[Section]:
    """Return the sections of a run's report about its predictions."""
    found = read_segments(run)
    if isinstance(found, str):
        return about_predictions([Text(found)], [Text(found)])
    rows = [
        [one.name, percent(one.iou), f"{one.right:,}", f"{one.true:,}", f"{one.predicted:,}"]
        for one in found.classes
    ]
    figures = [
        replace(
            kept_image(
                overlay.image,
                overlay.index,
                "the image, its mask and its prediction",
                [("held-out image", f"{overlay.index:,}", f"mean IoU {overlay.mean_iou:.2%}")],
            ),
            pixelated=True,
        )
        for overlay in found.overlays
    ]
    return about_predictions(
        [
            Text(
                f"{plural(found.examples, 'held-out image')} after step {found.step:,}. The"
                " intersection over union (IoU) of a class is the number of pixels that are of it"
                " and predicted as it, divided by those that are either.",
                hint=True,
            ),
            Table(
                "Pixels by class, over all held-out images",
                ("class", "IoU", "right", "of the class", "predicted"),
                rows,
                "numbers",
            ),
        ],
        [
            Text(
                "The images with the lowest mean IoU: the image, its mask, and the prediction."
                f"{missing(found.problem)}",
                hint=True,
            ),
            Gallery(figures, "mistakes wide"),
        ],
    )
