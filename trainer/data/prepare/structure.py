"""What the bytes of a JPEG or a PNG say about it without a decoder. Standard library only."""

import zlib
from typing import NamedTuple

_NO_FRAME = (0xC4, 0xC8, 0xCC)
"""Markers among those of frames that start something else."""


class Frame(NamedTuple):
    """What the frame of a JPEG says."""

    process: int
    """See `jpeg_process`."""
    height: int
    width: int


def plain_jpeg(data: bytes) -> Frame | None:
    """The frame of a JPEG of 8 bits in grey or three colours, up to progressive ones, that says
    nothing of how it is turned; none if it is another, or anything about it is strange.
    """
    place, frame = 2, None
    while place + 10 <= len(data) and data[place] == 0xFF:
        marker, start = data[place + 1], place + 4
        if marker == 0xDA:
            return frame
        if 0xC0 <= marker <= 0xCF and marker not in _NO_FRAME:
            height = data[start + 1] << 8 | data[start + 2]
            width = data[start + 3] << 8 | data[start + 4]
            plain = marker <= 0xC2 and data[start] == 8 and data[start + 5] in (1, 3)
            if frame or not plain or not height or not width:
                return None
            frame = Frame(marker, height, width)
        elif marker == 0xE1 or marker < 0xC0:
            # EXIF or XMP, which may say how to turn it; or something that has no length.
            return None
        place += 2 + (data[place + 2] << 8 | data[place + 3])
    return None


def jpeg_process(data: bytes) -> int:
    """The marker that starts a JPEG's frame and names how it is encoded; 0 if there is none.

    ITU-T T.81, table B.1: 0xC0 is baseline, 0xC1 extended, 0xC2 progressive, 0xC3 lossless.
    """
    place = 2
    while place + 4 <= len(data):
        marker = data[place + 1]
        if data[place] != 0xFF or marker in (0x00, 0xFF):
            # Padding, or bytes without a meaning, which all decoders skip.
            place += 1
        elif 0xC0 <= marker <= 0xCF and marker not in _NO_FRAME:
            return marker
        else:
            place += 2 + int.from_bytes(data[place + 2 : place + 4], "big")
    return 0


def jpeg_ends(data: bytes) -> bool:
    """Whether the last bytes of a JPEG are its end; behind it there may be anything."""
    return data.endswith(b"\xff\xd9")


def png_is_whole(data: bytes) -> bool:
    """Whether a PNG has all its chunks, and each fits its checksum."""
    view, place = memoryview(data), 8
    while place + 12 <= len(data):
        end = place + 8 + int.from_bytes(view[place : place + 4], "big")
        if zlib.crc32(view[place + 4 : end]) != int.from_bytes(view[end : end + 4], "big"):
            return False
        if data[place + 4 : place + 8] == b"IEND":
            return True
        place = end + 4
    return False
