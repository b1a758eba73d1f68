"""Where the files in a tar archive lie, from its headers alone: nothing is unpacked.

An archive within an archive is walked in place too, so that a file in it is known by its offset in
the outer one.
"""

import io
import os
import tarfile
from collections.abc import Iterator
from typing import IO, Any

from trainer.data.prepare.entries import HIDDEN
from trainer.data.prepare.found import Found
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


def in_archive(archive: Found) -> Iterator[Found]:
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


def _members(opened: tarfile.TarFile, file: IO[bytes], archive: Found) -> Iterator[Found]:
    last, place = "its first byte", 0
    prefix = f"{archive.path}/" if archive.path else ""
    while not _at_end(file, place, archive, last):
        try:
            # Not opened.next(), which keeps all members and takes a damaged header for the end.
            member = tarfile.TarInfo.fromtarfile(opened)
        except tarfile.TarError as error:
            raise DataError(
                f"{archive.where}: is incomplete or damaged after {last} ({error}); {_AGAIN}"
            ) from error
        last = member.name
        if not place < opened.offset <= archive.size:
            raise DataError(f"{archive.where}: is incomplete: it ends within {last}; {_AGAIN}")
        place = opened.offset
        if member.isdir():
            continue
        yield Found(
            path=f"{prefix}{last.removeprefix('./')}",
            container=archive.container,
            offset=archive.offset + member.offset_data,
            size=member.size,
            changed=archive.changed,
            fault=_fault(member),
        )


def _at_end(file: IO[bytes], place: int, archive: Found, last: str) -> bool:
    """Whether the block of zeros that ends an archive is next; if not, what is next is read then.

    Raises:
        DataError: nothing is next.
    """
    file.seek(place)
    block = file.read(tarfile.BLOCKSIZE)
    if len(block) < tarfile.BLOCKSIZE:
        raise DataError(f"{archive.where}: is incomplete: it ends after {last}; {_AGAIN}")
    file.seek(place)
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

    def __init__(self, found: Found) -> None:
        self._file = os.open(found.container, os.O_RDONLY)
        self._found, self._position = found, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        begin = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._found.size}
        self._position = begin[whence] + offset
        return self._position

    def readinto(self, buffer: Any) -> int:
        left = max(self._found.size - self._position, 0)
        part = memoryview(buffer)[:left]
        place = self._found.offset + self._position
        count = os.preadv(self._file, [part], place)
        self._position += count
        return count

    def close(self) -> None:
        if not self.closed:
            os.close(self._file)
        super().close()
