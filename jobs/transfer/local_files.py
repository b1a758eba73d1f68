"""Files of this machine that are to be sent: which ones, whether storage can hold them, and reading
each once while it is hashed.
"""

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Final

import xxhash

from common.errors import UserError
from common.text import listing

LONGEST_NAME: Final = 1024
"""Characters of a blob's name (Azure, "Naming and referencing containers, blobs")."""


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
    xxh128: str | None = None
    """Its checksum by the manifest of its folder, if it is in one."""


@dataclass(frozen=True, slots=True)
class Hashes:
    """Of a file that was read, and of its blob."""

    md5: bytes
    xxh128: str | None


@dataclass(frozen=True)
class LocalFolder:
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


def scan(path: Path) -> LocalFolder:
    """All files of a folder, or the one file that the path is.

    Hidden ones are left out: they are other programs' scratch. A link is refused, as it may lead
    out of the folder, and to what someone else may change.

    Raises:
        LocalError: it is not there, or some of it cannot be sent; all of that is named.
    """
    if not path.exists():
        raise LocalError(f"{path}: is not there")
    if not path.is_dir():
        only = _file(path.name, path)
        _refuse(path, _name_problems(only.name))
        return LocalFolder({only.name: only}, (), ())
    hidden: list[str] = []
    empty: list[str] = []
    problems: list[str] = []
    files = {}
    for name, entry in _walk(path, "", hidden, empty):
        own = _name_problems(name)
        if entry.is_symlink():
            own.append(f"{name}: is a link; put the file itself there")
        elif not entry.is_file(follow_symlinks=False):
            own.append(f"{name}: is no ordinary file")
        problems += own
        if not own:
            files[name] = _file(name, Path(entry.path))
    _refuse(path, problems)
    return LocalFolder(dict(sorted(files.items())), tuple(hidden), tuple(empty))


class FileReader:
    """Reads a file once, and makes sure that it is what it was, and what it should be."""

    def __init__(self, file: LocalFile) -> None:
        self._file = file
        self._md5 = hashlib.md5(usedforsecurity=False)
        self._xxh128 = xxhash.xxh3_128()

    @property
    def hashes(self) -> Hashes:
        """Of what was read; to be asked for after the last block.

        Raises:
            LocalError: it is not what the manifest says.
        """
        expected = self._file.xxh128
        if expected is not None and self._xxh128.hexdigest() != expected:
            raise LocalError(
                f"{self._file.path}: is damaged: its checksum {self._xxh128.hexdigest()} is not the"
                f" manifest's, {expected}"
            )
        return Hashes(self._md5.digest(), expected)

    def blocks(self, size: int) -> Iterator[bytes]:
        """The content, in parts of a size.

        Raises:
            ChangedError: it is, or becomes while it is read, another than when it was found.
            LocalError: it cannot be read.
        """
        file = self._file
        try:
            with file.path.open("rb", buffering=0) as opened:
                self._compare(_stamp(os.fstat(opened.fileno())))
                left = file.size
                while left:
                    content = _read(opened, min(size, left))
                    if not content:
                        break
                    left -= len(content)
                    self._md5.update(content)
                    if file.xxh128 is not None:
                        self._xxh128.update(content)
                    yield content
                # By its name: a file may also be replaced as a whole.
                self._compare(_stamp(file.path.stat()) if not left else ())
        except OSError as error:
            raise LocalError(f"{file.path}: cannot be read ({error.strerror})") from error

    def _compare(self, now: tuple[int, ...]) -> None:
        if now != self._file.stamp:
            raise ChangedError(
                f"{self._file.path}: changed since this began; wait until nothing writes to it, and"
                " give the same command again"
            )


def _stamp(status: os.stat_result) -> tuple[int, ...]:
    """What changes with a file; see `LocalFile`."""
    return status.st_size, status.st_mtime_ns, status.st_ino


def _file(name: str, path: Path) -> LocalFile:
    try:
        status = path.stat()
    except OSError as error:
        raise LocalError(f"{path}: cannot be read ({error.strerror})") from error
    if not stat.S_ISREG(status.st_mode):
        raise LocalError(f"{path}: is no ordinary file")
    return LocalFile(name, path, status.st_size, _stamp(status))


def _walk(
    folder: Path, prefix: str, hidden: list[str], empty: list[str]
) -> Iterator[tuple[str, os.DirEntry[str]]]:
    try:
        with os.scandir(folder) as scanned:
            entries = sorted(scanned, key=lambda entry: entry.name)
    except OSError as error:
        raise LocalError(f"{folder}: cannot be read ({error.strerror})") from error
    visible = [entry for entry in entries if not entry.name.startswith(".")]
    hidden += [prefix + entry.name for entry in entries if entry.name.startswith(".")]
    if not visible and prefix:
        empty.append(prefix.rstrip("/"))
    for entry in visible:
        name = prefix + entry.name
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(Path(entry.path), f"{name}/", hidden, empty)
        else:
            yield name, entry


def _name_problems(name: str) -> list[str]:
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


def _refuse(path: Path, problems: Sequence[str]) -> None:
    if problems:
        raise LocalError(f"{path}: cannot be sent as it is:\n{listing(problems)}")


def _read(opened: FileIO, size: int) -> bytes:
    parts = []
    while size:
        part = opened.read(size)
        if not part:
            break
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
