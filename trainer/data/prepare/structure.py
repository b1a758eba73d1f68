"""What the bytes of a JPEG or a PNG say about it without a decoder. Standard library only."""

import zlib

_NO_FRAME = (0xC4, 0xC8, 0xCC)
"""Markers among those of frames that start something else."""


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
