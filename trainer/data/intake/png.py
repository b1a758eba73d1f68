"""The chunks of a PNG (ISO/IEC 15948)."""

import io
import re
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from PIL.PngImagePlugin import PngImageFile

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
from trainer.data.pixels.treatment import bounded

_PLAIN: Final[dict[bytes, Callable[[bytes], bool]]] = {
    b"gAMA": lambda content: len(content) == 4 and _most(content, 4) <= 1_000_000,
    b"cHRM": lambda content: len(content) == 32 and _most(content, 4) <= 100_000,
    b"sRGB": lambda content: len(content) == 1 and content[0] <= 3,
    b"sBIT": lambda content: 1 <= len(content) <= 4 and max(content) <= 16,
    b"cICP": lambda content: len(content) == 4 and max(content) <= 22,
    b"pHYs": lambda content: (
        len(content) == 9
        and content[:4] == content[4:8]
        and content[8] <= 1
        and _most(content[:8], 4) <= 400_000
    ),
    b"tRNS": lambda content: 1 <= len(content) <= 256,
}
"""Chunks that say how pixels are to be understood, and whether a content is one that they usually
have, so that it cannot be a text: gamma up to 10, densities up to 10,000 dots per inch."""
_CHANNELS: Final = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
"""Values of a pixel by the type of colours."""
_INDEXED: Final = 3
_PASSES: Final = (
    (0, 0, 8, 8),
    (4, 0, 8, 8),
    (0, 4, 4, 8),
    (2, 0, 4, 4),
    (0, 2, 2, 4),
    (1, 0, 2, 2),
    (0, 1, 1, 2),
)
"""First column and row of each pass of an interlaced image, and its steps."""
_PART: Final = 1 << 20
"""Bytes of pixels that are uncompressed at once."""
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


def cuts(data: bytes, *, codes: bool = True) -> Cuts:
    """Return what to leave out of a PNG. Its checksums are not compared.

    Args:
        data: The file.
        codes: Whether to uncompress the pixels, to find data behind them.

    Raises:
        BrokenSegmentsError: A chunk is longer than the file, or has no valid name; or the pixels
            are not as many as the size of the image says.
    """
    found, header, seen, pixels = Cuts(), b"", set[bytes](), list[tuple[int, int]]()
    palette: tuple[int, int] | None = None
    for name, at, end in _chunks(data):
        content = data[at + 8 : min(end - 4, at + 1024)]
        again = name in seen
        seen.add(name)
        if name == b"IDAT":
            pixels.append((at, end))
        elif name == b"IHDR" or (name == b"PLTE" and header[9] == _INDEXED):
            if again or len(content) > 768 or (name == b"PLTE" and len(content) % 3):
                raise BrokenSegmentsError("has a damaged chunk")
            header = header or content
            palette = (at, end) if name == b"PLTE" else None
        elif name == b"iCCP" and not again:
            _look_at_profile(data, at, end, found)
        elif name == b"IEND":
            _cut_end(data, at, end, found)
        elif again or name not in _PLAIN or not _PLAIN[name](content):
            _cut_chunk(name, content, at, end, found)
    if codes:
        _cut_pixels(data, header, pixels, found)
        _cut_colours(data, palette, found)
    return found.ordered()


