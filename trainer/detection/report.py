"""The predictions of a detection: classes, curves of precision by recall, and the worst images."""

import csv
from collections.abc import Mapping, Sequence

from common.page.parts import Block, Gallery, Plots, Section, Table, Text
from common.page.plots import Scale, Series, plot
from common.text import plural
from trainer.detection.files import CLASSES, CURVES, OVERLAYS, PREDICTIONS, SHOWN
from trainer.report.page import image_file, kept_image, missing, percent
from trainer.report.run_data import Run

PLOTTED = 8
"""Most classes of which curves are shown: those with the lowest average precision."""
Rows = Sequence[Mapping[str, str]]


def sections(run: Run) -> list[Section]:
    """Return the sections of a run's report about its predictions."""
    noted = run.of("predictions")
    if not (run.path / PREDICTIONS).is_file() or not noted:
        none = "No predictions: they are written when a run with held-out images is finished."
        return _named([Text(none)], [Text(none)])
    try:
        rated, classes, curves = (_rows(run, name) for name in (PREDICTIONS, CLASSES, CURVES))
        problem = noted[-1].get("problem")
        hint = (
            f"{plural(len(rated), 'held-out image')} after step {noted[-1]['step']:,}. The average"
            " precision (AP) of a class is the mean of its precision over all recalls, here over"
            " IoU 0.5 to 0.95, and at 0.5. Objects are small below 32 x 32 pixels and large from"
            " 96 x 96."
        )
        worst = (
            "The images with the lowest AP: the objects that are there, and those that were found."
            f"{missing(str(problem) if problem else None)}"
        )
        return _named(
            [Text(hint, hint=True), _table(classes), *_plotted(classes, curves)],
            [Text(worst, hint=True), _gallery(run, rated)],
        )
    except (OSError, ValueError, KeyError, TypeError, csv.Error) as error:
        broken = f"The predictions cannot be read ({type(error).__name__}: {error})."
        return _named([Text(broken)], [Text(broken)])


def _rows(run: Run, name: str) -> Rows:
    with (run.path / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _named(classes: Sequence[Block], worst: Sequence[Block]) -> list[Section]:
    return [
        Section("confusion", "How well each class is found", classes),
        Section("mistakes", "The worst images", worst),
    ]


def _table(classes: Rows) -> Table:
    counts = ("objects", "small", "medium", "large")
    rows = [
        [
            row["class"],
            *(percent(float(row[key])) if row[key] else None for key in ("ap", "ap50")),
            *(f"{int(row[key]):,}" for key in counts),
        ]
        for row in classes
    ]
    heads = ("class", "AP", "AP at 0.5", *counts)
    return Table("Average precision by class", heads, rows, "numbers")


def _plotted(classes: Rows, curves: Rows) -> list[Block]:
    known = sorted((float(row["ap50"]), row["class"]) for row in classes if row["ap50"])
    series = [
        # A comma in a name would divide it.
        Series(
            name.replace(",", " "),
            [(round(100 * float(row["recall"])), (float(row[name]),) * 3) for row in curves],
            marked=False,
        )
        for _, name in known[:PLOTTED]
    ]
    drawn = plot(
        "Precision by recall",
        f"at an IoU of 0.5{f'; the {PLOTTED} weakest classes' * (len(known) > PLOTTED)}",
        "recall in percent",
        series,
        scale=Scale(percent=True, from_zero=True),
        from_zero=True,
        summary="precision falls as recall rises; the table above has its means",
    )
    return [Plots([drawn])] if drawn else []


def _gallery(run: Run, rated: Rows) -> Gallery:
    shown = sorted((float(row["ap"]), int(row["index"]), row) for row in rated)[:SHOWN]
    return Gallery(
        [
            kept_image(
                image_file(run.path / OVERLAYS / str(index)),
                index,
                "its objects and those that were found",
                [("held-out image", f"{index:,}", f"AP {value:.2%}"),
                 ("objects", row["objects"], f"{row['found']} found")],
            )
            for value, index, row in shown
        ],
        "mistakes wide",
    )  # fmt: skip
