"""The tags of a TIFF or BigTIFF, which are counted. Standard library only."""

from typing import Final, Literal

from trainer.data.intake.segments import EXIF, IPTC, PROFILE_TEXT, TEXT, XMP, BrokenSegmentsError

_MAX_ENTRIES: Final = 200_000
"""Entries of all directories from which a file is refused; a page has about 20."""
_ASCII: Final = 2
_KINDS: Final = {700: XMP, 33723: IPTC, 34377: IPTC, 34665: EXIF, 34853: EXIF, 34675: PROFILE_TEXT}


def kinds(data: bytes) -> set[str]:
    """Return the kinds of metadata of all pages.

    Raises:
        BrokenSegmentsError: A directory of tags is not in the file.
    """
    order: Literal["little", "big"] = "little" if data[:2] == b"II" else "big"
    # Bytes of an offset, of the number of entries, and of an entry.
    wide, counted, entry = (8, 8, 20) if data[2:4].strip(b"\0") == b"+" else (4, 2, 12)

    def number(at: int, size: int) -> int:
        if at + size > len(data):
            raise BrokenSegmentsError("has a damaged directory of tags")
        return int.from_bytes(data[at : at + size], order)

    found, seen, entries = set[str](), set[int](), 0
    at = number(wide if wide == 8 else 4, wide)
    while at and at not in seen:
        seen.add(at)
        begin, count = at + counted, number(at, counted)
        end, entries = begin + entry * count, entries + count
        if end > len(data) or entries > _MAX_ENTRIES:
            raise BrokenSegmentsError("has a damaged directory of tags")
        for each in range(begin, end, entry):
            tag = number(each, 2)
            if tag in _KINDS:
                found.add(_KINDS[tag])
            elif number(each + 2, 2) == _ASCII:
                found.add(TEXT)
        at = number(end, wide)
    return found
