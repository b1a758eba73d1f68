"""The predictions of a detection: classes, curves of precision by recall, and the worst images."""

from collections.abc import Sequence
from typing import Final

from common.page.parts import Block, Columns, Plots, Section
from common.page.plots import Scale, Series, plot
from trainer.report.rated import Rated, Row, class_table
from trainer.report.run_data import Run

PLOTTED = 8
"""Most classes of which curves are shown: those with the lowest average precision."""
RATED: Final = Rated(
    ("predictions.csv", "classes.csv", "curves.csv"),
    ("How well each class is found", "The worst images"),
    "The average precision (AP) of a class is the mean of its precision over all recalls, here over"
    " IoU 0.5 to 0.95, and at 0.5. Objects are small below 32 x 32 pixels and large from 96 x 96.",
    "ap",
    "AP",
    "The images with the lowest AP: the objects that are there, and those that were found.",
    "its objects and those that were found",
    lambda row: [("objects", row["objects"], f"{row['found']} found")],
)


def sections(run: Run) -> list[Section]:
    """Return the sections of a run's report about its predictions."""
    return RATED.sections(run, _about)


def _about(_: Sequence[Row], classes: Sequence[Row], curves: Sequence[Row]) -> list[Block]:
    parts = {"ap": "AP", "ap50": "AP at 0.5"}
    counts = {key: key for key in ("objects", "small", "medium", "large")}
    table = class_table("Average precision by class", classes, parts, counts)
    known = sorted((float(row["ap50"]), row["class"]) for row in classes if row["ap50"])
    series = [
        # A comma in a name would divide it.
        Series(
            name.replace(",", " "),
            [(recall, (float(row[name]),) * 3) for recall, row in enumerate(curves)],
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
        summary="precision falls as recall rises; the table next to it has its means",
    )
    return [Columns([*([Plots([drawn])] if drawn else []), table])]
