"""Files that are left out: counted against the limit, and listed with reasons."""

import csv
import re
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import floor
from pathlib import Path

from trainer.errors import DataError
from trainer.options import WriteOptions

REJECTED = "rejected.csv"

HIDDEN = "is a hidden file"
"""A reason that says nothing about the data set's quality."""

_SHOWN = 5

_PERCENT = re.compile(r"([0-9]+(?:\.[0-9]+)?)%")


@dataclass(frozen=True)
class RejectedFile:
    """A file that is left out."""

    split: str
    name: str
    reason: str


class RejectedError(ValueError):
    """A file that is no usable image; the message says why."""


class Rejections:
    """All files of a data set that are left out."""

    def __init__(
        self, rejected: Iterable[RejectedFile], usable: int, options: WriteOptions
    ) -> None:
        self._all: list[RejectedFile] = []
        self._counted: list[RejectedFile] = []
        self.add(rejected)
        self.total = usable + len(self._counted)
        """Files that were found, usable or not, but for hidden ones."""
        self._text = options.max_rejected
        self._allowed = allowed_rejections(options.max_rejected, self.total)

    @property
    def count(self) -> int:
        return len(self._all)

    def add(self, more: Iterable[RejectedFile]) -> None:
        """Leave out more files; hidden ones, which file managers leave behind, are listed but say
        nothing about the data set, and are not counted.
        """
        for file in more:
            self._all.append(file)
            if file.reason != HIDDEN:
                self._counted.append(file)

    def check(self, output: Path) -> None:
        """Make sure that not too many are left out.

        Raises:
            DataError: there are more than --max-rejected; they are listed in rejected.csv.
        """
        if len(self._counted) <= self._allowed:
            return
        self.save(output)
        first = sorted(self._counted, key=_key)[:_SHOWN]
        shown = "".join(f"\n  - {_name(file)} {file.reason}" for file in first)
        raise DataError(
            f"{len(self._counted):,} of {self.total:,} files are no usable images, more than"
            f" --max-rejected {self._text}; {output / REJECTED} lists those found so far:{shown}\n"
            "Allow more, and the same command continues; or mend or remove them, and start again"
            " with an empty --output"
        )

    def example(self) -> str:
        """The first one, as part of a sentence."""
        if not self._all:
            return ""
        first = min(self._all, key=_key)
        return f" ({_name(first)}, for one, {first.reason})"

    def save(self, output: Path) -> None:
        """Write rejected.csv, in the order of names; none is written, and none stays, if there is
        nothing to list.
        """
        path = output / REJECTED
        if not self._all:
            path.unlink(missing_ok=True)
            return
        with path.open("w", newline="", encoding="utf-8", errors="surrogateescape") as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow(["split", "name", "reason"])
            rows.writerows((r.split, r.name, r.reason) for r in sorted(self._all, key=_key))

    def tell(self, output: Path) -> None:
        """Say that files are left out, if any are."""
        if self._all:
            print(f"{self.count:,} files are left out: {output / REJECTED} says why")


def _key(file: RejectedFile) -> tuple[str, str, str]:
    return file.split, file.name, file.reason


def _name(file: RejectedFile) -> str:
    return f"{file.split}/{file.name}" if file.split else file.name


def allowed_rejections(text: str, files: int) -> int:
    """Files that may be rejected of a number of files.

    Args:
        text: a number, or a percentage such as 1%.
        files: all there are.

    Raises:
        ValueError: the text is neither.
    """
    percent = _PERCENT.fullmatch(text)
    # 0.57% of 100,000 are 570, of which a float would make 569.
    if percent and Fraction(percent[1]) <= 100:
        return floor(files * Fraction(percent[1]) / 100)
    if not text.isdecimal():
        raise ValueError(f"{text!r} must be a number of files, or a percentage such as 1%")
    return int(text)
