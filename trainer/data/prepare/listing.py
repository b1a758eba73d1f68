"""The order in which files become records, kept on disk, so that millions of files need no memory.

The position of a file is determined by a hash of the seed and its name, not by the order in which
the file system lists files.
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
"""Memory that SQLite may use in each process, in KiB."""
_TOLD_EVERY = 100_000
"""Number of files between two progress lines of listing."""

_COLUMNS = "split, name, label, container, offset, size, changed"
_SCHEMA = """
CREATE TABLE listed (split TEXT, name BLOB, label INTEGER, container BLOB, offset INTEGER,
    size INTEGER, changed INTEGER, key BLOB);
CREATE TABLE refused (split TEXT, name BLOB, reason TEXT);
"""
# Of the files that are not split yet, the first of each class by key go to the validation split:
# the requested fraction, but at least one and not all.
_DIVIDE = """
UPDATE listed SET split = 'train' WHERE split = '';
CREATE TEMP TABLE held AS SELECT id FROM (
    SELECT rowid AS id, row_number() OVER (PARTITION BY label ORDER BY key, name) AS rank,
        count(*) OVER (PARTITION BY label) AS whole FROM listed)
    WHERE rank <= min(max(round(whole * {part}), 1), whole - 1);
UPDATE listed SET split = 'validation' WHERE rowid IN (SELECT id FROM held);
"""
_ORDER = """
CREATE TABLE ordered (split TEXT, position INTEGER, name BLOB, label INTEGER, container BLOB,
    offset INTEGER, size INTEGER, changed INTEGER, PRIMARY KEY (split, position)) WITHOUT ROWID;
INSERT INTO ordered SELECT split, row_number() OVER (PARTITION BY split ORDER BY key, name) - 1,
    name, label, container, offset, size, changed FROM listed ORDER BY split, key, name;
DROP TABLE listed;
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

    def close(self) -> None:
        """Close the file without deleting it."""
        self._database.close()

    def fill(self, inputs: Inputs, seed: int, held_out: float) -> None:
        """List all files and assign each its position.

        Args:
            inputs: Files to list.
            seed: Seed of the positions.
            held_out: Fraction of each class to hold out, of files that are not split yet.
        """
        self._database.executescript(_SCHEMA)
        rows = self._rows(inputs, str(seed).encode())
        self._database.executemany("INSERT INTO listed VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
        undivided = "SELECT 1 FROM listed WHERE split = '' LIMIT 1"
        if self._database.execute(undivided).fetchone():
            self._database.executescript(_DIVIDE.format(part=float(held_out)))
        self._database.executescript(_ORDER)
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
        for split_, name, label, container, offset, size, changed in self._database.execute(
            query, (split, begin, end)
        ):
            yield ImageFile(
                split_, os.fsdecode(name), label, os.fsdecode(container), offset, size, changed
            )

    def rejected(self) -> Iterator[RejectedFile]:
        """Yield the files that the listing rejected, by split and name."""
        query = "SELECT split, name, reason FROM refused ORDER BY split, name"
        for split, name, reason in self._database.execute(query):
            yield RejectedFile(split, os.fsdecode(name), reason)

    def hash(self) -> str:
        """Return a hash of everything that is listed, except where the files are."""
        total = xxhash.xxh3_128()
        query = "SELECT split, name, label, size, changed FROM ordered ORDER BY split, position"
        for row in self._database.execute(query):
            total.update(repr(row).encode())
        for file in self.rejected():
            split, name, reason = file.split, file.name, file.reason
            # This text decides whether a folder has the same data set, so it must not change.
            total.update(f"Refusal({split=!r}, {name=!r}, {reason=!r})".encode())
        return total.hexdigest()
