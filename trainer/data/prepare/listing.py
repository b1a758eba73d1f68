"""The order in which files become records, kept on disk, so that millions of files need no memory.

The position of a file is determined by a hash of the seed and its name, not by the order in which
the file system lists files.
"""

import os
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import xxhash

from trainer.data.intake.groups import Group, hold_out
from trainer.data.intake.names import Naming
from trainer.data.prepare.input_files import ImageFile, Inputs
from trainer.data.prepare.on_disk import OnDisk, decoded, encoded
from trainer.data.prepare.rejected import HIDDEN, RejectedFile
from trainer.errors import DataError

_CACHE_KIB = 4096
"""Memory that SQLite may use in each process, in KiB."""
_REPORT_EVERY = 100_000
"""Number of files between two progress lines of listing."""

_COLUMNS = "split, name, label, container, offset, size, changed, page, shown, target"
_SCHEMA = """
CREATE TABLE listed (split TEXT, name BLOB, label INTEGER, container BLOB, offset INTEGER,
    size INTEGER, changed INTEGER, page INTEGER, shown TEXT, target BLOB, key BLOB,
    part BLOB);
CREATE TABLE refused (split TEXT, name BLOB, reason BLOB, shown TEXT,
    counted INTEGER);
"""
# Of the files that are not split yet, the first of each class by key go to the validation split:
# the requested fraction, but at least one and not all. The next ones go to the test split, of a
# class that keeps an image for training.
_DIVIDE = """
UPDATE listed SET split = 'train' WHERE split = '';
CREATE TEMP TABLE held AS SELECT id FROM (
    SELECT rowid AS id, row_number() OVER (PARTITION BY label ORDER BY key, name) AS rank,
        count(*) OVER (PARTITION BY label) AS whole FROM listed)
    WHERE rank <= min(max(round(whole * {part}), 1), whole - 1);
UPDATE listed SET split = 'validation' WHERE rowid IN (SELECT id FROM held);
"""
_DIVIDE_TEST = """
CREATE TEMP TABLE test AS SELECT id FROM (
    SELECT rowid AS id, row_number() OVER (PARTITION BY label ORDER BY key, name) AS rank,
        count(*) OVER (PARTITION BY label) AS left FROM listed WHERE split = 'train')
    WHERE rank <= min(max(round(left * {part}), 1), left - 1);
UPDATE listed SET split = 'test' WHERE rowid IN (SELECT id FROM test);
"""
_GROUPS = """
SELECT count(*), min(images), max(images), sum(split = 'validation'), sum(split = 'test')
    FROM (SELECT count(*) AS images, min(split) AS split FROM listed GROUP BY part)
"""
# The groups of files that are not split yet: their images by label, and their places.
_GROUPED = """
CREATE TEMP TABLE counted AS SELECT part, label, count(*) AS images, min(key) AS key FROM listed
    WHERE split = '' GROUP BY part, label;
CREATE TEMP TABLE grouped AS SELECT part, min(key) AS first, sum(images) AS images FROM counted
    GROUP BY part;
CREATE UNIQUE INDEX temp.place_of ON grouped (part);
CREATE UNIQUE INDEX temp.images_of ON counted (part, label);
CREATE INDEX temp.parts_of ON counted (label);
CREATE TEMP TABLE chosen (part BLOB PRIMARY KEY, split TEXT);
"""
_LEFT = """
SELECT label, sum(images) FROM counted WHERE part NOT IN (SELECT part FROM chosen) GROUP BY label
"""
_PARTS = """
SELECT part, label, counted.images FROM counted JOIN grouped USING (part)
    WHERE part NOT IN (SELECT part FROM chosen) AND {} ORDER BY {}, part
"""
_HAS_LABEL = "part IN (SELECT part FROM counted WHERE label = ?)"
_DIVIDE_GROUPS = """
UPDATE listed SET split = ifnull((SELECT chosen.split FROM chosen WHERE chosen.part = listed.part),
    'train') WHERE split = '';
"""
_IN_TWO = """
SELECT count(*), min(part) FROM (SELECT part FROM listed GROUP BY part
    HAVING count(DISTINCT split) > 1)
"""
_ORDER = """
CREATE TABLE ordered (split TEXT, position INTEGER, name BLOB, label INTEGER, container BLOB,
    offset INTEGER, size INTEGER, changed INTEGER, page INTEGER, shown TEXT, target BLOB,
    part BLOB, PRIMARY KEY (split, position)) WITHOUT ROWID;
INSERT INTO ordered SELECT split, row_number() OVER (PARTITION BY split ORDER BY key, name) - 1,
    name, label, container, offset, size, changed, page, shown, target, part FROM listed
    ORDER BY split, key, name;
DROP TABLE listed;
"""
_NUMBER = """
UPDATE ordered SET shown = printf('%09d', position);
UPDATE refused SET shown = printf('rejected-%09d', place) FROM (SELECT rowid AS id,
    rank() OVER (ORDER BY split, name) - 1 AS place FROM refused) WHERE refused.rowid = id;
"""


