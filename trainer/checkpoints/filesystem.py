"""The file system operations of checkpoints, as an interface, so that tests can make each fail."""

import errno
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import xxhash

CHUNK = 1 << 22
"""Most bytes to read, hash or write at once: few enough to stay in a CPU's cache, enough that a
background thread rarely needs the GIL."""

_NO_FOLDER_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS)
"""Errors of mounts, such as SMB, that cannot sync a folder."""

Chunk = bytes | memoryview


class Files(Protocol):
    """A file system; every method may raise OSError."""

    def make_folder(self, path: Path) -> None:
        """Make a folder and its parents; it may exist already."""

    def write(self, path: Path, chunks: Iterable[Chunk]) -> None:
        """Write a new file; return when it is on disk.

        Raises:
            FileExistsError: A file of this name exists.
        """

    def sync_folder(self, path: Path) -> None:
        """Wait until files that were created, renamed and removed in a folder are on disk."""

    def rename(self, source: Path, target: Path) -> None:
        """Rename a file; replace the file of the new name, if there is one."""

    def remove(self, path: Path) -> None:
        """Remove a file; it may be missing."""

    def remove_tree(self, path: Path) -> None:
        """Remove a folder and its contents; it may be missing."""

    def names(self, path: Path) -> list[str]:
        """Return the names in a folder; empty if the folder is missing."""

    def read(self, path: Path) -> Iterator[bytes]:
        """Yield the content of a file in pieces."""

    def free_bytes(self, path: Path) -> int | None:
        """Return the free space for this process; None if the file system does not report it."""


class LocalFiles:
    """A local disk or a mount."""

    def make_folder(self, path: Path) -> None:
        """See `Files`."""
        path.mkdir(parents=True, exist_ok=True)

    def write(self, path: Path, chunks: Iterable[Chunk]) -> None:
        """See `Files`. A mount of an object store may report a failure only on closing."""
        with path.open("xb") as file:
            for chunk in chunks:
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())

    def sync_folder(self, path: Path) -> None:
        """See `Files`."""
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno not in _NO_FOLDER_SYNC:
                raise
        finally:
            os.close(descriptor)

    def rename(self, source: Path, target: Path) -> None:
        """See `Files`."""
        source.replace(target)

    def remove(self, path: Path) -> None:
        """See `Files`."""
        path.unlink(missing_ok=True)

    def remove_tree(self, path: Path) -> None:
        """See `Files`."""
        with suppress(FileNotFoundError):
            shutil.rmtree(path)

    def names(self, path: Path) -> list[str]:
        """See `Files`."""
        try:
            return [entry.name for entry in path.iterdir()]
        except FileNotFoundError:
            return []

    def read(self, path: Path) -> Iterator[bytes]:
        """See `Files`."""
        with path.open("rb") as file:
            while chunk := file.read(CHUNK):
                yield chunk

    def free_bytes(self, path: Path) -> int | None:
        """See `Files`. Some mounts report a size of zero, which counts as unknown."""
        facts = os.statvfs(path)
        return facts.f_bavail * facts.f_frsize if facts.f_blocks else None


class Fingerprint:
    """Size and checksum of a stream of chunks."""

    def __init__(self) -> None:
        self.bytes = 0
        self._hash = xxhash.xxh3_128()

    def over(self, chunks: Iterable[Chunk]) -> Iterator[Chunk]:
        """Yield the chunks and add them to the fingerprint."""
        for chunk in chunks:
            self._hash.update(chunk)
            self.bytes += len(chunk)
            yield chunk

    def facts(self) -> dict[str, int | str]:
        """Return size and checksum of all chunks so far."""
        return {"bytes": self.bytes, "xxh3_128": self._hash.hexdigest()}


def fingerprint(chunks: Iterable[Chunk]) -> dict[str, int | str]:
    """Return size and checksum of some content."""
    seen = Fingerprint()
    for _ in seen.over(chunks):
        pass
    return seen.facts()
