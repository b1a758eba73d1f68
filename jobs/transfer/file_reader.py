"""Reads a local file once, hashing it, and makes sure that it is what it should be."""

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from io import FileIO

import xxhash

from jobs.transfer.local_files import ChangedError, LocalError, LocalFile, stamp


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