@dataclass(frozen=True)
class SplitSize:
    """Number of files and bytes to write of one split."""

    files: int
    bytes: int


class Listing:
    """All files of a data set with their positions, in a file that several processes can read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._database = sqlite3.connect(path)
        self._database.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        # If this process is lost, the next one lists the files again.
        self._database.execute("PRAGMA synchronous = OFF")
        self.divided = True
        """Whether the input itself is divided into splits."""
        self.groups: dict[str, int] | None = None
        """See `Intake.groups`."""

    def close(self) -> None:
        """Close the file without deleting it."""
        self._database.close()

    def fill(
        self,
        inputs: Inputs,
        seed: int,
        held_out: float,
        naming: Naming = Naming(),  # noqa: B008 - frozen
        group: Callable[[ImageFile], str] | None = None,
        test: float = 0.0,
    ) -> None:
        """List all files and assign each its position.

        Args:
            inputs: Files to list.
            seed: Seed of the positions.
            held_out: Fraction of each class to hold out, of files that are not split yet.
            naming: How records are named.
            group: Returns the group of a file, whose files stay in one split; None if each file is
                on its own.
            test: Fraction of each class for the test split, of files that are not split yet; 0 for
            none.

        Raises:
            DataError: A file has no group, or the folders put a group into two splits; or a part is
                for tests, but the input is divided already.
        """
        self._database.executescript(_SCHEMA)
        rows = self._rows(inputs, str(seed).encode(), naming, group)
        marks = ", ".join("?" * 12)
        self._database.executemany(f"INSERT INTO listed VALUES ({marks})", rows)  # noqa: S608
        if group:
            self._check_groups(naming)
        undivided = "SELECT 1 FROM listed WHERE split = '' LIMIT 1"
        if self._database.execute(undivided).fetchone():
            self.divided = False
            if group:
                self._divide_groups(held_out, test)
            else:
                self._database.executescript(_DIVIDE.format(part=float(held_out)))
                if test:
                    part = test / (1 - held_out)
                    self._database.executescript(_DIVIDE_TEST.format(part=part))
        elif test:
            raise DataError.of("--test: the input is divided into splits already; leave it out")
        if group:
            counts = self._database.execute(_GROUPS).fetchone()
            keys = ("count", "least", "most", "held_out", "test")
            self.groups = dict(zip(keys, counts, strict=True))
        self._database.executescript(_ORDER)
        if naming.mode == "numbered":
            self._database.executescript(_NUMBER)
        self._database.commit()

    def _rows(
        self,
        inputs: Inputs,
        seed: bytes,
        naming: Naming,
        group: Callable[[ImageFile], str] | None,
    ) -> Iterator[tuple[Any, ...]]:
        for number, file in enumerate(inputs.files(), 1):
            if number % _REPORT_EVERY == 0:
                print(f"listing: {number:,} files so far", flush=True)
            name = os.fsencode(file.name)
            shown = naming.hashed(name) if naming.changes else ""
            if isinstance(file, RejectedFile):
                counted = file.counted and file.reason != HIDDEN
                reason = naming.reason(file.reason, file.name, file.sentence)
                row = (file.split, name, encoded(reason), shown, counted)
                self._database.execute("INSERT INTO refused VALUES (?, ?, ?, ?, ?)", row)
                continue
            # Otherwise the order would show whether a name that one knows is in the data set.
            key = xxhash.xxh3_128_digest(seed + b"/" + (shown.encode() or name))
            container = os.fsencode(file.container)
            part = group(file) if group else ""
            if group and not part:
                named = (shown,) if shown else ("", file.name, "")
                remedy = ": has no group; --group-by must find one for every file"
                raise DataError.of(*named[:-1], named[-1] + remedy)
            yield (file.split, name, file.label, container, file.offset, file.size, file.changed,
                   file.page, shown, file.target, key, encoded(part))  # fmt: skip

    def _check_groups(self, naming: Naming) -> None:
        """Raises:
        DataError: The given splits share groups.
        """
        count, first = self._database.execute(_IN_TWO).fetchone()
        if count:
            example = naming.hashed(first) if naming.changes else decoded(first)
            named = f", such as {example}" if example else ""
            raise DataError.of(
                f"groups in more than one split: {count:,}{named}; the folders of the input, or the"
                " table's column of splits, divide them: put the files of each group into one"
            )

    def _divide_groups(self, held_out: float, test: float) -> None:
        self._database.executescript(_GROUPED)
        self._choose_groups("validation", held_out)
        if test:
            self._choose_groups("test", test / (1 - held_out))
        self._database.execute(_DIVIDE_GROUPS)

    def _choose_groups(self, split: str, fraction: float) -> None:
        """Choose the groups of a split among those that are left."""
        whole = dict(self._database.execute(_LEFT))
        # In the order of the first keys, so that the choice depends on the seed.
        chosen = hold_out(
            whole,
            self._groups(_PARTS.format("TRUE", "first")),
            lambda label: self._groups(_PARTS.format(_HAS_LABEL, "grouped.images"), label),
            fraction,
        )
        self._database.executemany(
            "INSERT INTO chosen VALUES (?, ?)", ((encoded(name), split) for name in chosen)
        )

    def _groups(self, query: str, *arguments: int) -> Iterator[Group]:
        rows = self._database.execute(query, arguments)
        for part, of_part in groupby(rows, key=itemgetter(0)):
            yield Group(decoded(part), {label: images for _, label, images in of_part})

    def names(self) -> Iterator[tuple[str, str, str]]:
        """Yield split, new name and old name of every record and every rejected file."""
        for table in ("ordered", "refused"):
            query = f"SELECT split, shown, name FROM {table} ORDER BY split, shown"  # noqa: S608
            for split, shown, name in self._database.execute(query):
                yield split, shown, os.fsdecode(name)

    def group_numbers(self, left_out: Callable[[str, str], bool]) -> Iterator[tuple[str, int]]:
        """Yield split and group of every held-out record whose file has a group, in the order of
        records; groups are numbers that say nothing of their names.

        Args:
            left_out: Returns whether a file, given its split and its record, did not become one.
        """
        query = """SELECT split, shown, name, part FROM ordered
            WHERE split != 'train' AND part != x'' ORDER BY split, position"""
        for split, files in groupby(self._database.execute(query), key=itemgetter(0)):
            numbers, count = OnDisk[int](), 0
            for _, shown, name, part in files:
                if left_out(split, shown or os.fsdecode(name)):
                    continue
                number = numbers.setdefault(decoded(part), count)
                count += number == count
                yield split, number

    def titles(self) -> Iterator[tuple[str, str]]:
        """Yield name of the record and path of every file that is written."""
        query = "SELECT shown, name FROM ordered ORDER BY split, position"
        for shown, name in self._database.execute(query):
            path = os.fsdecode(name)
            yield shown or path, path

    def placed(self) -> Iterator[tuple[str, str]]:
        """Yield split and path of every file that is written."""
        for split, name in self._database.execute("SELECT split, name FROM ordered"):
            yield split, os.fsdecode(name)

    def split_sizes(self) -> dict[str, SplitSize]:
        """Return the number of files and bytes of each split."""
        query = "SELECT split, count(*), sum(size) FROM ordered GROUP BY split"
        return {
            split: SplitSize(files, size) for split, files, size in self._database.execute(query)
        }

    def files(self, split: str, begin: int, end: int) -> Iterator[ImageFile]:
        """Yield the files at the positions [begin, end) of a split."""
        query = (
            f"SELECT {_COLUMNS} FROM ordered WHERE split = ? AND position >= ? AND position < ?"  # noqa: S608
            " ORDER BY position"
        )
        for split_, name, label, container, *rest in self._database.execute(
            query, (split, begin, end)
        ):
            yield ImageFile(split_, os.fsdecode(name), label, os.fsdecode(container), *rest)

    def rejected(self) -> Iterator[RejectedFile]:
        """Yield the files that the listing rejected, by split and name."""
        query = "SELECT split, name, reason, shown, counted FROM refused ORDER BY split, name"
        for split, name, reason, shown, counted in self._database.execute(query):
            title = shown or os.fsdecode(name)
            yield RejectedFile(split, title, decoded(reason), counted=bool(counted))

    def hash(self) -> str:
        """Return a hash of everything that is listed, except where the files are."""
        total = xxhash.xxh3_128()
        # An image that is one page of a file has that page's number in its name.
        query = """SELECT split, CASE WHEN shown = '' THEN name ELSE shown END, label, size, changed
            FROM ordered ORDER BY split, position"""
        for row in self._database.execute(query):
            total.update(repr(row).encode())
        for file in self.rejected():
            split, name, reason = file.split, file.name, file.reason
            # This text decides whether a folder has the same data set, so it must not change.
            total.update(f"Refusal({split=!r}, {name=!r}, {reason=!r})".encode())
        return total.hexdigest()
