"""The frame of a JPEG, and the tables that its scans use (ITU-T T.81, annex B). Those that none
uses are cut: a table that no scan reads, or that another one replaces before, could be anything.
"""

import struct
from dataclasses import dataclass, field
from typing import ClassVar, Final

from trainer.data.intake.jpeg.scan import Component, Scan, ScanReader, Table
from trainer.data.intake.segments import OTHER, BrokenSegmentsError, Cuts

_QUANTIZATION, _CODES, _RESTART = 0xDB, 0xC4, 0xDD
_SEQUENTIAL: Final = (0xC0, 0xC1)
_PROGRESSIVE: Final = 0xC2
_MOST_MCU_BLOCKS: Final = 10


@dataclass
class _Piece:
    """One table in a segment."""

    begin: int
    end: int
    used: bool = False


class Tables:
    """The tables so far, by the places at which scans read them."""

    MARKERS: ClassVar = frozenset({_QUANTIZATION, _CODES, _RESTART})

    def __init__(self) -> None:
        self._segments: list[tuple[int, int, int, list[_Piece]]] = []
        self._current: dict[tuple[int, int], _Piece] = {}
        self._codes: dict[int, Table] = {}
        self._restart = 0

    def add(self, data: bytes, at: int, end: int) -> None:
        """Add the tables of a segment.

        Raises:
            BrokenSegmentsError: Its length is not that of its tables.
        """
        marker, begin, pieces = data[at + 1], at + 4, list[_Piece]()
        while begin < end:
            place = data[begin]
            if marker == _RESTART:
                place, size = 0, 2
                self._restart = int.from_bytes(data[begin : begin + 2], "big")
            elif marker == _QUANTIZATION:
                size, place = (129 if place >> 4 else 65), place & 15
            else:
                counts = data[begin + 1 : begin + 17]
                size = 17 + sum(counts)
                self._codes[place] = counts, data[begin + 17 : begin + size]
            if begin + size > end or (marker == _RESTART and end - begin != size):
                raise BrokenSegmentsError("has a damaged table")
            piece = _Piece(begin, begin + size)
            self._current[marker, place] = piece
            pieces.append(piece)
            begin += size
        self._segments.append((marker, at, end, pieces))

    def quantization(self, place: int) -> None:
        """Mark a table of quantization as used."""
        self._use(_QUANTIZATION, place)

    def codes(self, place: int) -> Table:
        """Return a table of codes, and mark it as used.

        Raises:
            BrokenSegmentsError: There is none.
        """
        self._use(_CODES, place)
        return self._codes[place]

    def restart(self) -> int:
        """Return the MCUs between two restarts, and mark the number as used; 0 without one."""
        if self._restart or (_RESTART, 0) in self._current:
            self._use(_RESTART, 0)
        return self._restart

    def _use(self, marker: int, place: int) -> None:
        if (marker, place) not in self._current:
            raise BrokenSegmentsError("lacks a table")
        self._current[marker, place].used = True

    def close(self, found: Cuts) -> None:
        """Cut the tables that were not used."""
        for marker, at, end, pieces in self._segments:
            if pieces and all(piece.used for piece in pieces):
                continue
            used = [piece for piece in pieces if piece.used]
            size = 2 + sum(piece.end - piece.begin for piece in used)
            at_first = at
            head = bytes((0xFF, marker)) + size.to_bytes(2, "big") if used else b""
            for piece in used:
                # The bytes between two tables that stay are replaced by nothing, the first by the
                # head of the segment.
                found.cut(at_first, piece.begin, OTHER, head)
                at_first, head = piece.end, b""
            found.cut(at_first, end, OTHER)


