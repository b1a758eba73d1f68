"""The files of a data set, in a database on disk, so that millions of them need no memory."""

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unicodedata import normalize

from common.image_files import SUFFIXES
from trainer.data.prepare.input_files import StoredFile, in_folder
from trainer.extras.detection.data.annotations import named_split

_SCHEMA = """
CREATE TABLE file (path BLOB PRIMARY KEY, tail BLOB, split TEXT, size INTEGER, changed INTEGER,
    image INTEGER, used INTEGER DEFAULT 0) WITHOUT ROWID;
"""
_INDEX = "CREATE INDEX by_tail ON file (tail, split)"
_COLUMNS = "path, size, changed"


class Folder:
    """The files of a folder and below that are neither hidden nor faulty."""

    def __init__(self, root: Path) -> None:
        """List the files.

        Raises:
            DataError: The storage fails.
        """
        self.root = root
        self._scratch = tempfile.TemporaryDirectory(prefix="prepare-")
        self.database = sqlite3.connect(Path(self._scratch.name, "files.sqlite"))
        # If this process is lost, the next one lists the files again.
        self.database.executescript(
            "PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF;" + _SCHEMA
        )
        rows = (
            (
                os.fsencode(file.path),
                _tail(file.path),
                named_split(file.path.rpartition("/")[0]),
                file.size,
                file.changed,
                Path(file.path).suffix.lower() in SUFFIXES,
            )
            for file in in_folder(root, root)
            if not file.fault
        )
        self.database.executemany("INSERT INTO file VALUES (?, ?, ?, ?, ?, ?, 0)", rows)
        self.database.executescript(_INDEX)
        (self.images_count,) = self.database.execute("SELECT sum(image) FROM file").fetchone()
        self.images_count = self.images_count or 0

    def images(self) -> Iterator[StoredFile]:
        """Yield the images, by path."""
        query = f"SELECT {_COLUMNS} FROM file WHERE image ORDER BY path"  # noqa: S608
        yield from map(self._file, self.database.execute(query))

    def others(self, *suffixes: str) -> Iterator[StoredFile]:
        """Yield the files with some suffixes, except images, by path."""
        query = f"SELECT {_COLUMNS} FROM file WHERE NOT image ORDER BY path"  # noqa: S608
        for row in self.database.execute(query):
            if row[0].endswith(tuple(map(os.fsencode, suffixes))):
                yield self._file(row)

    def at(self, path: str) -> StoredFile | None:
        """Return the file of a path. If there is none of exactly these characters, the only one of
        the same composed form is meant: macOS stores é as two characters, tables as one.
        """
        query = f"SELECT {_COLUMNS} FROM file WHERE path = ?"  # noqa: S608
        row = self.database.execute(query, (os.fsencode(path),)).fetchone()
        if row:
            return self._file(row)
        if path.isascii():
            return None
        query = f"SELECT {_COLUMNS} FROM file WHERE tail = ? LIMIT 2"  # noqa: S608
        rows = self.database.execute(query, (_tail(path),)).fetchall()
        return self._file(rows[0]) if len(rows) == 1 else None

    def image_of(self, name: str, beside: str | None, split: str) -> StoredFile | None:
        """Return the image that annotations name; None if there is none, or not only one.

        Of several of the same name, the one is meant whose path ends with all that is named, that
        lies next to the annotations, or below a folder of their split, in this order. Each step is
        a look-up in an index, however many images have the name.

        Args:
            name: Path that the annotations have.
            beside: Folder of the annotations, relative to this one; None if they are elsewhere.
            split: Split that the annotations name; empty without one.
        """
        name = name.replace("\\", "/").removeprefix("./")
        for wanted in (name, name.rpartition("/")[2]):
            if not wanted or not self._ending(wanted, 1):
                continue
            if beside is not None:
                near = self.at(f"{beside}/{wanted.rpartition('/')[2]}".removeprefix("/"))
                if near and _tail(near.path).startswith(_tail(wanted)):
                    return near
            candidates = (self._ending(wanted, 2, split) if split else []) or self._ending(
                wanted, 2
            )
            if len(candidates) > 1:
                candidates = [f for f in candidates if f"/{f.path}".endswith(f"/{wanted}")]
            return candidates[0] if len(candidates) == 1 else None
        return None

    def _ending(self, path: str, most: int, split: str = "") -> list[StoredFile]:
        """Return some images whose path ends with one, in composed form."""
        tail = _tail(path)
        query = f"SELECT {_COLUMNS} FROM file WHERE image AND tail >= ? AND tail < ?"  # noqa: S608
        # "0" is the character after "/".
        arguments: list[object] = [tail, tail[:-1] + b"0"]
        if split:
            query, arguments = f"{query} AND split = ?", [*arguments, split]
        rows = self.database.execute(f"{query} LIMIT {most}", arguments)
        return [self._file(row) for row in rows]

    def _file(self, row: tuple[bytes, int, int]) -> StoredFile:
        path = os.fsdecode(row[0])
        return StoredFile(path, str(self.root / path), 0, row[1], row[2])


def _tail(path: str) -> bytes:
    """Return the folders and the name of a path in their reverse order, in composed form, so that
    paths with the same end are neighbours in an index.
    """
    return os.fsencode("/".join(reversed(normalize("NFC", path).split("/"))) + "/")
