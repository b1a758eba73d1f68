"""The predictions of a segmentation: pixels by class, and overlays of the worst examples."""

import csv
from dataclasses import dataclass

from trainer.report.page import PredictionSections
from trainer.report.run_data import Run

OVERLAYS = 12
"""Largest number of overlays that are shown."""
MAX_IMAGE_BYTES = 1 << 20
"""Largest size of an overlay, in bytes; a larger file was not written by a run."""


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


def show_segments(run: Run) -> PredictionSections:
    """Return what the report shows; see `TaskDescription.report`."""
    return PredictionSections.render("trainer.segmentation", segments=read_segments(run))


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
    overlays = (Overlay(index, iou, _image(run, index)) for iou, index in sorted(rated)[:OVERLAYS])
    problem = noted[-1].get("problem")
    return Segments(
        noted[-1]["step"], len(rated), classes, tuple(overlays), str(problem) if problem else None
    )


def _image(run: Run, index: int) -> bytes | None:
    path = run.path / "overlays" / f"{index}.png"
    try:
        return path.read_bytes() if path.stat().st_size <= MAX_IMAGE_BYTES else None
    except OSError:
        return None
