"""The predictions of a run: their counts, the confused classes, and the most confident mistakes."""

import csv
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import isnan, sqrt
from pathlib import Path

from trainer.report.page import PredictionSections
from trainer.report.run_data import Run, mapping

MISTAKES = 24
"""Largest number of mistakes that are shown."""
MAX_IMAGE_BYTES = 1 << 20
"""Largest size of a thumbnail, in bytes; a larger file was not written by a run."""

_TYPES = {"png": "image/png", "jpg": "image/jpeg"}

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

    @property
    def is_small(self) -> bool:
        """Whether the image is so small that it is enlarged without smoothing."""
        if self.media_type != "image/png":
            return False
        return 0 < int.from_bytes((self.image or b"")[_PNG_WIDTH]) <= SMALL


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
    def class_names(self) -> list[str]:
        """Names of all known classes, in the order of their labels."""
        return [self.name(label) for label in self.classes]

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


def show_predictions(run: Run) -> PredictionSections:
    """Return what the report shows; see `TaskDescription.report`."""
    return PredictionSections.render("trainer.classification", predictions=read_predictions(run))


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
