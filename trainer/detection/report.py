"""The predictions of a detection: classes, curves of precision by recall, and the worst images."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass

from common.page.parts import Block, Gallery, Plots, Section, Table, Text
from common.page.plots import Scale, Series, plot
from common.text import plural
from trainer.report.page import image_file, kept_image, missing, percent
from trainer.report.run_data import Run

OVERLAYS = 12
"""Largest number of overlays that are shown."""
CURVES = 8
"""Most classes of which curves are shown: those with the lowest average precision."""


@dataclass(frozen=True)
class Found:
    """The predictions of a run."""

    step: int
    """Steps after which the predictions were made."""
    rated: tuple[tuple[float, int, int, int], ...]
    """Average precision, number, objects and found objects of each image, the lowest first."""
    classes: tuple[Mapping[str, str], ...]
    """Rows of classes.csv."""
    curves: Mapping[str, tuple[tuple[float, float], ...]]
    """Recall and precision at an IoU of 0.5, by class."""
    problem: str | None
    """Why an overlay is missing, if an example could not be read when the run ended."""


def read_found(run: Run) -> Found | str:
    """Read the predictions of a run, or return a sentence on why there are none."""
    noted = run.of("predictions")
    if not (run.path / "predictions.csv").is_file() or not noted:
        return "No predictions: they are written when a run with held-out images is finished."
    try:
        rated = sorted(
            (float(row["ap"]), int(row["index"]), int(row["objects"]), int(row["found"]))
            for row in _rows(run, "predictions.csv")
        )
        classes = tuple(_rows(run, "classes.csv"))
        points = _rows(run, "curves.csv")
        curves = {
            row["class"]: tuple(
                (float(point["recall"]), float(point[row["class"]])) for point in points
            )
            for row in classes
            if row["ap"]
        }
    except (OSError, ValueError, KeyError, TypeError, csv.Error) as error:
        return f"The predictions cannot be read ({type(error).__name__}: {error})."
    problem = noted[-1].get("problem")
    return Found(
        noted[-1]["step"], tuple(rated), classes, curves, str(problem) if problem else None
    )


def _rows(run: Run, name: str) -> list[dict[str, str]]:
    with (run.path / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def sections(run: Run) -> list[Section]:
    """Return the sections of a run's report about its predictions."""
    found = read_found(run)
    if isinstance(found, str):
        return _named([Text(found)], [Text(found)])
    rows = [
        [
            row["class"],
            *(percent(float(row[key])) if row[key] else None for key in ("ap", "ap50")),
            *(f"{int(row[key]):,}" for key in ("objects", "small", "medium", "large")),
        ]
        for row in found.classes
    ]
    figures = [
        kept_image(
            image_file(run.path / "overlays" / str(index)),
            index,
            "its objects and those that were found",
            [("held-out image", f"{index:,}", f"AP {value:.2%}"),
             ("objects", f"{objects:,}", f"{count:,} found")],
        )
        for value, index, objects, count in found.rated[:OVERLAYS]
    ]  # fmt: skip
    return _named(
        [
            Text(
                f"{plural(len(found.rated), 'held-out image')} after step {found.step:,}. The"
                " average precision (AP) of a class is the mean of its precision over all recalls,"
                " here over IoU 0.5 to 0.95, and at 0.5. Objects are small below 32 x 32 pixels and"
                " large from 96 x 96.",
                hint=True,
            ),
            Table(
                "Average precision by class",
                ("class", "AP", "AP at 0.5", "objects", "small", "medium", "large"),
                rows,
                "numbers",
            ),
            *_plotted(found),
        ],
        [
            Text(
                "The images with the lowest AP: the objects that are there, and those that were"
                f" found.{missing(found.problem)}",
                hint=True,
            ),
            Gallery(figures, "mistakes wide"),
        ],
    )


def _plotted(found: Found) -> list[Block]:
    if not found.curves:
        return []
    weakest = sorted(found.curves, key=lambda name: sum(value for _, value in found.curves[name]))[
        :CURVES
    ]
    series = [
        Series(
            # A comma in a name would divide it.
            name.replace(",", " "),
            [(round(100 * recall), (value,) * 3) for recall, value in found.curves[name]],
            marked=False,
        )
        for name in weakest
    ]
    few = len(weakest) < len(found.curves)
    drawn = plot(
        "Precision by recall",
        f"at an IoU of 0.5{f'; the {CURVES} weakest classes' if few else ''}",
        "recall in percent",
        series,
        scale=Scale(percent=True, from_zero=True),
        from_zero=True,
        summary="precision falls as recall rises; the table above has its means",
    )
    return [Plots([drawn])] if drawn else []


def _named(classes: list[Block], worst: list[Block]) -> list[Section]:
    return [
        Section("confusion", "How well each class is found", classes),
        Section("mistakes", "The worst images", worst),
    ]
