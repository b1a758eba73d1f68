"""What predictions.csv and the images of mistakes say. Standard library only."""

import csv
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import isnan
from pathlib import Path

from trainer.report.data import Run, mapping

MISTAKES = 24
"""Most mistakes that are shown."""
LARGEST_IMAGE = 1 << 20
"""Bytes of an image beyond which it is no thumbnail of ours."""

_TYPES = {"png": "image/png", "jpg": "image/jpeg"}


@dataclass(frozen=True)
class Mistake:
    """One held-out example that was classified wrongly."""

    index: int
    label: int
    predicted: int
    probability: float
    """Of the predicted class."""
    probability_of_label: float
    image: bytes | None
    media_type: str


@dataclass(frozen=True)
class Outcome:
    """All predictions of a run, counted."""

    step: int
    """Steps after which they were made."""
    counts: Mapping[tuple[int, int], int]
    """Examples by label and predicted class."""
    names: Mapping[int, str]
    """Names of the classes that are known."""
    mistakes: tuple[Mistake, ...]
    """The most confident ones, the surest first."""
    problem: str | None
    """Why an image is missing, if one could not be read when the run ended."""

    def name(self, number: int) -> str:
        return self.names.get(number, str(number))

    @property
    def classes(self) -> list[int]:
        """Numbers of all classes that are known."""
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
        """Part of a class that was classified rightly, 0 to 1."""
        return self.counts.get((label, label), 0) / self.totals[label]

    def most_confused(self, limit: int) -> list[tuple[int, int, int]]:
        """Label, predicted class and count of the commonest mistakes."""
        wrong = [(*pair, count) for pair, count in self.counts.items() if pair[0] != pair[1]]
        return sorted(wrong, key=lambda entry: (-entry[2], entry))[:limit]

    def weakest(self, limit: int) -> list[int]:
        """The classes with the lowest accuracy."""
        return sorted(self.totals, key=lambda label: (self.accuracy(label), label))[:limit]


def read_outcome(run: Run) -> Outcome | str:
    """Read and count the predictions of a run, or say why there are none."""
    noted = run.of("predictions")
    path = run.path / "predictions.csv"
    if not path.is_file() or not noted:
        return "No predictions: they are written when a run with held-out images is complete."
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
    # Probabilities that are not numbers come last.
    wrong.sort(key=lambda row: (isnan(row[3]), -row[3], row[0]))
    chosen = tuple(Mistake(*row, *_image(run.path, row[0])) for row in wrong[:MISTAKES])
    known = mapping(run.stored.get("meaning")).get("classes")
    if isinstance(known, list):
        names = dict(enumerate(map(str, known))) | names
    problem = noted[-1].get("problem")
    return Outcome(noted[-1]["step"], counts, names, chosen, str(problem) if problem else None)


def _image(folder: Path, index: int) -> tuple[bytes | None, str]:
    for suffix, media_type in _TYPES.items():
        path = folder / "mistakes" / f"{index}.{suffix}"
        try:
            if path.stat().st_size <= LARGEST_IMAGE:
                return path.read_bytes(), media_type
        except OSError:
            continue
    return None, ""
