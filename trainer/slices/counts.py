"""Counts of predictions by slice, and the files that they come from and go to. Standard library
only.
"""

import csv
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan
from pathlib import Path
from typing import Final

from common.files import write_table
from trainer.classification.trust import Bin, bin_of, calibration_error, wilson
from trainer.errors import DataError
from trainer.slices.leaf import SlicesOptions

FILE: Final = "slices.csv"
REST: Final = "(none)"
"""Slice of the images that no value is known of."""
COLUMNS: Final = ("slice", "images", "right", "accuracy", "low", "high", "calibration_error")


@dataclass
class Slice:
    """The predictions of a slice."""

    images: int = 0
    right: int = 0
    bins: dict[int, Bin] = field(default_factory=dict)

    def add(self, probability: float, *, right: bool) -> None:
        """Count a prediction."""
        self.images += 1
        self.right += right
        if not isnan(probability):
            number = bin_of(probability)
            self.bins[number] = self.bins.get(number, Bin(0, 0, 0.0)).plus(probability, right=right)


@dataclass(frozen=True)
class Row:
    """A line of slices.csv."""

    name: str
    images: int
    right: int
    calibration_error: float | None

    @property
    def accuracy(self) -> float:
        return self.right / self.images

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the accuracy (Wilson)."""
        return wilson(self.right, self.images)


def slicer(options: SlicesOptions) -> Callable[[str], str]:
    """Return the function from the name of a record to its slice.

    Raises:
        DataError: The table cannot be used.
    """
    if options.table is not None and options.column is not None:
        values = _column(Path(options.table), options.column)
        return lambda name: values.get(name) or REST
    compiled = re.compile(options.pattern or "")

    def of_name(name: str) -> str:
        match = compiled.search(name)
        return (match[min(1, compiled.groups)] if match else None) or REST

    return of_name


def _column(path: Path, column: str) -> Mapping[str, str]:
    if path.exists() and not path.is_file():
        # A pipe would be waited for.
        raise DataError(f"{path}: is not a file; name a CSV file")
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file)
            missing = [name for name in ("name", column) if name not in (rows.fieldnames or ())]
            if missing:
                raise DataError(f"{path}: has no column {missing[0]!r} in its first line")
            values: dict[str, str] = {}
            for row in rows:
                if values.setdefault(row["name"], row[column] or "") != (row[column] or ""):
                    raise DataError(
                        f"{path}: line {rows.line_num}: {row['name']!r} has a second value of"
                        f" {column!r}"
                    )
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path}: cannot be read ({error})") from error
    return values


def count(slices: Iterable[str], predictions: Iterable[tuple[bool, float]]) -> list[Row]:
    """Count predictions by slice, the least accurate slice first.

    Args:
        slices: The slice of each example.
        predictions: Whether each is right, and the probability of its predicted class.
    """
    found: dict[str, Slice] = {}
    for name, (right, probability) in zip(slices, predictions, strict=True):
        found.setdefault(name, Slice()).add(probability, right=right)
    rows = [
        Row(name, one.images, one.right, calibration_error(one.bins) if one.bins else None)
        for name, one in found.items()
    ]
    return sorted(rows, key=lambda row: (row.accuracy, -row.images, row.name))


def save(run: Path, rows: Iterable[Row]) -> None:
    """Write slices.csv into the folder of a run, atomically."""

    def shown(row: Row) -> Sequence[object]:
        numbers = (f"{value:.6f}" for value in (row.accuracy, *row.interval))
        error = "" if row.calibration_error is None else f"{row.calibration_error:.6f}"
        return [row.name, row.images, row.right, *numbers, error]

    write_table(run / FILE, COLUMNS, map(shown, rows), errors="surrogateescape")


def read(run: Path) -> list[Row] | str | None:
    """Return the lines of slices.csv, a sentence on why they cannot be read, or None without it."""
    path = run / FILE
    if not path.is_file():
        return None
    try:
        with path.open(encoding="utf-8", errors="replace", newline="") as file:
            return [
                Row(
                    row["slice"],
                    int(row["images"]),
                    int(row["right"]),
                    float(row["calibration_error"]) if row["calibration_error"] else None,
                )
                for row in csv.DictReader(file)
            ]
    except (OSError, ValueError, KeyError, TypeError, csv.Error) as error:
        return f"{FILE} cannot be read ({type(error).__name__}: {error})."
