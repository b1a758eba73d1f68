"""The chunks of a WebP (RFC 9649). Standard library only."""

from typing import Final

from trainer.data.intake.colour_profile import colours_only
from trainer.data.intake.segments import (
    BEHIND,
    EXIF,
    OTHER,
    PROFILE,
    PROFILE_TEXT,
    XMP,
    BrokenSegmentsError,
    Cuts,
)

_NEEDED: Final = (b"VP8 ", b"VP8L", b"VP8X", b"ALPH", b"ANIM", b"ANMF")
_KINDS: Final = {b"EXIF": EXIF, b"XMP ": XMP}
_FLAGS: Final = {b"EXIF": 0x08, b"XMP ": 0x04, b"ICCP": 0x20}
"""Bits of the first byte of VP8X that announce a chunk."""


def cuts(data: bytes, *, codes: bool = True) -> Cuts:  # noqa: ARG001 - always encoded again
    """Return what to leave out of a WebP; the sizes and flags in its headers are corrected.

    Raises:
        BrokenSegmentsError: It is not a WebP, or a chunk is longer than the file.
    """
    whole = 8 + int.from_bytes(data[4:8], "little")
    if data[8:12] != b"WEBP" or whole > len(data):
        raise BrokenSegmentsError("has a damaged header")
    found, at, header, gone = Cuts(), 12, -1, 0
    while at < whole:
        name, begin = data[at : at + 4], at + 8
        length = int.from_bytes(data[at + 4 : begin], "little")
        end = min(begin + length + length % 2, whole)
        if begin + length > whole:
            raise BrokenSegmentsError("has a damaged chunk")
        if name == b"VP8X":
            header = begin
        elif name == b"ICCP":
            gone |= _look_at_profile(data, at, begin + length, end, found)
        elif name not in _NEEDED:
            found.cut(at, end, _KINDS.get(name, OTHER))
            gone |= _FLAGS.get(name, 0)
        at = end
    if found.parts:
        length = whole + sum(len(new) - (end - begin) for begin, end, new in found.parts) - 8
        fixed = [(4, 8, length.to_bytes(4, "little"))]
        if header >= 0 and gone:
            fixed.append((header, header + 1, bytes((data[header] & ~gone,))))
        found.parts = sorted([*fixed, *found.parts])
    if whole < len(data):
        found.cut(whole, len(data), BEHIND)
    return found


def _look_at_profile(data: bytes, at: int, content_end: int, end: int, found: Cuts) -> int:
    """Cut the texts of a colour profile; return the flags of the removed chunks."""
    profile = data[at + 8 : content_end]
    kept = colours_only(profile)
    if kept is None:
        found.cut(at, end, PROFILE)
        return _FLAGS[b"ICCP"]
    if kept != profile:
        size = len(kept).to_bytes(4, "little")
        found.cut(at, end, PROFILE_TEXT, b"ICCP" + size + kept + bytes(len(kept) % 2))
    return 0
