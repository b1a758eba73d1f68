"""Rejected files: counted against the limit, and listed with reasons."""

import csv
import re
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import floor
from pathlib import Path
from typing import Self

from trainer.data.intake.names import without_details
from trainer.data.prepare.options import WriteOptions
from trainer.errors import DataError

REJECTED = "rejected.csv"

HIDDEN = "is a hidden file"
"""Reason for hidden files, which does not count against the limit."""

_SHOWN = 5

_PERCENT = re.compile(r"([0-9]+(?:\.[0-9]+)?)%")


@dataclass(frozen=True)
class RejectedFile:
    """A file that is not written to the data set."""

    split: str
    name: str
    reason: str
    sentence: str = ""
    """The reason without details that may identify something; empty if it has none."""

    @classmethod
    def of(cls, split: str, name: str, *parts: str) -> Self:
        """Return a file that is rejected for a reason whose every second part is a detail, as those
        of `RejectedError` are.
        """
        return cls(split, name, "".join(parts), without_details(parts))


class Rejections:
    """All rejected files of a data set."""

    def __init__(
        self, rejected: Iterable[RejectedFile], usable: int, options: WriteOptions
    ) -> None:
        self._all: list[RejectedFile] = []
        self._counted: list[RejectedFile] = []
        self.add(rejected)
        self.total = usable + len(self._counted)
        """Number of files found, usable or not, except hidden ones."""
        self._text = options.max_rejected
        self._allowed = allowed_rejections(options.max_rejected, self.total)

    @property
    def count(self) -> int:
        return len(self._all)

    def add(self, more: Iterable[RejectedFile]) -> None:
        """Add rejected files. Hidden files, which file managers leave behind, are listed but not
        counted.
        """
        for file in more:
            self._all.append(file)
            if file.reason != HIDDEN:
                self._counted.append(file)

    def check(self, output: Path) -> None:
        """Check the number of rejected files.

        Raises:
            DataError: There are more than --max-rejected; they are listed in rejected.csv.
        """
        if len(self._counted) <= self._allowed:
            return
        self.save(output)
        first = sorted(self._counted, key=_key)[:_SHOWN]
        shown = "".join(f"\n  - {_name(file)} {file.reason}" for file in first)
        raise DataError(
            f"{len(self._counted):,} of {self.total:,} files are not usable images, more than"
            f" --max-rejected {self._text}; {output / REJECTED} lists those found so far:{shown}\n"
            "Allow more, and the same command continues; or repair or remove them, and start again"
            " with an empty --output"
        )

    def example(self) -> str:
        """Return the first rejected file, as part of a sentence."""
        if not self._all:
            return ""
        first = min(self._all, key=_key)
        return f" (for example, {_name(first)} {first.reason})"

    def save(self, output: Path) -> None:
        """Write rejected.csv, in the order of names; delete it if there is nothing to list."""
        path = output / REJECTED
        if not self._all:
            path.unlink(missing_ok=True)
            return
        with path.open("w", newline="", encoding="utf-8", errors="surrogateescape") as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow(["split", "name", "reason"])
            rows.writerows((r.split, r.name, r.reason) for r in sorted(self._all, key=_key))

    def tell(self, output: Path) -> None:
        """Print the number of rejected files, if there are any."""
        if self._all:
            were = "file was" if self.count == 1 else "files were"
            print(f"{self.count:,} {were} rejected; see {output / REJECTED} for the reasons")


def _key(file: RejectedFile) -> tuple[str, str, str]:
    return file.split, file.name, file.reason


def _name(file: RejectedFile) -> str:
    return f"{file.split}/{file.name}" if file.split else file.name


def allowed_rejections(text: str, files: int) -> int:
    """Return how many of a number of files may be rejected.

    Args:
        text: Number, or percentage such as 1%.
        files: Number of all files.

    Raises:
        ValueError: The text is neither a number nor a percentage.
    """
    percent = _PERCENT.fullmatch(text)
    # 0.57% of 100,000 is 570; a float would give 569.
    if percent and Fraction(percent[1]) <= 100:
        return floor(files * Fraction(percent[1]) / 100)
    if not text.isdecimal():
        raise ValueError(f"{text!r} must be a number of files, or a percentage such as 1%")
    return int(text)
