"""Colour profiles without their texts (ICC.1:2022). Standard library only.

A profile has a description, a copyright and names of devices, each of them free text. Its colours
are in other tags, which are copied; two neutral texts take the place of those that it must have.
"""

import struct
from functools import lru_cache
from typing import Final

MAX_BYTES: Final = 4_000_000
"""Largest profile that is looked at, in bytes; those of printers have about 1 MB."""
_CACHED: Final = 16_000
"""Largest profile that is remembered, in bytes: images of one camera share theirs."""
_HEADER: Final = 128
_MAX_TAGS: Final = 100
_ENTRY: Final = struct.Struct(">4sII")

_SIZES: Final = {b"XYZ ": 20, b"sf32": 44, b"chrm": 36, b"cicp": 12}
"""Bytes of a tag of each type whose size is fixed."""
_PARAMETERS: Final = (1, 3, 4, 5, 7)
_TABLES: Final = (b"mft1", b"mft2", b"mAB ", b"mBA ", b"mpet")
_COLOURS: Final = frozenset(
    {b"rXYZ", b"gXYZ", b"bXYZ", b"rTRC", b"gTRC", b"bTRC", b"kTRC", b"wtpt", b"bkpt", b"chad"}
    | {b"lumi", b"chrm", b"gamt", b"cicp"}
    | {name + number for name in (b"A2B", b"B2A", b"D2B", b"B2D") for number in (b"0", b"1", b"2")}
    | {b"D2B3", b"B2D3"}
)
_TEXT: Final = b"profile"


def colours_only(profile: bytes) -> bytes | None:
    """Return a profile with its colours alone, or None if it is damaged.

    A profile that was returned stays as it is.
    """
    if len(profile) <= _CACHED:
        return _known(profile)
    return _rebuilt(profile) if len(profile) < MAX_BYTES else None


@lru_cache(256)
def _known(profile: bytes) -> bytes | None:
    return _rebuilt(profile)


def _rebuilt(profile: bytes) -> bytes | None:
    if len(profile) < _HEADER + 4 or profile[36:40] != b"acsp":
        return None
    count = int.from_bytes(profile[_HEADER : _HEADER + 4], "big")
    table_end = _HEADER + 4 + count * _ENTRY.size
    if count > _MAX_TAGS or table_end > len(profile):
        return None
    texts = _texts(profile[8])
    tags: dict[bytes, bytes] = {}
    for name, offset, size in _ENTRY.iter_unpack(profile[_HEADER + 4 : table_end]):
        if name in texts:
            tags[name] = texts[name]
        elif name in _COLOURS:
            content = _content(profile[offset : offset + size])
            if content is None or offset < table_end or offset + size > len(profile):
                return None
            tags[name] = content
    return _assembled(_header(profile), tags)


def _content(tag: bytes) -> bytes | None:
    """Return a tag of numbers without bytes after it; None if it is damaged or of another type."""
    kind = tag[:4]
    if kind in _TABLES:
        return tag
    if kind == b"curv":
        size = 12 + 2 * int.from_bytes(tag[8:12], "big")
    elif kind == b"para":
        function = int.from_bytes(tag[8:10], "big")
        size = 12 + 4 * _PARAMETERS[function] if function < len(_PARAMETERS) else len(tag) + 1
    else:
        size = _SIZES.get(kind, len(tag) + 1)
    return tag[:size] if 12 <= size <= len(tag) else None


def _header(profile: bytes) -> bytes:
    """Return the header without date, device, programs and checksum."""
    header = bytearray(profile[:_HEADER])
    for begin, end in ((4, 8), (24, 36), (40, 44), (48, 56), (80, _HEADER)):
        header[begin:end] = bytes(end - begin)
    return bytes(header)


def _assembled(header: bytes, tags: dict[bytes, bytes]) -> bytes:
    at = _HEADER + 4 + len(tags) * _ENTRY.size
    entries, body, places = bytearray(), bytearray(), dict[bytes, int]()
    for name, content in tags.items():
        # Curves of several colours are usually the same, and stored once.
        if content not in places:
            places[content] = at + len(body)
            body += content + bytes(-len(content) % 4)
        entries += _ENTRY.pack(name, places[content], len(content))
    size = (at + len(body)).to_bytes(4, "big")
    return size + header[4:] + len(tags).to_bytes(4, "big") + bytes(entries) + bytes(body)


def _texts(version: int) -> dict[bytes, bytes]:
    """Return the texts that a profile of a version must have."""
    if version >= 4:
        wide = _TEXT.decode().encode("utf-16-be")
        text = b"mluc" + struct.pack(">3I", 0, 1, 12) + b"enUS" + struct.pack(">2I", len(wide), 28)
        return {b"desc": text + wide, b"cprt": text + wide}
    plain = _TEXT + b"\0"
    described = b"desc" + struct.pack(">2I", 0, len(plain)) + plain + bytes(8 + 3 + 67)
    return {b"desc": described, b"cprt": b"text" + bytes(4) + plain}
