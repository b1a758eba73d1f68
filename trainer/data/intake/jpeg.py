"""The segments of a JPEG (ITU-T T.81, annex B)."""

import re
import struct
import threading
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trainer.data.intake.colour_profile import colours_only
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
_NEEDED: Final = frozenset({*range(0xC0, 0xD0), 0xDB, 0xDC, 0xDD}) - {0xC8}
"""Frames, tables of coefficients and of codes, numbers of lines, intervals between restarts."""
_JFIF, _ADOBE, _ICC = b"JFIF\0", b"Adobe", b"ICC_PROFILE\0"
_JFIF_BYTES, _ADOBE_BYTES = 14, 12
"""Bytes of the content of a JFIF segment without a thumbnail, and of Adobe's, which says how
colours are transformed."""
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


def cuts(data: bytes) -> Cuts:
    """Return what to leave out of a JPEG.

    Raises:
        BrokenSegmentsError: A segment is longer than the file, or is none of a JPEG's.
    """
    found, profile, at, size = Cuts(), _Profile(), 2, len(data)
    for _ in range(MAX_SEGMENTS):
        # One call for all bytes of a head: this loop takes a third of the time of all.
        first, marker, length = _HEAD.unpack_from(data, at) if at + 4 <= size else (0, 0, 0)
        if first != 0xFF or marker in (0x00, 0xFF):
            at = _next_marker(data, at, found)
            marker = data[at + 1]
            length = data[at + 2] << 8 | data[at + 3] if at + 4 <= size else 0
        if marker == _END:
            _cut_rest(data, at + 2, found)
            profile.close(found)
            return found
        if marker in _ALONE:
            at += 2
            continue
        end = at + 2 + length
        if not at + 4 <= end <= size or marker == _START or marker < 0xC0:
            raise BrokenSegmentsError("has a damaged segment")
        if marker == _SCAN:
            at = _scan_end(data, end)
            continue
        if marker not in _NEEDED:
            _look_at(data, at, end, found, profile)
        at = end
    raise BrokenSegmentsError("has too many segments")


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
        kept = data[begin : begin + _JFIF_BYTES - 2] + b"\0\0"
        if data[begin:end] != kept:
            thumbnail = any(data[begin + _JFIF_BYTES - 2 : begin + _JFIF_BYTES])
            found.cut(at, end, THUMBNAIL if thumbnail else OTHER, _segment(0xE0, kept))
    elif marker == 0xEE and data.startswith(_ADOBE, begin) and end - begin >= _ADOBE_BYTES:
        if end - begin > _ADOBE_BYTES:
            kept = data[begin : begin + _ADOBE_BYTES]
            found.cut(at, end, OTHER, _segment(0xEE, kept))
    elif marker == 0xE2 and data.startswith(_ICC, begin):
        profile.add(len(found.parts), data[begin + len(_ICC) : end])
        found.cut(at, end)
    else:
        kinds = (kind for of, text, kind in _KINDS if of == marker and data.startswith(text, begin))
        found.cut(at, end, next(kinds, OTHER))


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