@dataclass
class Frame:
    """The header of a frame."""

    progressive: bool
    identifiers: bytes
    quantization: bytes
    """Place of the table of each component."""
    components: tuple[Component, ...]
    reader: ScanReader
    _scanned: dict[tuple[int, int], int] = field(default_factory=dict)
    """Lowest bit that is known of each coefficient, by component and number."""

    @property
    def complete(self) -> bool:
        """Whether each component was in a scan."""
        return all((n, 0) in self._scanned for n in range(len(self.components)))

    def scan(self, header: bytes, tables: Tables) -> tuple[Scan | None, bytes]:
        """Read the header of a scan, and mark the tables that it uses.

        Returns:
            The scan, or None if no decoder needs it, and the header as it should be.

        Raises:
            BrokenSegmentsError: It does not fit the frame.
        """
        count = header[0] if header else 0
        if not 1 <= count <= len(self.components) or len(header) != 4 + 2 * count:
            raise BrokenSegmentsError("has a damaged scan")
        numbers = [self.identifiers.find(header[1 + 2 * n]) for n in range(count)]
        places = [header[2 + 2 * n] for n in range(count)]
        if -1 in numbers or len(set(numbers)) < count:
            raise BrokenSegmentsError("has a damaged scan")
        blocks = sum(self.components[n].mcu for n in numbers)
        if count > 1 and blocks > _MOST_MCU_BLOCKS:
            raise BrokenSegmentsError("has a damaged scan")
        begin, end, bits = header[-3:] if self.progressive else (0, 63, 0)
        high, low = bits >> 4, bits & 15
        if self.progressive:
            self._check(numbers, begin, end, high, low)
        elif all((n, 0) in self._scanned for n in numbers):
            return None, header
        for number in numbers:
            if not any((number, k) in self._scanned for k in range(64)):
                tables.quantization(self.quantization[number])
            self._scanned.update({(number, k): low for k in range(begin, end + 1)})
        dc = begin == 0 and not high
        ac = end > 0
        scan = Scan(
            tuple(numbers),
            tuple(tables.codes(p >> 4) if dc else None for p in places),
            tuple(tables.codes(0x10 | p & 15) if ac else None for p in places),
            begin,
            end,
            high,
            low,
            tables.restart(),
        )
        return scan, header[:-3] + bytes((begin, end, bits))

    def _check(self, numbers: list[int], begin: int, end: int, high: int, low: int) -> None:
        """Check that a scan of several adds to the ones before.

        Raises:
            BrokenSegmentsError: It does not.
        """
        fits = begin <= end <= 63 and low <= 13
        fits &= end == 0 if begin == 0 else len(numbers) == 1
        fits &= high == 0 or high == low + 1
        for number in numbers:
            for k in range(begin, end + 1) if fits else ():
                fits &= self._scanned.get((number, k), 0 if not high else -1) == high
                fits &= bool(high) or (number, k) not in self._scanned
        if not fits:
            raise BrokenSegmentsError("has scans that do not follow each other")


def read_frame(marker: int, header: bytes, before: Frame | None) -> Frame:
    """Read the header of a frame.

    Raises:
        BrokenSegmentsError: It is damaged, or of a process that is not copied; or there was a frame
            before.
    """
    if before is not None:
        raise BrokenSegmentsError("has two sizes")
    if marker not in (*_SEQUENTIAL, _PROGRESSIVE):
        raise BrokenSegmentsError("is compressed in a way that is not copied")
    if len(header) < 6 or len(header) != 6 + 3 * header[5] or not 1 <= header[5] <= 4:
        raise BrokenSegmentsError("has a damaged size")
    height, width = struct.unpack(">HH", header[1:5])
    factors = [(f >> 4, f & 15) for f in header[7::3]]
    if not height or not width or any(not 1 <= n <= 4 for pair in factors for n in pair):
        raise BrokenSegmentsError("has a damaged size")
    identifiers = header[6::3]
    if len(set(identifiers)) < len(identifiers):
        raise BrokenSegmentsError("has a damaged size")
    across, down = max(h for h, _ in factors), max(v for _, v in factors)
    wide, high = -(-width // (8 * across)), -(-height // (8 * down))
    components = tuple(
        Component(-(-width * h // (8 * across)), -(-height * v // (8 * down)), h * v)
        for h, v in factors
    )
    progressive = marker == _PROGRESSIVE
    reader = ScanReader(components, wide * high, progressive=progressive)
    return Frame(progressive, identifiers, header[8::3], components, reader)
