"""The sections of a page about predictions: confused classes, and the most confident mistakes."""

import csv
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import isnan, sqrt
from pathlib import Path

from common.page.markup import ABSENT, text
from common.text import plural
from trainer.report.page import embedded, percent, table
from trainer.report.run_data import Run, mapping

MISTAKES = 24
"""Largest number of mistakes that are shown."""
MAX_IMAGE_BYTES = 1 << 20
"""Largest size of a thumbnail, in bytes; a larger file was not written by a run."""

_TYPES = {"png": "image/png", "jpg": "image/jpeg"}

MATRIX_CLASSES = 30
"""Most classes that are shown as a matrix; with more, the most common confusions are listed."""
PAIRS = 20
WEAKEST = 10
LONG_NAME = 4
"""Longest name, in characters, that is written horizontally in a column head."""
SMALL = 64
"""Longest side, in pixels, of images that are enlarged without smoothing."""
_PNG_WIDTH = slice(16, 20)


@dataclass(frozen=True)
class Mistake:
    """One held-out example that was classified wrongly."""

    index: int
    label: int
    predicted: int
    probability: float
    """Probability of the predicted class."""
    probability_of_label: float
    image: bytes | None
    media_type: str


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

    def accuracy(self, label: int) -> float:
        """Return the fraction of a class that was classified correctly, 0 to 1."""
        return self.counts.get((label, label), 0) / self.totals[label]

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
    try:
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                label, predicted = int(row["label"]), int(row["predicted"])
                counts[label, predicted] += 1
                names[label], names[predicted] = row["label_name"], row["predicted_name"]
                if label != predicted:
                    probabilities = float(row["probability"]), float(row["probability_of_label"])
                    wrong.append((int(row["index"]), label, predicted, *probabilities))
    except (OSError, ValueError, KeyError, TypeError, csv.Error) as error:
        return f"predictions.csv cannot be read ({type(error).__name__}: {error})."
    if not counts:
        return "predictions.csv is empty."
    # Probabilities that are NaN come last.
    wrong.sort(key=lambda row: (isnan(row[3]), -row[3], row[0]))
    chosen = tuple(Mistake(*row, *_image(run.path, row[0])) for row in wrong[:MISTAKES])
    known = mapping(run.stored.get("meaning")).get("classes")
    if isinstance(known, list):
        names = dict(enumerate(map(str, known))) | names
    problem = noted[-1].get("problem")
    return PredictionCounts(
        noted[-1]["step"], counts, names, chosen, str(problem) if problem else None
    )


def _image(folder: Path, index: int) -> tuple[bytes | None, str]:
    for suffix, media_type in _TYPES.items():
        path = folder / "mistakes" / f"{index}.{suffix}"
        try:
            if path.stat().st_size <= MAX_IMAGE_BYTES:
                return path.read_bytes(), media_type
        except OSError:
            continue
    return None, ""


def confusion(predictions: PredictionCounts | str) -> str:
    """Return the confusion matrix, or its highlights if there are many classes."""
    if isinstance(predictions, str):
        return f"<p>{text(predictions)}</p>\n"
    when = f'<p class="hint">{plural(predictions.examples, "held-out image")} after step'
    head = f"{when} {predictions.step:,}; {predictions.wrong:,} wrong.</p>\n"
    many = len(predictions.classes) > MATRIX_CLASSES
    return head + (_highlights(predictions) if many else _matrix(predictions))


def mistakes_grid(predictions: PredictionCounts | str) -> str:
    """Return the most confident mistakes with their images."""
    if isinstance(predictions, str):
        return f"<p>{text(predictions)}</p>\n"
    if not predictions.mistakes:
        all_of = plural(predictions.examples, "held-out image")
        return f"<p>None: all predictions for {all_of} are correct.</p>\n"
    shown = len(predictions.mistakes)
    which = (
        f"all {shown}" if shown == predictions.wrong else f"the {shown} of {predictions.wrong:,}"
    )
    if predictions.wrong == 1:
        which = "the only one"
    problem = f" Images are missing: {text(predictions.problem)}." if predictions.problem else ""
    hint = (
        f'<p class="hint">The most confident mistakes, {which}: the predicted class and the true'
        f" class, each with its probability.{problem}</p>\n"
    )
    cards = "".join(_card(mistake, predictions) for mistake in predictions.mistakes)
    return f'{hint}<div class="mistakes">\n{cards}</div>\n'


def _matrix(predictions: PredictionCounts) -> str:
    classes = predictions.classes
    rows = []
    for label in classes:
        total = predictions.totals.get(label, 0)
        cells = [_cell(predictions, label, predicted, total) for predicted in classes]
        right = percent(predictions.accuracy(label)) if total else ABSENT
        rows.append([text(predictions.name(label)), *cells, f'<td class="total">{right}</td>'])
    names = [predictions.name(number) for number in classes]
    long = " long" if any(len(name) > LONG_NAME for name in names) else ""
    hint = (
        '<p class="hint">Rows are the true classes, columns the predicted ones: blue is right,'
        " orange wrong, and a stronger colour is a larger part of the row.</p>\n"
    )
    heads = ["", *(f"<span>{text(name)}</span>" for name in names), "right"]
    return hint + table("Confusion matrix, in images", heads, rows, f"confusion{long}")


def _cell(predictions: PredictionCounts, label: int, predicted: int, total: int) -> str:
    count = predictions.counts.get((label, predicted), 0)
    if not count:
        return '<td class="none">0</td>'
    part = count / total
    # A single mistake among hundreds must still be visible.
    share = part if label == predicted else max(0.4, sqrt(part))
    kind = "hit" if label == predicted else "miss"
    return f'<td class="{kind}" style="--share: {share:.3f}">{count:,}</td>'


def _highlights(predictions: PredictionCounts) -> str:
    pairs = [
        [text(predictions.name(label)), text(predictions.name(predicted)), f"{count:,}"]
        for label, predicted, count in predictions.most_confused(PAIRS)
    ]
    weakest = [
        [
            text(predictions.name(label)),
            percent(predictions.accuracy(label)),
            f"{predictions.totals[label]:,}",
        ]
        for label in predictions.weakest(WEAKEST)
    ]
    heads = ["true class", "predicted as", "images"]
    return table(f"The {len(pairs)} most common confusions", heads, pairs) + table(
        f"The {len(weakest)} classes with the lowest accuracy",
        ["class", "right", "images"],
        weakest,
    )


def _card(mistake: Mistake, predictions: PredictionCounts) -> str:
    label, predicted = (
        text(predictions.name(mistake.label)),
        text(predictions.name(mistake.predicted)),
    )
    if mistake.image is None:
        image = f'<div class="absent">held-out image {mistake.index:,} was not kept</div>'
    else:
        source = embedded(mistake.image, mistake.media_type)
        kind = ' class="small"' if _is_small(mistake) else ""
        image = (
            f'<img{kind} src="{source}" loading="lazy"'
            f' alt="Held-out image {mistake.index}: {label}, predicted as {predicted}">'
        )
    return (
        f'<figure class="mistake">{image}\n<figcaption><dl>'
        f"<dt><span>predicted</span> {predicted}</dt><dd>{mistake.probability:.1%}</dd>"
        f"<dt><span>true</span> {label}</dt><dd>{mistake.probability_of_label:.1%}</dd>"
        "</dl></figcaption></figure>\n"
    )


def _is_small(mistake: Mistake) -> bool:
    if mistake.media_type != "image/png":
        return False
    return 0 < int.from_bytes((mistake.image or b"")[_PNG_WIDTH]) <= SMALL
