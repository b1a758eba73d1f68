"""The predictions of a run: their counts, the confused classes, and the most confident mistakes."""

import csv
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isnan, sqrt

from common.page.parts import Block, Cell, Columns, Figure, Gallery, Plots, Section, Table, Text
from common.page.plots import Scale, Series, plot
from common.text import plural
from trainer.report.page import about_predictions, image_file, kept_image, missing, percent
from trainer.report.run_data import Run, mapping
from trainer.tasks.classification.trust import (
    Bin,
    bin_of,
    calibration_error,
    wilson,
    wilson_of_groups,
)

MISTAKES = 24
"""Largest number of mistakes that are shown."""
MATRIX = 30
"""Most classes that are shown as a matrix."""
LONG = 4
"""Longest names, in letters, that stand side by side above a matrix."""


@dataclass(frozen=True)
class Mistake:
    """One evaluated example that was classified wrongly."""

    index: int
    label: int
    predicted: int
    probability: float
    """Probability of the predicted class."""
    probability_of_label: float
    image: bytes | None
    """PNG or JPEG; None if it was not kept."""


@dataclass(frozen=True)
class PredictionCounts:
    """Counts of all predictions of a run."""

    step: int
    """Steps after which the predictions were made."""
    counts: Mapping[tuple[int, int], int]
    """Examples by label and predicted class."""
    names: Mapping[int, str]
    """Names of the known classes, by label."""
    mistakes: tuple[Mistake, ...]
    """The most confident mistakes, in descending order of probability."""
    problem: str | None
    """Why an image is missing, if one could not be read when the run ended."""
    bins: Mapping[int, Bin]
    """Predictions by the bin of their probability; those without a number are left out."""
    groups: Sequence[tuple[int, int]] = ()
    """Right examples and all examples of each group, if the data set has groups."""
    areas: Mapping[str, float] = field(default_factory=dict)
    """Areas under ROC curves by the name of a class, as far as they are known."""
    images: str = "held-out"
    """Word for the images."""

    def name(self, number: int) -> str:
        return self.names.get(number, str(number))

    @property
    def classes(self) -> list[int]:
        """Labels of all known classes."""
        return sorted(self.names)

    @property
    def examples(self) -> int:
        return sum(self.counts.values())

    @property
    def wrong(self) -> int:
        return sum(count for (label, predicted), count in self.counts.items() if label != predicted)

    @cached_property
    def totals(self) -> Mapping[int, int]:
        """Examples of each class that has any."""
        totals: Counter[int] = Counter()
        for (label, _), count in self.counts.items():
            totals[label] += count
        return totals

    @cached_property
    def predicted(self) -> Mapping[int, int]:
        """Examples that are predicted as each class, if there are any."""
        totals: Counter[int] = Counter()
        for (_, predicted), count in self.counts.items():
            totals[predicted] += count
        return totals

    def accuracy(self, label: int) -> float:
        """Return the fraction of a class that was classified correctly, 0 to 1."""
        return self.counts.get((label, label), 0) / self.totals[label]

    def precision(self, label: int) -> float | None:
        """Return the fraction of a class's predictions that are of it, if there are any."""
        of = self.predicted.get(label, 0)
        return self.counts.get((label, label), 0) / of if of else None

    @property
    def interval(self) -> tuple[float, float]:
        """95 % confidence interval of the accuracy."""
        if len(self.groups) > 1:
            return wilson_of_groups(self.groups)
        return wilson(self.examples - self.wrong, self.examples)

    def strength(self, label: int, predicted: int) -> float:
        """Return how strong to show a cell of the confusion matrix that has examples, 0 to 1."""
        part = self.counts[label, predicted] / self.totals[label]
        # A single mistake among hundreds must still be visible.
        return part if label == predicted else max(0.4, sqrt(part))

    def most_confused(self, limit: int) -> list[tuple[int, int, int]]:
        """Return label, predicted class and count of the most common mistakes."""
        wrong = [(*pair, count) for pair, count in self.counts.items() if pair[0] != pair[1]]
        return sorted(wrong, key=lambda entry: (-entry[2], entry))[:limit]

    def weakest(self, limit: int) -> list[int]:
        """Return the labels of the classes with the lowest accuracy."""
        return sorted(self.totals, key=lambda label: (self.accuracy(label), label))[:limit]


