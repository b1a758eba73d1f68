"""The segments of a JPEG (ITU-T T.81, annex B)."""

import contextlib
import io
import re
import struct
import threading
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PIL.JpegImagePlugin import JpegImageFile

from trainer.data.intake.colour_profile import colours_only
from trainer.data.intake.jpeg.tables import Frame, Tables, read_frame
from trainer.data.intake.segments import (
    BEHIND,
    COMMENT,
    EXIF,
    FURTHER,
    IPTC,
    MAX_SEGMENTS,
    OTHER,
    PROFILE,
    PROFILE_TEXT,
    THUMBNAIL,
    XMP,
    BrokenSegmentsError,
    Cuts,
)
from trainer.data.pixels.treatment import bounded

_SCAN_END: Final = re.compile(rb"\xff[^\x00\xff\xd0-\xd7]")
"""A marker that is not part of entropy-coded data."""
_WINDOW: Final = 1 << 17
"""Bytes of entropy-coded data that are searched at once: they fit into the cache of a core."""


class _Scratch(threading.local):
    """Memory of a thread for a window. If each image got its own, its pages would be returned to
    the system each time.
    """

    def __init__(self) -> None:
        self.marks: NDArray[np.bool_] = np.empty(_WINDOW, bool)


_scratch: Final = _Scratch()
_HEAD: Final = struct.Struct(">BBH")
"""The head of a segment: 0xFF, the marker, and a length that includes itself."""
_MARKER: Final = re.compile(rb"\xff[^\x00\xff]")
_START, _END, _SCAN = 0xD8, 0xD9, 0xDA
_ALONE: Final = frozenset({0x01, *range(0xD0, 0xD8)})
"""Markers without a length."""
_FRAMES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_MCU_ROWS: Final = 32
"""Rows of pixels of the largest MCU."""
_JFIF, _ADOBE, _ICC = b"JFIF\0", b"Adobe", b"ICC_PROFILE\0"
_JFIF_BYTES, _ADOBE_BYTES = 14, 12
"""Bytes of the content of a JFIF segment without a thumbnail, and of Adobe's, which says how
colours are transformed."""
_SQUARE: Final = b"\0\0\1\0\1"
"""Densities that say only that pixels are square."""
_ADOBE_VERSION: Final = b"\0\x64\0\0\0\0"
"""Version and flags, which no decoder reads, as libjpeg writes them."""
_KINDS: Final = (
    (0xE0, b"JFXX\0", THUMBNAIL),
    (0xE1, b"Exif\0", EXIF),
    (0xE1, b"http://ns.adobe.com/x", XMP),
    (0xE2, b"MPF\0", FURTHER),
    (0xED, b"Photoshop 3.0\0", IPTC),
    (0xFE, b"", COMMENT),
)
"""Kind of a segment by its marker and the first bytes of its content."""
_MAX_CHUNK: Final = 65_519
"""Most bytes of a colour profile in one segment."""


def cuts(data: bytes, *, codes: bool = True) -> Cuts:
    """Return what to leave out of a JPEG.

    Args:
        data: The file.
        codes: Whether to look behind the last coded block of each scan, which takes as long as
            decoding the image twice, and longer for images of several scans or with restarts.

    Raises:
        BrokenSegmentsError: A segment is longer than the file, or does not belong to a JPEG.
    """
    found, profile, at, size = Cuts(), _Profile(), 2, len(data)
    tables, frame, pixels = Tables(), None, _Pixels(data)
    for _ in range(MAX_SEGMENTS):
        first, marker, length = _HEAD.unpack_from(data, at) if at + 4 <= size else (0, 0, 0)
        if first != 0xFF or marker in (0x00, 0xFF):
            at = _next_marker(data, at, found)
            marker = data[at + 1]
            length = data[at + 2] << 8 | data[at + 3] if at + 4 <= size else 0
        if marker == _END:
            _cut_rest(data, at + 2, found)
            profile.close(found)
            tables.close(found)
            return found.ordered()
        if marker in _ALONE:
            found.cut(at, at + 2, OTHER)
            at += 2
            continue
        end = at + 2 + length
        if length < 2 or not at + 4 <= end <= size or marker == _START or marker < 0xC0:
            raise BrokenSegmentsError("has a damaged segment")
        if marker == _SCAN:
            at = _cut_scan(data, at, end, frame, tables, found, pixels, codes=codes)
            continue
        if marker in _FRAMES:
            frame = read_frame(marker, data[at + 4 : end], frame)
        elif marker in Tables.MARKERS:
            tables.add(data, at, end)
        else:
            _look_at(data, at, end, found, profile)
        at = end
    raise BrokenSegmentsError("has too many segments")


