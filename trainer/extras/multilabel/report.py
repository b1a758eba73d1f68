"""The predictions of several classes per image: each class, probabilities, and the worst images."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from common.page.parts import Block, Gallery, Section, Text
from common.page.plots import Series
from common.text import plural
from trainer.extras.multilabel.files import BY_CLASS, PREDICTIONS, RELIABILITY
from trainer.extras.multilabel.leaf import MultilabelOptions
from trainer.report.page import image_file, kept_image, missing
from trainer.report.rated import Row, class_table, predicted_sections
from trainer.report.run_data import Run
from trainer.tasks.classification.files import MISTAKES, THUMBNAILS
from trainer.tasks.classification.report import by_probability
from trainer.tasks.classification.trust import Bin, calibration_error

LISTED: Final = 100
"""Most classes that are listed: those with the lowest average precision."""
TITLES: Final = {
    "confusion": "How well each class is found",
    "mistakes": "The worst images",
    "trust": "How far to trust its probabilities",
}


def sections(run: Run) -> list[Section]:
    """Return the sections of a run's report about its predictions."""

    def blocks(
        noted: Mapping[str, Any], rated: Sequence[Row], classes: Sequence[Row], bins: Sequence[Row]
    ) -> Sequence[Sequence[Block]]:
        facts = f"{plural(len(rated), f'{run.images} image')} after step {noted['step']:,}."
        worst = Text(
            "The images with the largest loss: the classes that they have, and those that the model"
            f" says.{missing(noted.get('problem'))}",
            hint=True,
        )
        return _classes(facts, classes, run), [worst, _gallery(run, rated)], _trust(bins)

    return predicted_sections(run, (PREDICTIONS, BY_CLASS, RELIABILITY), TITLES, blocks)


def _trust(bins: Sequence[Row]) -> list[Block]:
    counted = [[float(row[key]) for key in ("pairs", "there", "probability")] for row in bins]
    filled = {
        number: Bin(round(pairs), round(positive), total)
        for number, (pairs, positive, total) in enumerate(counted)
        if pairs
    }
    if not filled:
        return [Text("No probability is a number.")]
    points = [(round(100 * bin_.mean), (bin_.accuracy,) * 3) for bin_ in filled.values()]
    return [
        Text(
            "Its probabilities differ from the frequency with which images have the class by"
            f" {calibration_error(filled):.2%} on average, over all images and classes (expected"
            " calibration error)."
        ),
        *by_probability(
            "Probability and frequency",
            "part of the pairs of an image and a class of which the image has the class",
            [Series("probabilities", points)],
            "as probable as true",
        ),
    ]


def _classes(facts: str, classes: Sequence[Row], run: Run) -> list[Block]:
    options = run.config.of(MultilabelOptions) if run.config else MultilabelOptions()
    absent = sum(row["images"] == "0" for row in classes)
    left_out = (
        f" The means leave out {plural(absent, 'class', 'classes')} of {len(classes):,} that none"
        " of these images has."
        if absent
        else ""
    )
    shown = sorted(classes, key=lambda row: float(row["ap"] or 2))[:LISTED]
    rest = f"; {BY_CLASS} has all {len(classes):,}" if len(shown) < len(classes) else ""
    parts = {"ap": "AP", "auc": "ROC AUC", "f1": "F1"}
    # Versions before did not write these.
    parts |= {key: key for key in ("recall", "precision") if key in (classes[0] if classes else ())}
    counts = {"images": "have it", "said": "said to", "right": "both"}
    return [
        Text(
            f"{facts} The average precision (AP) of a class is that of scikit-learn, and F1 is at a"
            f" probability of {options.threshold:g}.{left_out}",
            hint=True,
        ),
        class_table(f"Classes, the worst first{rest}", shown, parts, counts),
    ]


def _gallery(run: Run, rated: Sequence[Row]) -> Gallery:
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
