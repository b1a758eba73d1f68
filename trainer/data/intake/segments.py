"""The kinds of metadata, and the parts of a file that are cut. Standard library only."""

from dataclasses import dataclass, field
from typing import Final, Self

EXIF: Final = "EXIF"
XMP: Final = "XMP"
IPTC: Final = "IPTC"
COMMENT: Final = "comment"
TEXT: Final = "text"
TIME: Final = "time"
THUMBNAIL: Final = "thumbnail"
PROFILE_TEXT: Final = "texts of a colour profile"
PROFILE: Final = "damaged colour profile"
FURTHER: Final = "further images"
OTHER: Final = "other data"
BEHIND: Final = "bytes after the image"
FILE_NAME_KIND: Final = "name of a file"
"""Kinds of metadata, in the words that reports use."""

MAX_SEGMENTS: Final = 200_000
"""Segments from which a file is refused: a PNG of 200 MB with the usual parts of 8 KB has fewer."""


class BrokenSegmentsError(ValueError):
    """An image whose segments cannot be followed; the message says why and quotes nothing."""


@dataclass
class Cuts:
    """Parts of a file that are left out or replaced, in their order, and their kinds."""

    parts: list[tuple[int, int, bytes]] = field(default_factory=list)
    """Begin, end and replacement of each part."""
    kinds: set[str] = field(default_factory=set)

    def cut(self, begin: int, end: int, kind: str = "", instead: bytes = b"") -> None:
        """Leave out the bytes [begin, end), and put others there.

        Args:
            begin: First byte.
            end: Byte after the last one.
            kind: Kind of metadata; empty for padding, which says nothing.
            instead: Bytes to put there.
        """
        if len(self.parts) >= MAX_SEGMENTS:
            raise BrokenSegmentsError("has too many segments")
        self.parts.append((begin, end, instead))
        if kind:
            self.kinds.add(kind)

    def ordered(self) -> Self:
        """Put the parts into their order, if they were not cut in it."""
        self.parts.sort()
        return self

    def apply(self, data: bytes) -> bytes:
        """Return the bytes that are left; the same object if nothing is cut."""
        if not self.parts:
            return data
        view, at, kept = memoryview(data), 0, list[bytes | memoryview]()
        for begin, end, instead in self.parts:
            kept += (view[at:begin], instead)
            at = end
        return b"".join([*kept, view[at:]])