def _cut_scan(
    data: bytes,
    at: int,
    begin: int,
    frame: Frame | None,
    tables: Tables,
    found: Cuts,
    pixels: "_Pixels",
    *,
    codes: bool,
) -> int:
    """Cut the unneeded parts of a scan, of its header and behind its blocks; return its end.

    Args:
        data: The file.
        at: Offset of the header.
        begin: Offset of the entropy-coded data.
        frame: The frame.
        tables: The tables so far, in which those that the scan uses are marked.
        found: The cuts.
        pixels: The decoded image.
        codes: See `cuts`.

    Raises:
        BrokenSegmentsError: There is no frame, or the scan does not fit it.
    """
    if frame is None:
        raise BrokenSegmentsError("has pixels before their size")
    end = _scan_end(data, begin)
    scan, header = frame.scan(data[at + 4 : begin], tables)
    if scan is None:
        found.cut(at, end, OTHER)
        return end
    if header != data[at + 4 : begin]:
        found.cut(at, begin, OTHER, _segment(_SCAN, header))
    if not codes:
        return end
    alone = frame.complete and not frame.progressive and len(frame.components) == len(scan.dc)
    # To follow refinements takes longer than to decode the image.
    slow = frame.progressive and scan.high and scan.begin
    if (alone or slow) and not scan.restart and pixels.need_last_byte(begin, end):
        frame.reader.skip(begin, end, scan)
        return end
    for first, last in frame.reader.surplus(data, begin, end, scan):
        found.cut(first, last, BEHIND if data[first:last].strip(b"\xff") else "")
    return end


