"""The files that a data set is made of: in folders, or in tar archives that are never unpacked.

A listing yields an `ImageFile` for each file and a `RejectedFile` for whatever cannot even be
tried, so that nothing is left out in silence. Files in an archive are found by its headers alone;
an archive within an archive is walked in place too, so that a file in it is known by its offset in
the outer one.
"""

import io
import os
import stat
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from trainer.data.prepare.rejected import HIDDEN, RejectedError, RejectedFile
from trainer.errors import DataError

_COMPRESSED = {
    b"\x1f\x8b": ("gzip", "gunzip"),
    b"BZh": ("bzip2", "bunzip2"),
    b"\xfd7zXZ": ("xz", "unxz"),
    b"\x28\xb5\x2f\xfd": ("zstd", "unzstd"),
    b"PK\x03\x04": ("zip", "unzip"),
}
"""Kind and remedy, by the first bytes of a file."""

_AGAIN = "download it again, or let the download continue"

MAX_FILE_BYTES = 200_000_000
"""Bytes of a file that is read at all; it is held in memory."""

_PAUSES = (1.0, 5.0)
"""Seconds before a failed read is tried again: storage over a network has short failures."""


@dataclass(frozen=True)
class ImageFile:
    """One file that should be an image."""

    split: str
    """train or validation; empty if that is still to be decided."""
    name: str
    """Its path in the input, with `/`; unique in its split. Becomes image/filename."""
    label: int
    """Index of the class, from 0."""
    container: str
    """The file that holds its bytes: itself, or an archive."""
    offset: int
    """Where in the container it begins."""
    size: int
    """Its bytes."""
    changed: int = 0
    """When the container was changed last, in ns since 1970."""


@dataclass(frozen=True)
class Inputs:
    """All that goes into one data set."""

    classes: tuple[str, ...]
    """Names in the order of labels."""
    files: Callable[[], Iterator[ImageFile | RejectedFile]]
    """Lists the files; in any order, the same files each time while nothing is changed."""
    synsets: tuple[str, ...] = ()
    """WordNet's identifier of each class, if there are any."""
    notes: tuple[str, ...] = ()
    """What a person should know before anything is written."""


@dataclass(frozen=True)
class StoredFile:
    """One file."""

    path: str
    """From the folder or archive that was named, with `/`; empty for that archive itself."""
    container: str
    """The file that holds its bytes: itself, or the outermost archive."""
    offset: int
    """Where in the container it begins."""
    size: int
    """Its bytes."""
    changed: int
    """When the container was changed last, in ns since 1970."""
    fault: str = ""
    """Why it cannot be used, whatever is in it; empty if it can."""

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def where(self) -> str:
        """As an error names it."""
        return f"{self.container}: {self.path}" if self.offset else self.container


def on_disk(path: Path) -> StoredFile:
    """A file that was named itself."""
    state = path.stat()
    return StoredFile("", str(path), 0, state.st_size, state.st_mtime_ns)


def in_folder(folder: Path, root: Path) -> Iterator[StoredFile]:
    """All files in a folder and below, by name; links to folders are not followed.

    Args:
        folder: is listed.
        root: what links may not leave, and where paths begin.
    """
    for item in listed(folder):
        if item.is_dir(follow_symlinks=False) and not item.name.startswith("."):
            yield from in_folder(Path(item.path), root)
        else:
            yield look(item, root)


def listed(folder: Path) -> list["os.DirEntry[str]"]:
    """What is in a folder, by name."""
    with os.scandir(folder) as items:
        return sorted(items, key=lambda item: item.name)


def look(item: "os.DirEntry[str]", root: Path) -> StoredFile:
    """One file, link or hidden folder."""
    state, fault = item.stat(follow_symlinks=False), ""
    if item.is_symlink():
        fault = _link_fault(Path(item.path), root)
        state = state if fault else item.stat()
    if not fault and item.name.startswith("."):
        fault = HIDDEN
    if not fault and not stat.S_ISREG(state.st_mode):
        fault = "is not a file"
    path = Path(item.path).relative_to(root).as_posix()
    return StoredFile(path, item.path, 0, state.st_size, state.st_mtime_ns, fault)


def _link_fault(link: Path, root: Path) -> str:
    target = Path(os.path.realpath(link))
    if not target.is_relative_to(Path(os.path.realpath(root))):
        return "is a link that leads out of the folder"
    if not target.exists():
        return "is a link to nothing"
    return "is a link to a folder" if target.is_dir() else ""


def in_archive(archive: StoredFile) -> Iterator[StoredFile]:
    """All files in an uncompressed tar archive, in its order; memory does not grow with them.

    Args:
        archive: a file, or an archive in one.

    Raises:
        DataError: it is compressed, not a tar archive, incomplete or damaged.
    """
    # Headers lie far apart, so more than one at a time would be read in vain; a read of a whole
    # buffer would not be kept for the next.
    with io.BufferedReader(_Window(archive), 2 * tarfile.BLOCKSIZE) as file:
        start = file.read(8)
        for magic, (kind, remedy) in _COMPRESSED.items():
            if start.startswith(magic):
                raise DataError(
                    f"{archive.where}: is compressed ({kind}), so its files cannot be read where"
                    f" they lie; uncompress it first, with {remedy}"
                )
        file.seek(0)
        try:
            opened = tarfile.open(fileobj=file, mode="r:", encoding="utf-8")  # noqa: SIM115 it is, below
        except tarfile.TarError as error:
            raise DataError(f"{archive.where}: is not a tar archive ({error})") from error
        with opened:
            yield from _members(opened, file, archive)


