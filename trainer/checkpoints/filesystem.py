"""What checkpoints need of a file system, so that tests can let any operation of it fail."""

import errno
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import xxhash

CHUNK = 1 << 22
"""Most bytes that are read, hashed or written at once: few enough to stay in a CPU's cache,
enough that a thread in the background hardly needs Python's lock."""

_NO_FOLDER_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS)
"""What a mount says, such as SMB, that has nothing to sync in a folder."""

Chunk = bytes | memoryview


class Files(Protocol):
    """A file system; every method may raise OSError."""

    def make_folder(self, path: Path) -> None:
        """Make a folder and those above it; it may exist."""

    def write(self, path: Path, chunks: Iterable[Chunk]) -> None:
        """Write a new file; returns when it is on disk.

        Raises:
            FileExistsError: there is one of this name.
        """

    def sync_folder(self, path: Path) -> None:
        """Return when what was made, renamed and removed in a folder is on disk."""

    def rename(self, source: Path, target: Path) -> None:
        """Give a file another name, in place of the file that has it."""

    def remove(self, path: Path) -> None:
        """Remove a file; it may be missing."""

    def remove_tree(self, path: Path) -> None:
        """Remove a folder and all in it; it may be missing."""

    def names(self, path: Path) -> list[str]:
        """Names in a folder; none if it is missing."""

    def read(self, path: Path) -> Iterator[bytes]:
        """The content of a file, in pieces."""

    def free_bytes(self, path: Path) -> int | None:
        """Space that is left for this process; none if the file system does not say."""


class LocalFiles:
    """A disk, or a mount that behaves somewhat like one."""

    def make_folder(self, path: Path) -> None:
        """See `Files`."""
        path.mkdir(parents=True, exist_ok=True)

    def write(self, path: Path, chunks: Iterable[Chunk]) -> None:
        """See `Files`. A mount of an object store may say only on closing that it failed."""
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
        """See `Files`; some mounts claim to have no room at all, of any kind."""
        facts = os.statvfs(path)
        return facts.f_bavail * facts.f_frsize if facts.f_blocks else None


class Fingerprint:
    """Size and checksum of what passes by."""

    def __init__(self) -> None:
        self.bytes = 0
        self._hash = xxhash.xxh3_128()

    def over(self, chunks: Iterable[Chunk]) -> Iterator[Chunk]:
        """Pass chunks on."""
        for chunk in chunks:
            self._hash.update(chunk)
            self.bytes += len(chunk)
            yield chunk

    def facts(self) -> dict[str, int | str]:
        """Of all that has passed."""
        return {"bytes": self.bytes, "xxh3_128": self._hash.hexdigest()}


def fingerprint(chunks: Iterable[Chunk]) -> dict[str, int | str]:
    """Size and checksum of some content."""
    seen = Fingerprint()
    for _ in seen.over(chunks):
        pass
    return seen.facts()


def warn(text: str) -> None:
    """Say what does not end the run, which also goes on when its terminal has gone."""
    with suppress(OSError):
        print(f"warning: {text}", flush=True)
