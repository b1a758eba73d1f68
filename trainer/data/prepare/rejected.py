"""Rejected files: counted against the limit, and listed with reasons."""

import csv
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import islice, takewhile
from math import floor
from pathlib import Path
from typing import Any, Self

from common.fields import to_flags
from common.program import installed
from common.text import listing, plural, without_details
from trainer.data.prepare.on_disk import decoded, encoded, scratch_database
from trainer.data.prepare.options import OTHER_OUTPUT, WriteOptions
from trainer.errors import DataError

REJECTED = "rejected.csv"

HIDDEN = "is a hidden file"
"""Reason for hidden files, which does not count against the limit."""

_SHOWN = 5

_SO_MANY = 10
"""One file of so many is rejected if the command ends before all files were looked at."""

_DETAILS = re.compile(r" ?\(.*\)")
"""Part of a reason that differs from file to file."""

_SCHEMA = """
CREATE TABLE rejected (split TEXT, name BLOB, reason BLOB, kind BLOB, counted INTEGER);
CREATE INDEX by_name ON rejected (split, name);
"""
_SAVED = """
SELECT split, name, reason FROM rejected ORDER BY counted DESC, split, name, reason
"""
# The first file of each kind of reason, and the number of its files.
_REASONS = """
SELECT files, split, name, reason FROM (
    SELECT split, name, reason, count(*) OVER (PARTITION BY kind) AS files, row_number() OVER
        (PARTITION BY kind ORDER BY split, name, reason) AS number FROM rejected WHERE counted)
    WHERE number = 1 ORDER BY files DESC, split, name, reason
"""

_PERCENT = re.compile(r"([0-9]+(?:\.[0-9]+)?)%")


@dataclass(frozen=True)
class RejectedFile:
    """A file that is not written to the data set."""

    split: str
    name: str
    reason: str
    sentence: str = ""
    """The reason without details that may identify something; empty if it has none."""
    counted: bool = True
    """Whether it counts against the limit: it should be an image. Other files, and hidden ones, are
    only listed."""

    @classmethod
    def of(cls, split: str, name: str, *parts: str) -> Self:
        """Return a file that is rejected for a reason whose every second part is a detail, as those
        of `RejectedError` are.
        """
        return cls(split, name, "".join(parts), without_details(parts))


class Rejections:
    """All rejected files of a data set, on disk: a wrong folder may have millions."""

    def __init__(
        self,
        rejected: Iterable[RejectedFile],
        usable: int,
        options: WriteOptions,
        command: str = "",
    ) -> None:
        self._database = scratch_database(_SCHEMA)
        self._counted = self._others = 0
        self._options, self._command = options, command
        self.add(rejected)
        self._files = usable + self._counted + self._others

    @property
    def count(self) -> int:
        return self._counted + self._others

    def has(self, split: str, name: str) -> bool:
        """Return whether a file is rejected."""
        query = "SELECT 1 FROM rejected WHERE split = ? AND name = ?"
        return self._database.execute(query, (split, encoded(name))).fetchone() is not None

    @property
    def total(self) -> int:
        """Number of files that should be images, usable or not."""
        return self._files - self._others

    def add(self, more: Iterable[RejectedFile]) -> None:
        """Add rejected files. Hidden files, which file managers leave behind, and files that are
        not images by their names are listed but not counted.
        """
        self._database.executemany(
            "INSERT INTO rejected VALUES (?, ?, ?, ?, ?)", map(self._row, more)
        )

    def _row(self, file: RejectedFile) -> tuple[str, bytes, bytes, bytes, bool]:
        if file.counted:
            self._counted += 1
        else:
            self._others += 1
        kind = _DETAILS.sub("", file.reason)
        return file.split, encoded(file.name), encoded(file.reason), encoded(kind), file.counted

    def check(self, output: Path, *, finished: bool) -> None:
        """Check the number of rejected files.

        Args:
            output: Folder of the data set.
            finished: Whether all files were looked at. Otherwise only a part that is far too large
                is an error, so that most errors name all rejected files at once.

        Raises:
            DataError: There are more than --max-rejected; they are listed in rejected.csv.
        """
        text, count = self._options.max_rejected, self._counted
        if count <= allowed_rejections(text, self.total):
            return
        if not finished and count * _SO_MANY <= self.total:
            return
        self.save(output)
        so_far = "" if finished else "; more may follow"
        remedy = f"{count:,} or more{so_far}:\n    {again(self._command, self._options, count)}"
        if self._options.names != "kept":
            # Of the input, messages name nothing.
            remedy = f"--max-rejected {count} or more{so_far}"
        raise DataError.of(
            f"{count:,} of {self.total:,} files are not usable images, more than --max-rejected"
            f" {text}; {output / REJECTED} lists those found so far:\n{self._reasons()}\n"
            f"To leave them out, continue with the same command and {remedy}\n"
            f"Or repair or remove them, and start again with {OTHER_OUTPUT}"
        )

    def _reasons(self) -> str:
        """Return the reasons by number of files, each with its first file."""
        rows = self._database.execute(_REASONS)
        lines = [
            f"{files:,} {'file' if files == 1 else 'files, such as'}: {_words(first)}"
            for files, *first in islice(rows, _SHOWN)
        ]
        return listing(lines, others=sum(1 for _ in rows))

    def example(self) -> str:
        """Return the first rejected file, as part of a sentence."""
        first = self._database.execute(f"{_SAVED} LIMIT 1").fetchone()
        return f" (for example, {_words(first)})" if first else ""

    def save(self, output: Path) -> None:
        """Write rejected.csv, in the order of names, files that should be images first; delete it
        if there is nothing to list.
        """
        path = output / REJECTED
        if not self.count:
            path.unlink(missing_ok=True)
            return
        with path.open("w", newline="", encoding="utf-8", errors="surrogateescape") as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow(["split", "name", "reason"])
            for split, name, reason in self._database.execute(_SAVED):
                rows.writerow((split, decoded(name), decoded(reason)))

    def tell(self, output: Path) -> None:
        """Print the number of rejected files, if there are any."""
        if self.count:
            kinds = [
                *([f"{plural(self._counted, 'file')} rejected"] if self._counted else []),
                *(
                    [f"{plural(self._others, 'file')} left out that are not images"]
                    if self._others
                    else []
                ),
            ]
            print(f"{' and '.join(kinds)}; see {output / REJECTED} for the reasons")


def again(command: str, options: WriteOptions, rejected: int) -> str:
    """Return the command line that accepts so many rejected files.

    Args:
        command: Command line that begins with that of the user.
        options: Its options.
        rejected: Number of rejected files.
    """
    words = takewhile(lambda word: not word.startswith("--"), shlex.split(command))
    _, *name = words
    changed = replace(options, max_rejected=str(rejected))
    return shlex.join([installed("ml-trainer"), *name, *to_flags(changed, type(options)())])


def _words(row: Sequence[Any]) -> str:
    """Return a row of split, name and reason, as part of a sentence."""
    split, name, reason = row[0], decoded(row[1]), decoded(row[2])
    return f"{split}/{name} {reason}" if split else f"{name} {reason}"


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
