"""The files of a data set, in a database on disk, so that millions of them need no memory."""

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from unicodedata import normalize

from common.image_files import SUFFIXES
from trainer.data.prepare.input_files import StoredFile, in_folder
from trainer.extras.detection.data.annotations import named_split

_SCHEMA = """
CREATE TABLE file (path BLOB PRIMARY KEY, tail BLOB, name BLOB, split TEXT, size INTEGER,
    changed INTEGER, image INTEGER, used INTEGER DEFAULT 0) WITHOUT ROWID;
CREATE TABLE folder (name BLOB PRIMARY KEY) WITHOUT ROWID;
"""
_INDEX = "CREATE INDEX by_tail ON file (tail, split); CREATE INDEX by_name ON file (name);"
_COLUMNS = "path, size, changed"
_USUAL: Final = frozenset(
    [
        "data",
        "dataset",
        "default",
        "frames",
        "image",
        "images",
        "img",
        "imgs",
        "jpegimages",
        "photos",
        "pictures",
    ]
)
"""Names of folders that do not tell of which images they are, in lower case."""


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
                _composed(file.path.rpartition("/")[2]),
                named_split(file.path.rpartition("/")[0]),
                file.size,
                file.changed,
                Path(file.path).suffix.lower() in SUFFIXES,
            )
            for file in in_folder(root, root)
            if not file.fault
        )
        self.database.executemany("INSERT INTO file VALUES (?, ?, ?, ?, ?, ?, ?, 0)", rows)
        self._list_folders()
        self.database.executescript(_INDEX)
        (self.images_count,) = self.database.execute("SELECT sum(image) FROM file").fetchone()
        self.images_count = self.images_count or 0

    def images(self) -> Iterator[StoredFile]:
        """Yield the images, by path."""
        query = f"SELECT {_COLUMNS} FROM file WHERE image ORDER BY path"  # noqa: S608
        yield from map(self._file, self.database.execute(query))

    def others(self, *suffixes: str) -> Iterator[StoredFile]:
        """Yield the files with some suffixes, in upper or lower case, except images, by path."""
        query = f"SELECT {_COLUMNS} FROM file WHERE NOT image ORDER BY path"  # noqa: S608
        for row in self.database.execute(query):
            if row[0].lower().endswith(tuple(map(os.fsencode, suffixes))):
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

    def has_image(self, name: str) -> bool:
        """Return whether an image in any folder has a name."""
        return bool(self._ending(name, 1))

    def image_of(self, name: str, beside: str | None, split: str) -> list[StoredFile]:
        """Return the image that annotations name: none if there is none, and two examples if it is
        not clear which of several is meant.

        Of several of the same name, the one is meant whose path ends with all that is named, that
        lies next to the annotations, or below a folder of their split, or else in the nearest
        folder around the annotations, in this order. Folders in front that the images lack are left
        out. Each step is a look-up in an index, however many images have the name.

        Args:
            name: Path that the annotations have.
            beside: Folder of the annotations, relative to this one; None if they are elsewhere.
            split: Split that the annotations name; empty without one.
        """
        parts = self._below(name.replace("\\", "/")).split("/")
        parts = [part for part in parts if part not in ("", ".", "..")]
        for left_out in range(len(parts)):
            files = self._meant("/".join(parts[left_out:]), beside, split)
            if files:
                named, depth = _parts("/".join(parts[:left_out])), len(parts) - left_out
                around = (_parts(file.path)[:-depth] for file in files)
                return files if all(self._fits(named, f, beside) for f in around) else []
        return []

    def _below(self, name: str) -> str:
        """Return an absolute path in this folder as one that is relative to it."""
        for root in (self.root.absolute(), self.root.resolve()):
            name = name.removeprefix(f"{root.as_posix()}/")
        return name

    def _meant(self, path: str, beside: str | None, split: str) -> list[StoredFile]:
        """Return the image whose path ends with one; see `image_of`."""
        if not self._ending(path, 1):
            return []
        if beside is not None:
            near = self.at(f"{beside}/{path.rpartition('/')[2]}".removeprefix("/"))
            if near and _tail(near.path).startswith(_tail(path)):
                return [near]
        files = (self._ending(path, 2, split) if split else []) or self._ending(path, 2)
        exact = [file for file in files if f"/{file.path}".endswith(f"/{path}")]
        if len(files) == 1 or len(exact) == 1:
            return files if len(files) == 1 else exact
        around = beside or ""
        while around:
            near_files = self._ending(path, 2, split, around) if split else []
            near_files = near_files or self._ending(path, 2, "", around)
            if near_files:
                return near_files
            around = around.rpartition("/")[0]
        return files

    def _fits(self, named: list[str], around: list[str], beside: str | None) -> bool:
        """Return whether the folders around an image may stand in the place of those that its
        annotations name: not if these have other images, or if they tell of other images.

        Args:
            named: Folders that the annotations name and that are not around the image.
            around: Folders around the image that the annotations do not name.
            beside: See `image_of`.
        """
        if not named:
            return True
        own = _parts(beside or "")
        split = named_split("/".join(named))
        for folder in around:
            other = named_split(folder)
            usual = folder.lower() in _USUAL or (other and split in ("", other))
            if not usual and folder not in (*named, *own):
                return False
        return not any(self._is_folder(folder) for folder in named if folder not in around)

    def _list_folders(self) -> None:
        """Put the names of all folders of images into the database."""
        last = b""
        for (path,) in self.database.execute("SELECT path FROM file WHERE image ORDER BY path"):
            folder = path.rpartition(b"/")[0]
            if folder != last:
                names = [(_composed(name),) for name in _parts(os.fsdecode(folder))]
                self.database.executemany("INSERT OR IGNORE INTO folder VALUES (?)", names)
                last = folder

    def _is_folder(self, name: str) -> bool:
        query = "SELECT 1 FROM folder WHERE name = ?"
        return self.database.execute(query, (_composed(name),)).fetchone() is not None

    def _ending(self, path: str, most: int, split: str = "", around: str = "") -> list[StoredFile]:
        """Return some images whose path ends with one, in composed form.

        Args:
            path: The end of the path.
            most: Most images to return.
            split: Split that their folders name; empty for any.
            around: Folder in which they are; empty for any.
        """
        tail = _tail(path)
        query = f"SELECT {_COLUMNS} FROM file WHERE image AND tail >= ? AND tail < ?"  # noqa: S608
        # "0" is the character after "/".
        arguments: list[object] = [tail, tail[:-1] + b"0"]
        if split:
            query, arguments = f"{query} AND split = ?", [*arguments, split]
        if around:
            # By name and path, because all tasks of a folder may have the same names.
            query = query.replace("FROM file", "FROM file INDEXED BY by_name")
            query += " AND name = ? AND path >= ? AND path < ?"
            folder = os.fsencode(around)
            arguments += [_composed(path.rpartition("/")[2]), folder + b"/", folder + b"0"]
        rows = self.database.execute(f"{query} LIMIT {most}", arguments)
        return [self._file(row) for row in rows]

    def _file(self, row: tuple[bytes, int, int]) -> StoredFile:
        path = os.fsdecode(row[0])
        return StoredFile(path, str(self.root / path), 0, row[1], row[2])


def _tail(path: str) -> bytes:
    """Return the folders and the name of a path in their reverse order, in composed form, so that
    paths with the same end are neighbours in an index.
    """
    return os.fsencode("/".join(reversed(_parts(path))) + "/")


def _parts(path: str) -> list[str]:
    """Return the folders and the name of a path in composed form; none of an empty path."""
    return normalize("NFC", path).split("/") if path else []


def _composed(name: str) -> bytes:
    return os.fsencode(normalize("NFC", name))
