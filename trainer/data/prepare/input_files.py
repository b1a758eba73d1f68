"""The files that a data set is made of: in folders, or in tar archives that are never unpacked.

A listing yields an `ImageFile` for each file and a `RejectedFile` for each entry that cannot be
used at all, so that nothing is skipped silently. Files in an archive are found by its headers
alone; an archive within an archive is also read in place, so that a file in it is identified by its
offset in the outer archive.
"""

import io
import os
import stat
import sys
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, Protocol
from unicodedata import normalize

from common.image_files import is_hidden, not_listed
from trainer.data.intake.names import Naming, Note
from trainer.data.pixels.treatment import Encoded, RejectedError
from trainer.data.prepare.options import OTHER_OUTPUT
from trainer.data.prepare.rejected import HIDDEN, RejectedFile
from trainer.data.tables.kept_columns import KeptColumns
from trainer.data.tables.leaks import Column
from trainer.errors import DataError

_COMPRESSED = {
    b"\x1f\x8b": ("gzip", "gunzip"),
    b"BZh": ("bzip2", "bunzip2"),
    b"\xfd7zXZ": ("xz", "unxz"),
    b"\x28\xb5\x2f\xfd": ("zstd", "unzstd"),
    b"PK\x03\x04": ("zip", "unzip"),
}
"""Kind of compression and program that removes it, by the first bytes of a file."""

_AGAIN = "download it again, or let the download continue"

MAX_FILE_BYTES = 200_000_000
"""Largest file to read, in bytes, because files are held in memory."""

_SORTED = 100_000
"""Most entries of a folder that are sorted by name, which holds them in memory."""

_PAUSES = (1.0, 5.0)
"""Seconds before each retry of a failed read: storage behind a network fails briefly at times."""


@dataclass(frozen=True)
class ImageFile:
    """One file that should be an image."""

    split: str
    """Split: train or validation; empty if it is still undecided."""
    name: str
    """Path in the input, with `/`, unique in its split. Becomes image/filename unless records get
    new names."""
    label: int
    """Index of the class, counted from 0."""
    container: str
    """File that contains the bytes: the file itself, or an archive."""
    offset: int
    """Byte offset in the container."""
    size: int
    """Size in bytes."""
    changed: int = 0
    """Time of the container's last change, in ns since 1970."""
    page: int = 0
    """Number of the image in a file of several, from 0."""
    shown: str = ""
    """New name of the record, if it is not that of the file; the listing gives it."""
    target: bytes = b""
    """What `TargetFiles` needs to know of the image, such as its boxes; kept with the listing, so
    that no process holds that of all images."""

    @property
    def title(self) -> str:
        """Name of the record, by which everything after the listing calls the image."""
        return self.shown or self.name


class TargetFiles(Protocol):
    """Files next to the images with the targets; the same in every process."""

    def read(
        self, file: ImageFile, image: Encoded, *, resize: bool
    ) -> tuple[Mapping[str, bytes], int]:
        """Return the features of an image's record besides the image, and its label.

        Args:
            file: File of the image.
            image: The image as it is stored.
            resize: Whether images were shrunk, so that what belongs to them is shrunk alike.

        Raises:
            RejectedError: The file does not fit the image.
            DataError: The file cannot be read now.
        """


@dataclass(frozen=True)
class Inputs:
    """Inputs of one data set."""

    classes: tuple[str, ...]
    """Class names in the order of labels."""
    files: Callable[[], Iterator[ImageFile | RejectedFile]]
    """Function that lists the files, in any order; always the same files until one is changed."""
    synsets: tuple[str, ...] = ()
    """WordNet identifier of each class; empty if there are none."""
    notes: tuple[Note, ...] = ()
    """Notes for the user, printed before anything is written."""
    targets: TargetFiles | None = None
    """Files next to the images, from which their labels follow; None if images have classes."""
    group: Callable[[ImageFile], str] | None = None
    """Function that returns the group of a file, whose files stay in one split; None if the input
    names no groups."""
    kept: KeptColumns | None = None
    """Columns of a table that are kept with the data set."""
    columns: tuple[Column, ...] = ()
    """Further columns of a table that may say what several images are of."""
    above: int | None = None
    """Number of folders at the beginning of names that are classes; None if names have no folders
    of files."""


