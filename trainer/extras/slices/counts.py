"""Counts of predictions by slice, and the files that they come from and go to. Standard library
only.
"""

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import isnan
from pathlib import Path
from typing import Final

from common.files import write_table
from common.text import plural
from trainer.data.tables.file_names import ByName
from trainer.data.tables.kept_columns import FILE as KEPT
from trainer.data.tables.reader import Table, open_table
from trainer.errors import DataError
from trainer.extras.slices.leaf import SlicesOptions
from trainer.tasks.classification.trust import Bin, bin_of, calibration_error, wilson

FILE: Final = "slices.csv"
REST: Final = "(none)"
"""Slice of the images that no value is known of."""
_NAMES: Final = ("name", "file", "filename", "file_name", "path", "image", "datei", "dateiname")
_LOOKED_FOR: Final = 500
"""Names of records by which the column of a table that has them is found."""
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


def slicer(
    options: SlicesOptions, folder: Path | None = None, names: Iterable[str] = ()
) -> Callable[[str], str]:
    """Return the function from the name of a record to its slice.

    Args:
        options: Definition of the slices.
        folder: Folder of the data set, with the columns that it keeps.
        names: Names of records, of which the first tell which column of a table has them.

    Raises:
        DataError: The table cannot be used.
    """
    if options.column is not None:
        path = Path(options.table) if options.table else (folder or Path()) / KEPT
        if not options.table and not path.is_file():
            raise DataError(
                f"{path}: does not exist, as the data set was not made of a table whose columns are"
                " kept; name a table with --table"
            )
        values = _column(path, options.column, names)
        return lambda name: values.get(name) or REST
    compiled = re.compile(options.pattern or "")

    def of_name(name: str) -> str:
        match = compiled.search(name)
        return (match[min(1, compiled.groups)] if match else None) or REST

    return of_name


def check(rows: Sequence[Row], options: SlicesOptions, name: str) -> None:
    """Check that slices are of some images.

    Args:
        rows: Counts by slice.
        options: Definition of the slices.
        name: Name of one of the images.

    Raises:
        DataError: No image is in a slice.
    """
    if any(row.name != REST for row in rows):
        return
    images = f"none of {plural(sum(row.images for row in rows), 'held-out image')}, such as {name}"
    if options.column is None:
        raise DataError(
            f"the pattern {options.pattern!r} finds {images}; it must match their names"
        )
    raise DataError(
        f"{options.table or KEPT}: has a value of {options.column!r} for {images}; a column must"
        " have their names in the data set, or those of their files"
    )


def _column(path: Path, column: str, records: Iterable[str]) -> ByName[str]:
    """Return the values of a column by the names of files."""
    table = open_table(path)
    table.column(column, (), "--column")
    names = _column_of_names(table, column, records)
    if not names:
        raise table.error(
            "has no column 'name' with the names of records; its columns are ", table.names
        )
    values: dict[str, str] = {}
    for row in table.rows():
        if row.fault:
            raise DataError(f"{path}: line {row.line}: {row.fault}")
        name, value = row.values[names], row.values[column]
        if values.setdefault(name, value) != value:
            raise DataError(f"{path}: line {row.line}: {name!r} has a second value of {column!r}")
    return ByName(values)


def _column_of_names(table: Table, column: str, names: Iterable[str]) -> str:
    """Return the column with most of some names of records; of several, the one whose own name is
    usual. Empty without any.
    """
    usual = table.column(None, _NAMES, "")
    known, counts = ByName(dict.fromkeys(islice(names, _LOOKED_FOR))), Counter({usual: 0})
    others = [other for other in table.columns if other != column]
    for row in table.rows() if others else ():
        for other in () if row.fault else others:
            counts[other] += known.path(row.values[other]) is not None
    # Of equal counts, the first one is the largest.
    return max(counts, key=lambda other: counts[other])


def count(slices: Iterable[str], predictions: Iterable[tuple[bool, float]]) -> list[Row]:
    """Count predictions by slice, the least accurate slice first.

    Args:
        slices: The slice of each example.
        predictions: Whether each is right, and the probability of its predicted class.
    """
    by_name: dict[str, Slice] = {}
    for name, (right, probability) in zip(slices, predictions, strict=True):
        by_name.setdefault(name, Slice()).add(probability, right=right)
    rows = [
        Row(
            name,
            slice_.images,
            slice_.right,
            calibration_error(slice_.bins) if slice_.bins else None,
        )
        for name, slice_ in by_name.items()
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
