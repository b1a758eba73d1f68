"""Local files to upload: find them, check that storage can hold them, read and hash each once."""

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

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

    def reader(self) -> "FileReader":
        """Return what reads it, once."""
        return FileReader(self)


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
        _refuse(path, _problems(path.name, path.stat()))
        return LocalFolder({path.name: _file(path.name, path, path.stat())}, (), ())
    files: dict[str, LocalFile] = {}
    hidden: list[str] = []
    empty: list[str] = []
    problems: list[str] = []
    try:
        for name, found, status in _walk(path, hidden, empty):
            own = _problems(name, status)
            problems += own
            if not own:
                files[name] = _file(name, found, status)
    except OSError as error:
        raise LocalError(f"{error.filename}: cannot be read ({error.strerror})") from error
    _refuse(path, sorted(problems))
    return LocalFolder(dict(sorted(files.items())), tuple(sorted(hidden)), tuple(sorted(empty)))


def _walk(
    path: Path, hidden: list[str], empty: list[str]
) -> Iterator[tuple[str, Path, os.stat_result]]:
    """Find what is in a folder and not a folder; add what is skipped to the lists."""

    def refuse(error: OSError) -> NoReturn:
        raise error

    for root, folders, names in os.walk(path, onerror=refuse):
        folder = Path(root)
        prefix = "" if folder == path else f"{folder.relative_to(path).as_posix()}/"
        hidden += [prefix + name for name in [*folders, *names] if name.startswith(".")]
        folders[:] = [name for name in folders if not name.startswith(".")]
        visible = [name for name in names if not name.startswith(".")]
        if prefix and not folders and not visible:
            empty.append(prefix.rstrip("/"))
        links = [name for name in folders if (folder / name).is_symlink()]
        for name in [*links, *visible]:
            yield prefix + name, folder / name, (folder / name).lstat()


class FileReader:
    """Reads and hashes a file once; checks that it has not changed and that it matches its
    manifest.
    """

    def __init__(self, file: LocalFile) -> None:
        self._file = file
        self._md5 = hashlib.md5(usedforsecurity=False)
        self._xxh128 = xxhash.xxh3_128()

    @property
    def hashes(self) -> Hashes:
        """Hashes of the content; only valid after the last block was read.

        Raises:
            LocalError: The content does not match its checksum in the manifest.
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
        file, left = self._file, self._file.size
        try:
            with file.path.open("rb") as opened:
                self._compare(_stamp(os.fstat(opened.fileno())))
                while content := opened.read(min(size, left)):
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


def _file(name: str, path: Path, status: os.stat_result) -> LocalFile:
    return LocalFile(name, path, status.st_size, _stamp(status))


def _problems(name: str, status: os.stat_result) -> list[str]:
    """Return why a file cannot be uploaded: its kind, or its name as that of a blob."""
    problems = _name_problems(name)
    if stat.S_ISLNK(status.st_mode):
        problems.append(f"{name}: is a symbolic link; replace it with the file itself")
    elif not stat.S_ISREG(status.st_mode):
        problems.append(f"{name}: is not a regular file")
    return problems


def _name_problems(name: str) -> list[str]:
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
