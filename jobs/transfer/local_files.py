"""Local files to upload: find them, check that storage can hold them, read and hash each once."""

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
"""Maximum characters of a blob's name (Azure, "Naming and referencing containers, blobs")."""


class LocalError(UserError):
    """Files cannot be uploaded or written, or are not what they should be."""

    exit_code = 3


class ChangedError(LocalError):
    """A file changed while it was read."""


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A file as it was when the folder was scanned."""

    name: str
    """Path relative to the folder, with slashes."""
    path: Path
    size: int
    stamp: tuple[int, ...]
    """Size, modification time and inode, which change whenever the file does."""
    xxh128: str | None = None
    """Checksum of the file in the folder's manifest, or None."""


@dataclass(frozen=True, slots=True)
class Hashes:
    """Hashes of a file that was read, and of its blob."""

    md5: bytes
    xxh128: str | None


@dataclass(frozen=True)
class LocalFolder:
    """Content of a local folder."""

    files: Mapping[str, LocalFile]
    """Files by name, sorted by name."""
    hidden: tuple[str, ...]
    """Names of files and folders that begin with a dot, which are skipped."""
    empty: tuple[str, ...]
    """Folders without files, which storage cannot represent."""

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files.values())


def scan(path: Path) -> LocalFolder:
    """Find all files of a folder, or the single file at the path.

    Hidden files are skipped, as they are other programs' temporary files. Symbolic links are
    refused: they may lead out of the folder, to files that someone else may change.

    Raises:
        LocalError: The path does not exist, or some files cannot be uploaded; lists all of them.
    """
    if not path.exists():
        raise LocalError(f"{path}: does not exist")
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
            own.append(f"{name}: is a symbolic link; replace it with the file itself")
        elif not entry.is_file(follow_symlinks=False):
            own.append(f"{name}: is not a regular file")
        problems += own
        if not own:
            files[name] = _file(name, Path(entry.path))
    _refuse(path, problems)
    return LocalFolder(dict(sorted(files.items())), tuple(hidden), tuple(empty))


class FileReader:
    """Reads a file once; checks that it has not changed and that it matches its manifest."""

    def __init__(self, file: LocalFile) -> None:
        self._file = file
        self._md5 = hashlib.md5(usedforsecurity=False)
        self._xxh128 = xxhash.xxh3_128()

    @property
    def hashes(self) -> Hashes:
        """Hashes of the content; only valid after the last block was read.

        Raises:
            LocalError: The file does not match its checksum in the manifest.
        """
        expected = self._file.xxh128
        if expected is not None and self._xxh128.hexdigest() != expected:
            raise LocalError(
                f"{self._file.path}: is damaged: its checksum is {self._xxh128.hexdigest()}, but"
                f" {expected} in the manifest"
            )
        return Hashes(self._md5.digest(), expected)

    def blocks(self, size: int) -> Iterator[bytes]:
        """Read the content in blocks of a size.

        Raises:
            ChangedError: The file has changed since it was found, or changes while it is read.
            LocalError: The file cannot be read.
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
                f"{self._file.path}: changed during the upload; wait until nothing writes to it,"
                " and run the same command again"
            )


def _stamp(status: os.stat_result) -> tuple[int, ...]:
    """Return values that change with a file; see `LocalFile.stamp`."""
    return status.st_size, status.st_mtime_ns, status.st_ino


def _file(name: str, path: Path) -> LocalFile:
    try:
        status = path.stat()
    except OSError as error:
        raise LocalError(f"{path}: cannot be read ({error.strerror})") from error
    if not stat.S_ISREG(status.st_mode):
        raise LocalError(f"{path}: is not a regular file")
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
    """Return why a file name cannot be used as the name of a blob."""
    shown = name.encode("utf-8", "backslashreplace").decode()
    if shown != name:
        return [f"{shown}: its name is not valid UTF-8; rename it"]
    if any(not character.isprintable() or character == "\\" for character in name):
        return [f"{name!r}: its name has a backslash or a control character; rename it"]
    if any(part.endswith(".") for part in name.split("/")):
        return [f"{name}: a part of its name ends with a dot, which storage drops; rename it"]
    if len(name) > LONGEST_NAME:
        return [
            f"{name[:60]}...: its name has {len(name)} characters, storage allows {LONGEST_NAME}"
        ]
    return []


def _refuse(path: Path, problems: Sequence[str]) -> None:
    if problems:
        raise LocalError(f"{path}: cannot be uploaded:\n{listing(problems)}")


def _read(opened: FileIO, size: int) -> bytes:
    parts = []
    while size:
        part = opened.read(size)
        if not part:
            break
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