@dataclass(frozen=True)
class StoredFile:
    """One file on disk or in an archive."""

    path: str
    """Path in the given folder or archive, with `/`; empty for that archive itself."""
    container: str
    """File that contains the bytes: the file itself, or the outermost archive."""
    offset: int
    """Byte offset in the container."""
    size: int
    """Size in bytes."""
    changed: int
    """Time of the container's last change, in ns since 1970."""
    fault: str = ""
    """Why the file cannot be used, whatever its content; empty if it can."""

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def where(self) -> str:
        """Name of the file for errors."""
        return f"{self.container}: {self.path}" if self.offset else self.container


def on_disk(path: Path) -> StoredFile:
    """Return a file that the user named."""
    state = path.stat()
    return StoredFile("", str(path), 0, state.st_size, state.st_mtime_ns)


def folder_problems(output: str, **folders: str) -> list[str]:
    """Return the faults of the folders that a command is to read, by the names of their
    options, and with the one that it is to write.
    """
    problems = []
    for option, folder in folders.items():
        if not folder:
            holds = "images" if option == "input" else option
            problems.append(f"--{option}: name the folder of the {holds}")
        elif not Path(folder).is_dir():
            problems.append(f"--{option}: no folder {folder}")
        elif Path(output).resolve().is_relative_to(Path(folder).resolve()):
            problems.append(f"--output: {output} is inside --{option}")
    return problems


def in_either_form(folder: Path, path: str) -> Path:
    """Return the file or folder of a path in a folder. If there is none of exactly these
    characters, each letter with an accent may be one character or two, as macOS stores it.
    """
    exact = folder / path
    if path.isascii() or exact.exists():
        return exact
    return _in_either_form(folder, Path(path).parts) or exact


def _in_either_form(folder: Path, parts: Sequence[str]) -> Path | None:
    if not parts:
        return folder
    first, *rest = parts
    forms = dict.fromkeys((first, normalize("NFC", first), normalize("NFD", first)))
    below = (_in_either_form(folder / f, rest) for f in forms if (folder / f).exists())
    return next((path for path in below if path), None)


def in_folder(folder: Path, root: Path) -> Iterator[StoredFile]:
    """Yield all files in a folder and below, by name; links to folders are not followed. A folder
    of very many files is in the order of the file system.

    Args:
        folder: Folder to list.
        root: Folder that paths are relative to, and that links must not leave.

    Raises:
        DataError: This user may not list a folder, or the storage fails.
    """
    items = _scanned(folder)
    first = sorted(islice(items, _SORTED), key=lambda item: item.name)
    for item in chain(first, items):
        if item.is_dir(follow_symlinks=False) and not is_hidden(item.name):
            yield from in_folder(Path(item.path), root)
        else:
            yield look(item, root)


def listed(folder: Path) -> list["os.DirEntry[str]"]:
    """Return the entries of a folder, sorted by name.

    Raises:
        DataError: This user may not list it, or the storage fails.
    """
    return sorted(_scanned(folder), key=lambda item: item.name)


def _scanned(folder: Path) -> Iterator["os.DirEntry[str]"]:
    """Yield the entries of a folder; raises as `listed` does."""
    try:
        with os.scandir(folder) as items:
            yield from items
    # In both cases an unknown number of files would be missing.
    except PermissionError as error:
        raise DataError.of("", str(folder), not_listed("", error)) from error
    except OSError as error:
        raise DataError.of(
            "",
            str(folder),
            f": cannot be listed ({error.strerror}); run the same command again to continue",
        ) from error


def look(item: "os.DirEntry[str]", root: Path) -> StoredFile:
    """Return a file, a link or a hidden folder as a `StoredFile`."""
    state, fault = item.stat(follow_symlinks=False), HIDDEN if is_hidden(item.name) else ""
    if item.is_symlink() and not fault:
        fault = _link_fault(Path(item.path), root)
        state = state if fault else item.stat()
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
    """Yield all files in an uncompressed tar archive, in its order; memory use is constant.

    Args:
        archive: Archive on disk, or in another archive.

    Raises:
        DataError: The archive is compressed, incomplete or damaged, or not a tar archive.
    """
    # Unbuffered, because headers are far apart: most of a buffer would be read in vain and not be
    # reused for the next header.
    with io.BufferedReader(_Window(archive), 2 * tarfile.BLOCKSIZE) as file:
        start = file.read(8)
        for magic, (kind, remedy) in _COMPRESSED.items():
            if start.startswith(magic):
                raise DataError.of(
                    "",
                    archive.where,
                    f": is compressed ({kind}), so its files cannot be read in"
                    f" place; uncompress it first, with {remedy}",
                )
        file.seek(0)
        try:
            opened = tarfile.open(fileobj=file, mode="r:", encoding="utf-8")  # noqa: SIM115 it is, below
        except tarfile.TarError as error:
            raise DataError.of("", archive.where, f": is not a tar archive ({error})") from error
        with opened:
            yield from _members(opened, file, archive)


