"""Removes metadata from encoded images without touching their pixels.

JPEGs, PNGs, WebPs and GIFs are sequences of segments. Those that a decoder needs are copied, and
all others are left out: a segment that is not known to be needed does not stay. What lies between
segments, behind the last coded block or row of pixels, or behind the image is left out as well.
A file whose segments cannot be followed to the end is refused rather than copied in part.
"""

from dataclasses import dataclass
from typing import Final, Protocol

from trainer.data.intake import gif, png, tiff, webp
from trainer.data.intake.jpeg import segments as jpeg
from trainer.data.intake.segments import BrokenSegmentsError, Cuts

__all__ = ["BrokenSegmentsError", "Stripped", "kinds", "strip"]


class _Parser(Protocol):
    def __call__(self, data: bytes, *, codes: bool = True) -> Cuts:
        """Return what to leave out; `codes` is whether to look into the pixels as well."""


_STRIPPED: Final[tuple[tuple[bytes, _Parser], ...]] = (
    (b"\xff\xd8\xff", jpeg.cuts),
    (b"\x89PNG\r\n\x1a\n", png.cuts),
    (b"RIFF", webp.cuts),
    (b"GIF8", gif.cuts),
)
_COUNTED: Final = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
"""First bytes of TIFFs, whose metadata are only counted, because they are always encoded again."""


@dataclass(frozen=True)
class Stripped:
    """An image without metadata."""

    data: bytes
    """The image; the object that was given if there was nothing to remove."""
    removed: tuple[str, ...]
    """Kinds of the removed parts, sorted: see `trainer.data.intake.segments`."""


def strip(data: bytes) -> Stripped:
    """Remove metadata from a JPEG, PNG, WebP or GIF; the bytes that encode its pixels stay.

    The orientation is removed as well, so an image must be turned upright before. A colour profile
    stays without its texts. Takes memory for one copy of the image.

    Raises:
        BrokenSegmentsError: The image is of another format, or its segments are damaged.
    """
    for begin, cuts in _STRIPPED:
        if data.startswith(begin):
            found = cuts(data)
            return Stripped(found.apply(data), tuple(sorted(found.kinds)))
    raise BrokenSegmentsError("is of a format whose metadata cannot be removed")


def kinds(data: bytes) -> tuple[str, ...]:
    """Return the kinds of metadata that an image has, of any format; none if it has no known one.
    Its pixels are not followed, because this is for images that are encoded again.

    Raises:
        BrokenSegmentsError: Its segments are damaged.
    """
    for begin, cuts in _STRIPPED:
        if data.startswith(begin):
            return tuple(sorted(cuts(data, codes=False).kinds))
    return tuple(sorted(tiff.kinds(data))) if data.startswith(_COUNTED) else ()
