"""The tags of a TIFF or BigTIFF, which are counted. Standard library only."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from trainer.data.intake.segments import EXIF, IPTC, PROFILE_TEXT, TEXT, XMP, BrokenSegmentsError

_MAX_ENTRIES: Final = 200_000
"""Entries of all directories from which a file is refused; a page has about 20."""
_ASCII: Final = 2
_SIZES: Final = {1: 1, 3: 2, 4: 4, 16: 8}
"""Bytes of integers without a sign, by the number of their type."""
_KINDS: Final = {700: XMP, 33723: IPTC, 34377: IPTC, 34665: EXIF, 34853: EXIF, 34675: PROFILE_TEXT}


@dataclass(frozen=True)
class Directory:
    """The tags of a page."""

    at: int
    """Byte offset, where the number of entries is."""
    entries: range
    """Byte offsets of the entries; it ends with that of the offset of the next directory."""
    order: Literal["little", "big"]
    wide: int
    """Bytes of an offset."""

    def value(self, data: bytes, tag: int) -> int:
        """Return the value of a tag of one integer; 0 without it."""
        for entry in self.entries:
            if int.from_bytes(data[entry : entry + 2], self.order) == tag:
                size = _SIZES.get(int.from_bytes(data[entry + 2 : entry + 4], self.order), 0)
                at = entry + 4 + self.wide
                return int.from_bytes(data[at : at + size], self.order)
        return 0


def directories(data: bytes) -> Iterator[Directory]:
    """Yield the directory of each page.

    Raises:
        BrokenSegmentsError: A directory is not in the file.
    """
    order: Literal["little", "big"] = "little" if data[:2] == b"II" else "big"
    # Bytes of an offset, of the number of entries, and of an entry.
    wide, counted, entry = (8, 8, 20) if data[2:4].strip(b"\0") == b"+" else (4, 2, 12)

    def number(at: int, size: int) -> int:
        if at + size > len(data):
            raise BrokenSegmentsError("has a damaged directory of tags")
        return int.from_bytes(data[at : at + size], order)

    seen, entries = set[int](), 0
    at = number(wide, wide)
    while at and at not in seen:
        seen.add(at)
        begin, count = at + counted, number(at, counted)
        end, entries = begin + entry * count, entries + count
        if end > len(data) or entries > _MAX_ENTRIES:
            raise BrokenSegmentsError("has a damaged directory of tags")
        yield Directory(at, range(begin, end, entry), order, wide)
        at = number(end, wide)


def kinds(data: bytes) -> set[str]:
    """Return the kinds of metadata of all pages.

    Raises:
        BrokenSegmentsError: A directory of tags is not in the file.
    """
    found = set[str]()
    for page in directories(data):
        for each in page.entries:
            tag, kind = (int.from_bytes(data[n : n + 2], page.order) for n in (each, each + 2))
            if tag in _KINDS:
                found.add(_KINDS[tag])
            elif kind == _ASCII:
                found.add(TEXT)
    return found


def alone(data: bytes, page: int) -> bytes:
    """Return a file whose only page is one of a file, unchanged.

    Args:
        data: Bytes of the file.
        page: Number of the page, from 0.

    Raises:
        BrokenSegmentsError: There is no such page, or a directory of tags is not in the file.
    """
    for number, directory in enumerate(directories(data)):
        if number == page:
            wide, end = directory.wide, directory.entries.stop
            file = bytearray(data)
            file[wide : 2 * wide] = directory.at.to_bytes(wide, directory.order)
            file[end : end + wide] = bytes(wide)
            return bytes(file)
    raise BrokenSegmentsError("has fewer pages than its directories say")
