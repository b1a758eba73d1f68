"""The chunks of a PNG (ISO/IEC 15948). Standard library only."""

import re
import zlib
from typing import Final

from trainer.data.intake.colour_profile import MAX_BYTES, colours_only
from trainer.data.intake.segments import (
    BEHIND,
    EXIF,
    FURTHER,
    IPTC,
    MAX_SEGMENTS,
    OTHER,
    PROFILE,
    PROFILE_TEXT,
    TEXT,
    TIME,
    XMP,
    BrokenSegmentsError,
    Cuts,
)

_NEEDED: Final = {
    b"IHDR": 13,
    b"PLTE": 768,
    b"tRNS": 256,
    b"gAMA": 4,
    b"cHRM": 32,
    b"sRGB": 1,
    b"sBIT": 4,
    b"cICP": 4,
    b"pHYs": 9,
}
"""Chunks that say how pixels are to be understood, and the most bytes that each may have."""
_KINDS: Final = {
    b"tEXt": TEXT,
    b"zTXt": TEXT,
    b"iTXt": TEXT,
    b"eXIf": EXIF,
    b"tIME": TIME,
    b"acTL": FURTHER,
    b"fcTL": FURTHER,
    b"fdAT": FURTHER,
}
_KEYWORDS: Final = (
    (b"XML:com.adobe.xmp", XMP),
    (b"Raw profile type xmp", XMP),
    (b"Raw profile type exif", EXIF),
    (b"Raw profile type APP1", EXIF),
    (b"Raw profile type iptc", IPTC),
    (b"Raw profile type 8bim", IPTC),
)
"""Kinds of texts by their keywords: what programs write that have no chunk of their own."""
_NAME: Final = re.compile(rb"[A-Za-z]{4}")
_PROFILE_NAME: Final = b"profile\0\0"
"""Name of a colour profile, and its compression method."""


def cuts(data: bytes) -> Cuts:
    """Return what to leave out of a PNG. Its checksums are not compared.

    Raises:
        BrokenSegmentsError: A chunk is longer than the file, or has no valid name.
    """
    found, at, size = Cuts(), 8, len(data)
    for _ in range(MAX_SEGMENTS):
        name, begin = data[at + 4 : at + 8], at + 8
        end = begin + int.from_bytes(data[at : at + 4], "big") + 4
        if end > size or not _NAME.fullmatch(name):
            raise BrokenSegmentsError("has a damaged or missing chunk")
        length = end - 4 - begin
        if name == b"IEND":
            if length:
                found.cut(at, end, OTHER, _chunk(b"IEND", b""))
            if end < size:
                found.cut(end, size, BEHIND)
            return found
        if name == b"iCCP":
            _look_at_profile(data, at, end, found)
        elif name != b"IDAT" and length > _NEEDED.get(name, -1):
            if name in (b"IHDR", b"PLTE"):
                raise BrokenSegmentsError("has a damaged chunk")
            keyword = data[begin : begin + 32]
            kinds = (kind for text, kind in _KEYWORDS if keyword.startswith(text))
            kind = _KINDS.get(name, OTHER)
            found.cut(at, end, next(kinds, kind) if kind == TEXT else kind)
        at = end
    raise BrokenSegmentsError("has too many chunks")


def _look_at_profile(data: bytes, at: int, end: int, found: Cuts) -> None:
    name, _, rest = data[at + 8 : end - 4].partition(b"\0")
    unpacker = zlib.decompressobj()
    try:
        profile = unpacker.decompress(rest[1:], MAX_BYTES)
        whole = unpacker.eof and not unpacker.unused_data
    except zlib.error:
        whole = False
    kept = colours_only(profile) if whole else None
    if kept is None:
        found.cut(at, end, PROFILE)
    elif kept != profile or name + b"\0\0" != _PROFILE_NAME:
        found.cut(at, end, PROFILE_TEXT, _chunk(b"iCCP", _PROFILE_NAME + zlib.compress(kept)))


def _chunk(name: bytes, content: bytes) -> bytes:
    checksum = zlib.crc32(name + content).to_bytes(4, "big")
    return len(content).to_bytes(4, "big") + name + content + checksum