def read_predictions(run: Run) -> PredictionCounts | str:
    """Read and count the predictions of a run, or return a sentence on why there are none."""
    noted = run.of("predictions")
    path = run.path / "predictions.csv"
    if not path.is_file() or not noted:
        return "No predictions: they are written when a run with held-out images is finished."
    names: dict[int, str] = {}
    counts: Counter[tuple[int, int]] = Counter()
    wrong = []
    bins: dict[int, Bin] = {}
    groups: dict[str, list[int]] = {}
    try:
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                label, predicted = int(row["label"]), int(row["predicted"])
                counts[label, predicted] += 1
                names[label], names[predicted] = row["label_name"], row["predicted_name"]
                probabilities = float(row["probability"]), float(row["probability_of_label"])
                if not isnan(probabilities[0]):
                    number, right = bin_of(probabilities[0]), label == predicted
                    bins[number] = bins.get(number, Bin(0, 0, 0.0)).plus(
                        probabilities[0], right=right
                    )
                if "group" in row:
                    of_group = groups.setdefault(row["group"], [0, 0])
                    of_group[0] += label == predicted
                    of_group[1] += 1
                if label != predicted:
                    wrong.append((int(row["index"]), label, predicted, *probabilities))
    except (OSError, ValueError, KeyError, TypeError, csv.Error) as error:
        return f"predictions.csv cannot be read ({type(error).__name__}: {error})."
    if not counts:
        return "predictions.csv is empty."
    # Probabilities that are NaN come last.
    wrong.sort(key=lambda row: (isnan(row[3]), -row[3], row[0]))
    chosen = tuple(
        Mistake(*row, image_file(run.path / "mistakes" / str(row[0]))) for row in wrong[:MISTAKES]
    )
    known = mapping(run.stored.get("meaning")).get("classes")
    if isinstance(known, list):
        names = dict(enumerate(map(str, known))) | names
    problem = noted[-1].get("problem")
    return PredictionCounts(
        noted[-1]["step"],
        counts,
        names,
        chosen,
        str(problem) if problem else None,
        bins,
        [(right, whole) for right, whole in groups.values()],
        _areas(run),
        run.images,
    )


def _areas(run: Run) -> Mapping[str, float]:
    try:
        with (run.path / "classes.csv").open(encoding="utf-8", newline="") as file:
            return {row["class"]: float(row["auc"]) for row in csv.DictReader(file) if row["auc"]}
    except (OSError, ValueError, KeyError, TypeError, csv.Error):
        return {}


def sections(run: Run) -> list[Section]:
    """Return the sections of a run's report about its predictions."""
    counts = read_predictions(run)
    if isinstance(counts, str):
        return about_predictions([Text(counts)], [Text(counts)])
    facts = f"{plural(counts.examples, f'{counts.images} image')} after step {counts.step:,};"
    confused = [Text(f"{facts} {counts.wrong:,} wrong.", hint=True)]
    few = len(counts.classes) <= MATRIX
    shown = about_predictions(
        [*confused, *(_matrix if few else _listed)(counts)], _mistakes(counts)
    )
    return [
        Section("classes", "How well each class is found", _classes(counts)),
        *shown,
        Section("trust", "How far to trust it", _trust(counts)),
    ]


def _classes(counts: PredictionCounts) -> list[Block]:
    labels = counts.classes
    listed = labels if len(labels) <= MATRIX else counts.weakest(MATRIX)
    rows = [
        [
            counts.name(label),
            *map(
                percent,
                (
                    counts.accuracy(label) if label in counts.totals else None,
                    counts.precision(label),
                    counts.areas.get(counts.name(label)),
                ),
            ),
            f"{counts.totals.get(label, 0):,}",
            f"{counts.predicted.get(label, 0):,}",
        ]
        for label in listed
    ]
    hint = (
        "Recall: the part of a class that is predicted as it. Precision: the part of the images"
        " predicted as a class that are of it. AUC: how often an image of the class has a higher"
        " probability of it than another image."
    )
    which = f"The {MATRIX} with the lowest recall; classes.csv has all {len(labels):,}"
    caption = (
        which if len(listed) < len(labels) else f"{counts.images.capitalize()} images by class"
    )
    heads = ("class", "recall", "precision", "AUC", "images", "predicted")
    return [Text(hint, hint=True), Table(caption, heads, rows, "numbers")]


