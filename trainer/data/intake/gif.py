"""The blocks of a GIF (version 89a). Standard library only."""

from typing import Final

from trainer.data.intake.segments import (
    BEHIND,
    COMMENT,
    MAX_SEGMENTS,
    OTHER,
    TEXT,
    XMP,
    BrokenSegmentsError,
    Cuts,
)

_LOOPS: Final = (b"NETSCAPE2.0", b"ANIMEXTS1.0")
"""Extensions that say how often an animation repeats."""
_LOOP_BYTES: Final = 5
"""Bytes of their content: a sub-block of 3 bytes, with its length, and the end."""


def cuts(data: bytes, *, codes: bool = True) -> Cuts:  # noqa: ARG001 - always encoded again
    """Return what to leave out of a GIF.

    Raises:
        BrokenSegmentsError: A block is longer than the file, or of no known kind.
    """
    found = Cuts()
    try:
        at = 13 + _palette(data[10])
        for _ in range(MAX_SEGMENTS):
            kind = data[at]
            if kind == 0x3B:
                if at + 1 < len(data):
                    found.cut(at + 1, len(data), BEHIND)
                return found
            if kind == 0x2C:
                at = _after_blocks(data, at + 11 + _palette(data[at + 9]))
            elif kind == 0x21:
                end = _after_blocks(data, at + 2)
                removed = _removed(data, at, end)
                if removed:
                    found.cut(at, end, removed)
                at = end
            else:
                break
    except IndexError:
        raise BrokenSegmentsError("ends before its last block") from None
    raise BrokenSegmentsError("has a damaged block")


def _palette(flags: int) -> int:
    """Return the bytes of the palette that a descriptor announces."""
    return 3 << (flags % 8 + 1) if flags & 0x80 else 0


def _after_blocks(data: bytes, at: int) -> int:
    """Return the end of some sub-blocks."""
    while data[at]:
        at += data[at] + 1
    return at + 1


def _removed(data: bytes, at: int, end: int) -> str:
    """Return the kind of an extension; empty if it stays."""
    label, content = data[at + 1], data[at + 3 : at + 14]
    if label == 0xF9 and end - at == 8:
        return ""
    if label == 0xFF and content in _LOOPS and end - at == 14 + _LOOP_BYTES:
        return ""
    if label == 0xFF and content == b"XMP DataXMP":
        return XMP
    return {0xFE: COMMENT, 0x01: TEXT}.get(label, OTHER)