def _chunks(data: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Yield name, begin and end of each chunk, the last of which is IEND.

    Raises:
        BrokenSegmentsError: A chunk is longer than the file, or has no valid name.
    """
    at = 8
    if data[at : at + 8] != b"\0\0\0\x0dIHDR":
        raise BrokenSegmentsError("has a damaged header")
    for _ in range(MAX_SEGMENTS):
        name, end = data[at + 4 : at + 8], at + 12 + int.from_bytes(data[at : at + 4], "big")
        if end > len(data) or not _NAME.fullmatch(name):
            raise BrokenSegmentsError("has a damaged or missing chunk")
        yield name, at, end
        if name == b"IEND":
            return
        at = end
    raise BrokenSegmentsError("has too many chunks")


def _cut_end(data: bytes, at: int, end: int, found: Cuts) -> None:
    """Cut the content of the last chunk, and the data behind it."""
    if end - at > 12:
        found.cut(at, end, OTHER, _chunk(b"IEND", b""))
    if end < len(data):
        found.cut(end, len(data), BEHIND)


def _cut_chunk(name: bytes, content: bytes, at: int, end: int, found: Cuts) -> None:
    kind = _KINDS.get(name, OTHER)
    texts = (kind for text, kind in _KEYWORDS if content.startswith(text))
    found.cut(at, end, next(texts, kind) if kind == TEXT else kind)


def _most(content: bytes, size: int) -> int:
    """Return the largest of some numbers of as many bytes."""
    return max(
        int.from_bytes(content[at : at + size], "big") for at in range(0, len(content), size)
    )


def _cut_pixels(data: bytes, header: bytes, chunks: Sequence[tuple[int, int]], found: Cuts) -> None:
    """Cut the data behind the last row of pixels.

    Raises:
        BrokenSegmentsError: There are fewer rows than the header says, or they are damaged.
    """
    stored = b"".join(data[begin + 8 : end - 4] for begin, end in chunks)
    kept = _rows(stored, _pixel_bytes(header))
    if kept != stored:
        (begin, end), *others = chunks
        found.cut(begin, end, BEHIND, _chunk(b"IDAT", kept))
        for begin, end in others:
            found.cut(begin, end)


def _rows(stored: bytes, expected: int) -> bytes:
    """Return compressed rows without the data behind them; they stay as they are if there are none.

    Raises:
        BrokenSegmentsError: They are fewer bytes than expected, or cannot be uncompressed.
    """
    unpacker, count, rest = zlib.decompressobj(), 0, stored
    try:
        while rest and not unpacker.eof and count <= expected:
            count += len(unpacker.decompress(rest, _PART))
            rest = unpacker.unconsumed_tail
        if count > expected:
            return zlib.compress(zlib.decompressobj().decompress(stored, expected))
    except zlib.error as error:
        raise BrokenSegmentsError("has damaged pixels") from error
    if count < expected or not unpacker.eof:
        raise BrokenSegmentsError("has damaged pixels")
    return stored[: len(stored) - len(unpacker.unused_data)]


def _cut_colours(data: bytes, palette: tuple[int, int] | None, found: Cuts) -> None:
    """Make the colours of a palette that no pixel has black."""
    if palette:
        colours = data[palette[0] + 8 : palette[1] - 4]
        used = _used_colours(data, colours)
        if used != colours:
            found.cut(*palette, OTHER, _chunk(b"PLTE", used))


def _pixel_bytes(header: bytes) -> int:
    """Return the bytes of all rows before compression, each with its filter.

    Raises:
        BrokenSegmentsError: The header is damaged.
    """
    width, height, depth, colours, *_, interlaced = struct.unpack(">IIBBBBB", header)
    if colours not in _CHANNELS or depth not in (1, 2, 4, 8, 16):
        raise BrokenSegmentsError("has a damaged header")
    bits = depth * _CHANNELS[colours]
    passes = _PASSES if interlaced else ((0, 0, 1, 1),)
    total = 0
    for left, top, across, down in passes:
        columns, rows = -(-(width - left) // across), -(-(height - top) // down)
        if columns > 0 and rows > 0:
            total += rows * (1 + -(-columns * bits // 8))
    return total


def _used_colours(data: bytes, colours: bytes) -> bytes:
    """Return a palette in which the colours that no pixel has are black.

    Raises:
        BrokenSegmentsError: The pixels cannot be decoded.
    """
    # On damaged files Pillow may raise any exception of its parsers.
    try:
        with PngImageFile(io.BytesIO(data)) as image, bounded(image):
            counts = image.histogram() if image.mode in ("P", "1", "L") else []
    except Exception as error:
        raise BrokenSegmentsError("has damaged pixels") from error
    if len(counts) < len(colours) // 3 or image.mode != "P":
        return colours
    return b"".join(
        colours[3 * n : 3 * n + 3] if counts[n] else bytes(3) for n in range(len(colours) // 3)
    )


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
