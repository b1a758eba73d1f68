"""The predictions of several classes per image: each class, probabilities, and the worst images."""

import csv
from collections.abc import Mapping, Sequence
from typing import Final

from common.page.parts import Block, Gallery, Plots, Section, Table, Text
from common.page.plots import Scale, Series, plot
from common.text import plural
from trainer.classification.files import THUMBNAILS
from trainer.multilabel.files import BY_CLASS, MISTAKES, PREDICTIONS, RELIABILITY
from trainer.multilabel.leaf import MultilabelOptions
from trainer.report.page import image_file, kept_image, missing, percent
from trainer.report.run_data import Run

LISTED: Final = 100
"""Most classes that are listed: those with the lowest average precision."""
Rows = Sequence[Mapping[str, str]]


def sections(run: Run) -> list[Section]:
    """Return the sections of a run's report about its predictions."""
    noted = run.of("predictions")
    if not (run.path / PREDICTIONS).is_file() or not noted:
        none = "No predictions: they are written when a run with held-out images is finished."
        return _named([Text(none)], [Text(none)], [Text(none)])
    try:
        rated, classes, bins = (_rows(run, name) for name in (PREDICTIONS, BY_CLASS, RELIABILITY))
        facts = f"{plural(len(rated), 'held-out image')} after step {noted[-1]['step']:,}."
        problem = noted[-1].get("problem")
        worst = Text(
            "The images with the largest loss: the classes that they have, and those that the model"
            f" says.{missing(str(problem) if problem else None)}",
            hint=True,
        )
        return _named(_trust(bins), _classes(facts, classes, run), [worst, _gallery(run, rated)])
    except (OSError, ValueError, KeyError, TypeError, csv.Error) as error:
        broken = f"The predictions cannot be read ({type(error).__name__}: {error})."
        return _named([Text(broken)], [Text(broken)], [Text(broken)])


def _rows(run: Run, name: str) -> Rows:
    with (run.path / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _named(
    trust: Sequence[Block], by_class: Sequence[Block], worst: Sequence[Block]
) -> list[Section]:
    return [
        Section("trust", "How far to trust its probabilities", trust),
        Section("confusion", "How well each class is found", by_class),
        Section("mistakes", "The worst images", worst),
    ]


def _trust(bins: Rows) -> list[Block]:
    counted = [[float(row[key]) for key in ("pairs", "there", "probability")] for row in bins]
    known = [(pairs, there, total) for pairs, there, total in counted if pairs]
    everything = sum(pairs for pairs, _, _ in known)
    if not everything:
        return [Text("No probability is a number.")]
    error = sum(abs(there - total) for _, there, total in known) / everything
    points = [(round(100 * total / pairs), (there / pairs,) * 3) for pairs, there, total in known]
    drawn = plot(
        "Probability and frequency",
        "part of the pairs of an image and a class of which the image has the class",
        "probability in %",
        [
            Series("probabilities", points),
            Series(
                "as probable as true",
                [(percents, (percents / 100,) * 3) for percents in (0, 100)],
                marked=False,
                dashes="4 3",
            ),
        ],
        scale=Scale(from_zero=True, percent=True),
        from_zero=True,
    )
    return [
        Text(
            "Its probabilities differ from the frequency with which images have the class by"
            f" {error:.2%} on average, over all images and classes (expected calibration error)."
        ),
        *([Plots([drawn])] if drawn else []),
    ]


def _classes(facts: str, classes: Rows, run: Run) -> list[Block]:
    options = run.config.of(MultilabelOptions) if run.config else MultilabelOptions()
    absent = sum(row["images"] == "0" for row in classes)
    left_out = (
        f" The means leave out {plural(absent, 'class', 'classes')} of {len(classes):,} that no"
        " held-out image has."
        if absent
        else ""
    )
    shown = sorted(classes, key=lambda row: float(row["ap"] or 2))[:LISTED]
    rest = f"; {BY_CLASS} has all {len(classes):,}" if len(shown) < len(classes) else ""
    rows = [
        [
            row["class"],
            *(percent(float(row[key])) if row[key] else None for key in ("ap", "auc", "f1")),
            *(f"{int(row[key]):,}" for key in ("images", "said", "right")),
        ]
        for row in shown
    ]
    heads = ("class", "AP", "ROC AUC", "F1", "have it", "said to", "both")
    return [
        Text(
            f"{facts} The average precision (AP) of a class is that of scikit-learn, and F1 is at a"
            f" probability of {options.threshold:g}.{left_out}",
            hint=True,
        ),
        Table(f"Classes, the worst first{rest}", heads, rows, "numbers"),
    ]


def _gallery(run: Run, rated: Rows) -> Gallery:
    worst = sorted(rated, key=lambda row: -float(row["loss"]))[:THUMBNAILS]
    return Gallery(
        [
            kept_image(
                image_file(run.path / MISTAKES / row["index"]),
                int(row["index"]),
                f"{row['classes'] or 'no class'}, said to be {row['said'] or 'none'}",
                [("has", row["classes"] or "no class", f"loss {float(row['loss']):.3f}"),
                 ("said", row["said"] or "none", "")],
            )
            for row in worst
        ],
        "mistakes",
    )  # fmt: skip