def _members(opened: tarfile.TarFile, file: IO[bytes], archive: StoredFile) -> Iterator[StoredFile]:
    last, position = "its first byte", 0
    prefix = f"{archive.path}/" if archive.path else ""
    while not _at_end(file, position, archive, last):
        try:
            # Not opened.next(), which keeps all members and takes a damaged header for the end.
            member = tarfile.TarInfo.fromtarfile(opened)
        except tarfile.TarError as error:
            raise DataError(
                f"{archive.where}: is incomplete or damaged after {last} ({error}); {_AGAIN}"
            ) from error
        last = member.name
        if not position < opened.offset <= archive.size:
            raise DataError(f"{archive.where}: is incomplete: it ends within {last}; {_AGAIN}")
        position = opened.offset
        if member.isdir():
            continue
        yield StoredFile(
            path=f"{prefix}{last.removeprefix('./')}",
            container=archive.container,
            offset=archive.offset + member.offset_data,
            size=member.size,
            changed=archive.changed,
            fault=_fault(member),
        )


def _at_end(file: IO[bytes], position: int, archive: StoredFile, last: str) -> bool:
    """Whether the block of zeros that ends an archive is next; if not, what is next is read then.

    Raises:
        DataError: nothing is next.
    """
    file.seek(position)
    block = file.read(tarfile.BLOCKSIZE)
    if len(block) < tarfile.BLOCKSIZE:
        raise DataError(f"{archive.where}: is incomplete: it ends after {last}; {_AGAIN}")
    file.seek(position)
    return not any(block)


def _fault(member: tarfile.TarInfo) -> str:
    parts = member.name.split("/")
    if not parts[0] or ".." in parts:
        return "its path leads out of the archive"
    if member.issym() or member.islnk():
        return "is a link"
    if not member.isreg():
        return "is not a file"
    if member.issparse():
        return "is not stored in one piece (a sparse file)"
    if any(part.startswith(".") and part != "." for part in parts):
        return HIDDEN
    return ""


class _Window(io.RawIOBase):
    """A file within a file; only what is asked for is read."""

    def __init__(self, archive: StoredFile) -> None:
        self._file = os.open(archive.container, os.O_RDONLY)
        self._archive, self._position = archive, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        begin = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._archive.size}
        self._position = begin[whence] + offset
        return self._position

    def readinto(self, buffer: Any) -> int:
        left = max(self._archive.size - self._position, 0)
        part = memoryview(buffer)[:left]
        offset = self._archive.offset + self._position
        count = os.preadv(self._file, [part], offset)
        self._position += count
        return count

    def close(self) -> None:
        if not self.closed:
            os.close(self._file)
        super().close()


class FileReader:
    """Reads files; keeps the container of the last one open, which may be an archive of all."""

    def __init__(self) -> None:
        self._container: str | None = None
        self._file = -1

    def read(self, file: ImageFile) -> bytes:
        """The bytes of one file.

        Raises:
            RejectedError: it cannot be used: too large, or not readable for this user.
            DataError: it is not what was listed any more, or its storage fails.
        """
        if file.size > MAX_FILE_BYTES:
            raise RejectedError(f"has {file.size:,} bytes, more than an image can have")
        for pause in (*_PAUSES, None):
            try:
                data = self._read(file)
                break
            except PermissionError as error:
                raise RejectedError(f"cannot be read ({error.strerror})") from error
            except OSError as error:
                self.close()
                if pause is None or isinstance(error, FileNotFoundError):
                    raise DataError(
                        f"{_where(file)}: cannot be read ({error.strerror}); the same command"
                        " continues once it can"
                    ) from error
                print(
                    f"warning: {_where(file)}: {error.strerror}; again in {pause:.0f} s",
                    file=sys.stderr,
                    flush=True,
                )
                time.sleep(pause)
        if len(data) != file.size:
            raise DataError(
                f"{_where(file)}: has changed since it was listed; once nothing writes there,"
                " start again with an empty --output"
            )
        return data

    def close(self) -> None:
        """Close the container."""
        if self._container is not None:
            os.close(self._file)
            self._container = None

    def _read(self, file: ImageFile) -> bytes:
        if self._container != file.container:
            self.close()
            self._file = os.open(file.container, os.O_RDONLY)
            self._container = file.container
        # One byte more than there should be tells a file that has grown.
        data = os.pread(self._file, file.size + _stands_alone(file), file.offset)
        while len(data) < file.size:
            more = os.pread(self._file, file.size - len(data), file.offset + len(data))
            if not more:
                break
            data += more
        return data


def _where(file: ImageFile) -> str:
    return file.container if _stands_alone(file) else f"{file.container}: {file.name}"


def _stands_alone(file: ImageFile) -> bool:
    """Whether a file is not part of an archive."""
    return os.path.basename(file.container) == os.path.basename(file.name)  # noqa: PTH119 - speed