def _trust(counts: PredictionCounts) -> list[Block]:
    right, of = counts.examples - counts.wrong, counts.examples
    low, high = counts.interval
    largest = max(counts.totals, key=lambda label: (counts.totals[label], -label))
    drawn_as = (
        f"They come in {len(counts.groups):,} groups, such as patients, whose images are alike, so"
        f" the interval is that of groups drawn anew"
        if len(counts.groups) > 1
        else "This is Wilson's interval, for images that are independent of each other"
    )
    blocks: list[Block] = [
        Text(
            f"{right / of:.2%} of {plural(of, f'{counts.images} image')} are right; the answer"
            f" {counts.name(largest)} for every image would be right for"
            f" {counts.totals[largest] / of:.2%}. With 95 % confidence, the true accuracy on images"
            f" drawn in the same way lies between {low:.2%} and {high:.2%}. {drawn_as}."
        )
    ]
    if not counts.bins:
        return blocks
    error = calibration_error(counts.bins)
    ordered = [counts.bins[number] for number in sorted(counts.bins)]
    drawn = reliability("Probability and accuracy", {"predictions": counts.bins})
    rows = [
        [percent(b.mean), percent(b.accuracy), percent(low), percent(high), f"{b.count:,}"]
        for b in ordered
        for low, high in [wilson(b.right, b.count)]
    ]
    heads = ("mean probability", "right", "from", "to", "images")
    surer = sum(b.probability for b in ordered) > sum(b.right for b in ordered)
    return [
        *blocks,
        Text(
            f"Its probabilities differ from its accuracy by {error:.2%} on average (expected"
            f" calibration error): it is {'surer' if surer else 'less sure'} than it is right."
        ),
        Columns([*drawn, Table("Predictions by probability", heads, rows, "numbers")]),
    ]


def reliability(title: str, bins: Mapping[str, Mapping[int, Bin]]) -> list[Plots]:
    """Return a plot of the accuracies of predictions by their probability, if there is one.

    Args:
        title: Title of the plot.
        bins: Bins of each series by their number, by name of the series.
    """
    series = [
        Series(name, [(round(100 * b.mean), _interval(b)) for _, b in sorted(by_bin.items())])
        for name, by_bin in bins.items()
    ]
    what = "fraction right, with its 95 % interval, by the mean probability of the predictions"
    return by_probability(title, what, series, "as probable as right")


def by_probability(title: str, what: str, series: Sequence[Series], diagonal: str) -> list[Plots]:
    """Return a plot of fractions by probability, in percent, with a named diagonal, if there is
    one.
    """
    equal = [(percents, (percents / 100,) * 3) for percents in (0, 100)]
    drawn = plot(
        title,
        what,
        "probability in %",
        [*series, Series(diagonal, equal, marked=False, dashes="4 3")],
        scale=Scale(from_zero=True, percent=True),
        from_zero=True,
    )
    return [Plots([drawn])] if drawn else []


def _interval(bin_: Bin) -> tuple[float, float, float]:
    low, high = wilson(bin_.right, bin_.count)
    return low, bin_.accuracy, high


def _matrix(counts: PredictionCounts) -> list[Block]:
    classes = counts.classes
    names = [counts.name(label) for label in classes]

    def cell(label: int, predicted: int) -> Cell:
        count = counts.counts.get((label, predicted), 0)
        if not count:
            return Cell("0", "none")
        kind = "hit" if label == predicted else "miss"
        return Cell(f"{count:,}", kind, counts.strength(label, predicted))

    rows: list[list[str | Cell | None]] = [
        [
            counts.name(label),
            *(cell(label, predicted) for predicted in classes),
            Cell(percent(counts.accuracy(label)) if label in counts.totals else None, "total"),
        ]
        for label in classes
    ]
    reading = (
        "Rows are the true classes, columns the predicted ones: blue is right, orange wrong, and a"
        " stronger colour is a larger part of the row."
    )
    kind = "confusion long" if max(map(len, names)) > LONG else "confusion"
    heads = ["", *names, "right"]
    return [Text(reading, hint=True), Table("Confusion matrix, in images", heads, rows, kind)]


def _listed(counts: PredictionCounts) -> list[Block]:
    pairs = counts.most_confused(20)
    return [
        Table(
            f"The {len(pairs)} most common confusions",
            ("true class", "predicted as", "images"),
            [[counts.name(a), counts.name(b), f"{count:,}"] for a, b, count in pairs],
        )
    ]


def _mistakes(counts: PredictionCounts) -> list[Block]:
    shown, wrong = len(counts.mistakes), counts.wrong
    if not wrong:
        images = plural(counts.examples, f"{counts.images} image")
        return [Text(f"None: all predictions for {images} are correct.")]
    of = f" of {wrong:,}" if shown < wrong else ""
    which = f"The most confident mistakes, {'the' if of else 'all'} {shown}{of}:"
    return [
        Text(
            f"{'The only mistake:' if wrong == 1 else which} the predicted class and the true"
            f" class, each with its probability.{missing(counts.problem)}",
            hint=True,
        ),
        Gallery([_figure(counts, mistake) for mistake in counts.mistakes], "mistakes"),
    ]


def _figure(counts: PredictionCounts, mistake: Mistake) -> Figure:
    label, predicted = counts.name(mistake.label), counts.name(mistake.predicted)
    return kept_image(
        mistake.image,
        mistake.index,
        f"{label}, predicted as {predicted}",
        [
            ("predicted", predicted, f"{100 * mistake.probability:.1f}%"),
            ("true", label, f"{100 * mistake.probability_of_label:.1f}%"),
        ],
    )
