"""The order in which files become records, kept on disk, so that millions of them need no memory.

The place of a file is decided by a hash of the seed and its name, not by the order in which a file
system lists its files.
"""

import os
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xxhash

from trainer.data.prepare.input_files import ImageFile, Inputs
from trainer.data.prepare.rejected import RejectedFile

_CACHE_KIB = 4096
"""Memory that SQLite may use in each process."""
_TOLD_EVERY = 100_000
"""Files between two lines that say how far listing is."""

_COLUMNS = "split, name, label, container, offset, size, changed"
_SCHEMA = """
CREATE TABLE listed (split TEXT, name BLOB, label INTEGER, container BLOB, offset INTEGER,
    size INTEGER, changed INTEGER, key BLOB);
CREATE TABLE refused (split TEXT, name BLOB, reason TEXT);
"""
# Of the files that are not divided yet, each class gives its first by key to the validation split:
# the wanted part of them, but at least one and not all.
_DIVIDE = """
UPDATE listed SET split = 'train' WHERE split = '';
CREATE TEMP TABLE held AS SELECT id FROM (
    SELECT rowid AS id, row_number() OVER (PARTITION BY label ORDER BY key, name) AS place,
        count(*) OVER (PARTITION BY label) AS whole FROM listed)
    WHERE place <= min(max(round(whole * {part}), 1), whole - 1);
UPDATE listed SET split = 'validation' WHERE rowid IN (SELECT id FROM held);
"""
_PLACE = """
CREATE TABLE placed (split TEXT, place INTEGER, name BLOB, label INTEGER, container BLOB,
    offset INTEGER, size INTEGER, changed INTEGER, PRIMARY KEY (split, place)) WITHOUT ROWID;
INSERT INTO placed SELECT split, row_number() OVER (PARTITION BY split ORDER BY key, name) - 1,
    name, label, container, offset, size, changed FROM listed ORDER BY split, key, name;
DROP TABLE listed;
"""


@dataclass(frozen=True)
class SplitSize:
    """What there is to write of one split."""

    files: int
    bytes: int


class Listing:
    """All files of a data set in their places, in a file that any number of processes can read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._database = sqlite3.connect(path)
        self._database.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        # What is lost with this process is listed again by the next.
        self._database.execute("PRAGMA synchronous = OFF")

    def close(self) -> None:
        """Close the file; it stays."""
        self._database.close()

    def fill(self, inputs: Inputs, seed: int, held_out: float) -> None:
        """List all files and give each its place.

        Args:
            inputs: the files.
            seed: decides the places.
            held_out: part of each class that is evaluated on, of files that are not divided yet.
        """
        self._database.executescript(_SCHEMA)
        rows = self._rows(inputs, str(seed).encode())
        self._database.executemany("INSERT INTO listed VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
        undivided = "SELECT 1 FROM listed WHERE split = '' LIMIT 1"
        if self._database.execute(undivided).fetchone():
            self._database.executescript(_DIVIDE.format(part=float(held_out)))
        self._database.executescript(_PLACE)
        self._database.commit()

    def _rows(self, inputs: Inputs, seed: bytes) -> Iterator[tuple[Any, ...]]:
        for number, file in enumerate(inputs.files(), 1):
            if number % _TOLD_EVERY == 0:
                print(f"listing: {number:,} files so far", flush=True)
            name = os.fsencode(file.name)
            if isinstance(file, RejectedFile):
                row = (file.split, name, file.reason)
                self._database.execute("INSERT INTO refused VALUES (?, ?, ?)", row)
                continue
            key = xxhash.xxh3_128_digest(seed + b"/" + name)
            container = os.fsencode(file.container)
            yield (file.split, name, file.label, container, file.offset, file.size,
                   file.changed, key)  # fmt: skip

    def split_sizes(self) -> dict[str, SplitSize]:
        """Files and bytes of each split."""
        query = "SELECT split, count(*), sum(size) FROM placed GROUP BY split"
        return {
            split: SplitSize(files, size) for split, files, size in self._database.execute(query)
        }

    def files(self, split: str, begin: int, end: int) -> Iterator[ImageFile]:
        """The files at the places [begin, end) of a split."""
        query = (
            f"SELECT {_COLUMNS} FROM placed WHERE split = ? AND place >= ? AND place < ?"  # noqa: S608
            " ORDER BY place"
        )
        for split_, name, label, container, offset, size, changed in self._database.execute(
            query, (split, begin, end)
        ):
            yield ImageFile(
                split_, os.fsdecode(name), label, os.fsdecode(container), offset, size, changed
            )

    def rejected(self) -> Iterator[RejectedFile]:
        """What was left out already, by split and name."""
        query = "SELECT split, name, reason FROM refused ORDER BY split, name"
        for split, name, reason in self._database.execute(query):
            yield RejectedFile(split, os.fsdecode(name), reason)

    def hash(self) -> str:
        """A hash of everything that is listed, but of where it lies."""
        total = xxhash.xxh3_128()
        query = "SELECT split, name, label, size, changed FROM placed ORDER BY split, place"
        for row in self._database.execute(query):
            total.update(repr(row).encode())
        for file in self.rejected():
            split, name, reason = file.split, file.name, file.reason
            # The text decides whether a folder holds the same data set, so it stays as it was.
            total.update(f"Refusal({split=!r}, {name=!r}, {reason=!r})".encode())
        return total.hexdigest()
