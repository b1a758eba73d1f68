"""Files of this machine that are to be sent: which ones, and whether storage can hold them."""

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Final

import xxhash

from common.errors import UserError

LONGEST_NAME: Final = 1024
"""Characters of a blob's name (Azure, "Naming and referencing containers, blobs")."""
MOST_SHOWN: Final = 20


class LocalError(UserError):
    """Files that cannot be sent, or that are not what they should be."""

    exit_code = 3


class ChangedError(LocalError):
    """A file was written to while it was read."""


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A file as it was when the folder was looked through."""

    name: str
    """Below the folder, with slashes."""
    path: Path
    size: int
    stamp: tuple[int, ...]
    """Changes whenever the file does: when it was written to, and which file it is."""


@dataclass(frozen=True)
class Folder:
    """What a folder holds."""

    files: Mapping[str, LocalFile]
    """In order of their names."""
    hidden: tuple[str, ...]
    """Names of files and folders that begin with a dot, which are left out."""
    empty: tuple[str, ...]
    """Folders without a file, which storage does not know."""

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files.values())


def look_through(place: Path) -> Folder:
    """All files of a folder, or the one file that the place is.

    Hidden ones are left out: they are other programs' scratch. A link is refused, as it may lead
    out of the folder, and to what someone else may change.

    Raises:
        LocalError: it is not there, or some of it cannot be sent; all of that is named.
    """
    if not place.exists():
        raise LocalError(f"{place}: is not there")
    if not place.is_dir():
        only = _file(place.name, place)
        _refuse(place, _unfit(only.name))
        return Folder({only.name: only}, (), ())
    hidden: list[str] = []
    empty: list[str] = []
    wrong: list[str] = []
    files = {}
    for name, entry in _walk(place, "", hidden, empty):
        problems = _unfit(name)
        if entry.is_symlink():
            problems.append(f"{name}: is a link; put the file itself there")
        elif not entry.is_file(follow_symlinks=False):
            problems.append(f"{name}: is no ordinary file")
        wrong += problems
        if not problems:
            files[name] = _file(name, Path(entry.path))
    _refuse(place, wrong)
    return Folder(dict(sorted(files.items())), tuple(hidden), tuple(empty))


def stamp(found: os.stat_result) -> tuple[int, ...]:
    """What changes with a file; see `LocalFile`."""
    return found.st_size, found.st_mtime_ns, found.st_ino


def listing(lines: list[str]) -> str:
    """Problems, one a line, no more than a person reads."""
    shown = [f"  - {line}" for line in lines[:MOST_SHOWN]]
    if len(lines) > MOST_SHOWN:
        shown.append(f"  ... and {len(lines) - MOST_SHOWN} more")
    return "\n".join(shown)


def _file(name: str, path: Path) -> LocalFile:
    try:
        found = path.stat()
    except OSError as error:
        raise LocalError(f"{path}: cannot be read ({error.strerror})") from error
    if not stat.S_ISREG(found.st_mode):
        raise LocalError(f"{path}: is no ordinary file")
    return LocalFile(name, path, found.st_size, stamp(found))


def _walk(
    folder: Path, prefix: str, hidden: list[str], empty: list[str]
) -> Iterator[tuple[str, os.DirEntry[str]]]:
    try:
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        raise LocalError(f"{folder}: cannot be read ({error.strerror})") from error
    seen = [entry for entry in found if not entry.name.startswith(".")]
    hidden += [prefix + entry.name for entry in found if entry.name.startswith(".")]
    if not seen and prefix:
        empty.append(prefix.rstrip("/"))
    for entry in seen:
        name = prefix + entry.name
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(Path(entry.path), f"{name}/", hidden, empty)
        else:
            yield name, entry


def _unfit(name: str) -> list[str]:
    """What keeps a name from being a blob's that every reader finds again."""
    shown = name.encode("utf-8", "backslashreplace").decode()
    if shown != name:
        return [f"{shown}: is no text in UTF-8; rename it"]
    if any(not character.isprintable() or character == "\\" for character in name):
        return [f"{name!r}: has a backslash or a control character; rename it"]
    if any(part.endswith(".") for part in name.split("/")):
        return [f"{name}: a part of its name ends in a dot, which storage drops; rename it"]
    if len(name) > LONGEST_NAME:
        return [f"{name[:60]}...: has {len(name)} characters, storage takes {LONGEST_NAME}"]
    return []


def _refuse(place: Path, wrong: list[str]) -> None:
    if wrong:
        raise LocalError(f"{place}: cannot be sent as it is:\n{listing(wrong)}")


@dataclass(frozen=True, slots=True)
class Wanted:
    """A file, and what the manifest says of it."""

    file: LocalFile
    xxh128: str | None = None


@dataclass(frozen=True, slots=True)
class Hashes:
    """Of a file that was read, and of its blob."""

    md5: bytes
    xxh128: str | None


class Reading:
    """Reads a file once, and makes sure that it is what it was, and what it should be."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._md5 = hashlib.md5(usedforsecurity=False)
        self._xxh128 = xxhash.xxh3_128()

    @property
    def hashes(self) -> Hashes:
        """Of what was read; to be asked for after the last block.

        Raises:
            LocalError: it is not what the manifest says.
        """
        expected = self._wanted.xxh128
        if expected is not None and self._xxh128.hexdigest() != expected:
            raise LocalError(
                f"{self._wanted.file.path}: is damaged: its checksum {self._xxh128.hexdigest()} is"
                f" not the manifest's, {expected}"
            )
        return Hashes(self._md5.digest(), expected)

    def blocks(self, size: int) -> Iterator[bytes]:
        """The content, in parts of a size.

        Raises:
            ChangedError: it is, or becomes while it is read, another than was found.
            LocalError: it cannot be read.
        """
        file = self._wanted.file
        try:
            with file.path.open("rb", buffering=0) as opened:
                self._compare(stamp(os.fstat(opened.fileno())))
                left = file.size
                while left:
                    content = _read(opened, min(size, left))
                    if not content:
                        break
                    left -= len(content)
                    self._md5.update(content)
                    if self._wanted.xxh128 is not None:
                        self._xxh128.update(content)
                    yield content
                # By its name: a file may also be replaced as a whole.
                self._compare(stamp(file.path.stat()) if not left else ())
        except OSError as error:
            raise LocalError(f"{file.path}: cannot be read ({error.strerror})") from error

    def _compare(self, now: tuple[int, ...]) -> None:
        if now != self._wanted.file.stamp:
            raise ChangedError(
                f"{self._wanted.file.path}: changed since this began; wait until nothing writes to"
                " it, and give the same command again"
            )


def _read(opened: FileIO, size: int) -> bytes:
    parts = []
    while size:
        part = opened.read(size)
        if not part:
            break
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