class _Pixels:
    """The decoded pixels of a JPEG, with one byte or another."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def need_last_byte(self, begin: int, end: int) -> bool:
        """Return whether other pixels are decoded if the last byte of a scan without restarts
        differs. Then no byte is behind its last block. If not, only the codes can tell.
        """
        data, stuffed = self._data, self._data[end - 2 : end] == b"\xff\0"
        if end - begin < 4 or data[end - 1] == 0xFF:
            return False
        last = b"\0" if stuffed else bytes((data[end - 1] ^ 0xFF,))
        last = b"\xff\0" if last == b"\xff" else last
        # On damaged files Pillow may raise any exception of its parsers.
        with contextlib.suppress(Exception):
            return self._rows != _rows(data[: end - 1 - stuffed] + last + data[end:])
        return False

    @cached_property
    def _rows(self) -> bytes:
        return _rows(self._data)


def _rows(data: bytes) -> bytes:
    """Decode an image, and return the rows of its last blocks; all if it has several scans, because
    a code of theirs may be of many blocks.
    """
    # Not Image.open, which looks for further images.
    with JpegImageFile(io.BytesIO(data)) as image, bounded(image):
        (width, height), first = image.size, 0
        if "progressive" not in image.info:
            first = max(height - _MCU_ROWS, 0)
        return image.crop((0, first, width, height)).tobytes()


def _next_marker(data: bytes, at: int, found: Cuts) -> int:
    """Return where the next marker is, and cut the bytes before it, which decoders skip.

    Raises:
        BrokenSegmentsError: There is none.
    """
    match = _MARKER.search(data, at)
    if match is None:
        raise BrokenSegmentsError("has no end marker")
    if match.start() > at:
        padding = not data[at : match.start()].strip(b"\xff")
        found.cut(at, match.start(), "" if padding else OTHER)
    return match.start()


def _scan_end(data: bytes, at: int) -> int:
    """Return where the entropy-coded data that begin at an offset end, at a marker.

    Raises:
        BrokenSegmentsError: No marker follows.
    """
    # Two passes of NumPy take a fifth of the time of the regular expression, which is needed only
    # if there are restart markers.
    codes, last = np.frombuffer(data, np.uint8), len(data) - 1
    for begin in range(at, last, _WINDOW):
        end = min(begin + _WINDOW, last)
        marked = _scratch.marks[: end - begin]
        np.equal(codes[begin:end], 0xFF, out=marked)
        # True, which is 1, stays where a byte that is not 0 follows.
        np.minimum(marked.view(np.uint8), codes[begin + 1 : end + 1], out=marked.view(np.uint8))
        first = int(marked.argmax())
        if marked[first]:
            match = _SCAN_END.search(data, begin + first)
            if match:
                return match.start()
            break
    raise BrokenSegmentsError("has no end marker")


def _look_at(data: bytes, at: int, end: int, found: Cuts, profile: "_Profile") -> None:
    """Cut a segment that is not needed, or the part of it that is not."""
    marker, begin = data[at + 1], at + 4
    if marker == 0xE0 and data.startswith(_JFIF, begin) and end - begin >= _JFIF_BYTES:
        kept = _JFIF + _version(data[begin + 5 : begin + 7]) + _density(data[begin + 7 :][:5])
        kept += b"\0\0"
        if data[begin:end] != kept:
            thumbnail = any(data[begin + _JFIF_BYTES - 2 : begin + _JFIF_BYTES])
            found.cut(at, end, THUMBNAIL if thumbnail else OTHER, _segment(0xE0, kept))
    elif marker == 0xEE and data.startswith(_ADOBE, begin) and end - begin >= _ADOBE_BYTES:
        kept = _ADOBE + _ADOBE_VERSION + bytes((min(data[begin + 11], 2),))
        if data[begin:end] != kept:
            found.cut(at, end, OTHER, _segment(0xEE, kept))
    elif marker == 0xE2 and data.startswith(_ICC, begin):
        profile.add(len(found.parts), data[begin + len(_ICC) : end])
        found.cut(at, end)
    else:
        kinds = (kind for of, text, kind in _KINDS if of == marker and data.startswith(text, begin))
        found.cut(at, end, next(kinds, OTHER))


def _version(version: bytes) -> bytes:
    return version if version in (b"\1\0", b"\1\1", b"\1\2") else b"\1\1"


def _density(density: bytes) -> bytes:
    """Return unit and densities, unless they are so unusual that they could be a text."""
    plain = density[0] <= 2 and density[1:3] == density[3:5] and density[1] < 0x20
    return density if plain else _SQUARE


def _cut_rest(data: bytes, end: int, found: Cuts) -> None:
    if end < len(data):
        # Cameras append a second image, or a film.
        kind = FURTHER if data.startswith(b"\xff\xd8\xff", end) else BEHIND
        found.cut(end, len(data), kind)


def _segment(marker: int, content: bytes) -> bytes:
    return bytes((0xFF, marker)) + (len(content) + 2).to_bytes(2, "big") + content


class _Profile:
    """A colour profile, whose parts may be in several segments (ICC.1:2022, annex B.4)."""

    def __init__(self) -> None:
        self._places: list[int] = []
        self._chunks: dict[int, bytes] = {}
        self._count = 0

    def add(self, place: int, content: bytes) -> None:
        """Add the content of a segment, given its place among the parts that are cut."""
        self._places.append(place)
        if len(content) > 2:
            self._count = content[1]
            self._chunks.setdefault(content[0], content[2:])

    def close(self, found: Cuts) -> None:
        """Put the profile without its texts where its first segment is."""
        if not self._places:
            return
        numbers = sorted(self._chunks)
        whole = b"".join(self._chunks[number] for number in numbers)
        valid = numbers == list(range(1, self._count + 1)) and len(numbers) == len(self._places)
        kept = colours_only(whole) if valid else None
        if kept == whole:
            # In the same segments as before.
            found.parts = [p for n, p in enumerate(found.parts) if n not in set(self._places)]
            return
        found.kinds.add(PROFILE if kept is None else PROFILE_TEXT)
        begin, end, _ = found.parts[self._places[0]]
        found.parts[self._places[0]] = begin, end, _as_segments(kept or b"")


def _as_segments(profile: bytes) -> bytes:
    chunks = [profile[at : at + _MAX_CHUNK] for at in range(0, len(profile), _MAX_CHUNK)]
    return b"".join(
        _segment(0xE2, _ICC + bytes((number, len(chunks))) + chunk)
        for number, chunk in enumerate(chunks, 1)
    )