def _members(opened: tarfile.TarFile, file: IO[bytes], archive: StoredFile) -> Iterator[StoredFile]:
    last, position = "its first byte", 0
    prefix = f"{archive.path}/" if archive.path else ""
    while not _at_end(file, position, archive, last):
        try:
            # Not opened.next(), which keeps all members and treats a damaged header as the end.
            member = tarfile.TarInfo.fromtarfile(opened)
        except tarfile.TarError as error:
            raise DataError.of(
                *("", archive.where, ": is incomplete or damaged after ", last),
                f" ({error}); {_AGAIN}",
            ) from error
        last = member.name
        if not position < opened.offset <= archive.size:
            raise DataError.of(
                "", archive.where, ": is incomplete: it ends within ", last, f"; {_AGAIN}"
            )
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
    """Return whether the block of zeros that ends an archive is next.

    Raises:
        DataError: Nothing follows, so the archive is incomplete.
    """
    file.seek(position)
    block = file.read(tarfile.BLOCKSIZE)
    if len(block) < tarfile.BLOCKSIZE:
        raise DataError.of(
            "", archive.where, ": is incomplete: it ends after ", last, f"; {_AGAIN}"
        )
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
    if any(is_hidden(part) and part != "." for part in parts):
        return HIDDEN
    return ""


class _Window(io.RawIOBase):
    """A file within a file; only the requested bytes are read."""

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
        try:
            count = os.preadv(self._file, [part], offset)
        except OSError as error:
            raise DataError.of(
                "",
                self._archive.container,
                f": cannot be read ({error.strerror}); run the same command again to continue",
            ) from error
        self._position += count
        return count

    def close(self) -> None:
        if not self.closed:
            os.close(self._file)
        super().close()


class FileReader:
    """Reads files; keeps the last container open, which may be an archive of all files."""

    def __init__(self, naming: Naming = Naming()) -> None:  # noqa: B008 - frozen
        """Begin with no file.

        Args:
            naming: How records are named, for messages about files that are not listed yet.
        """
        self._naming = naming
        self._container: str | None = None
        self._file = -1

    def read(self, file: ImageFile) -> bytes:
        """Return the bytes of one file.

        Raises:
            RejectedError: The file is too large, or this user may not read it.
            DataError: The file has changed since it was listed, or its storage fails.
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
                    raise DataError.of(
                        *_about(file),
                        f": cannot be read ({error.strerror}); run the same command again to"
                        " continue",
                    ) from error
                parts = (*_about(file), f": {error.strerror}; trying again in {pause:.0f} s")
                print(f"warning: {self._naming.note(parts)}", file=sys.stderr, flush=True)
                time.sleep(pause)
        if len(data) != file.size:
            raise DataError.of(
                *_about(file),
                ": has changed since it was listed; when nothing writes there any more, start again"
                f" with {OTHER_OUTPUT}",
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
        # One byte more than expected, to detect a file that has grown.
        data = os.pread(self._file, file.size + _stands_alone(file), file.offset)
        while len(data) < file.size:
            more = os.pread(self._file, file.size - len(data), file.offset + len(data))
            if not more:
                break
            data += more
        return data


def _about(file: ImageFile) -> tuple[str, str]:
    """Return what precedes a message about a file: its new name, and otherwise a detail."""
    if file.shown:
        return file.shown, ""
    alone = _stands_alone(file)
    return "", file.container if alone else f"{file.container}: {file.name}"


def _stands_alone(file: ImageFile) -> bool:
    """Return whether a file is not part of an archive."""
    return os.path.basename(file.container) == os.path.basename(file.name)  # noqa: PTH119 - speed
