"""Where the coded blocks of a JPEG's scan end (ITU-T T.81, annexes F and G).

Decoders skip the bytes between the last coded block and the next marker, so that anything could be
there. Only a decoder of the Huffman codes knows where that is. This one follows the codes without
computing a coefficient: a table of 16 bits has all codes that begin and end in them, so that a step
takes two or three codes at once.
"""

import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from trainer.data.intake.segments import BrokenSegmentsError

_RESTART: Final = re.compile(rb"\xff[\xd0-\xd7]")
_PART: Final = 1 << 18
"""Bytes whose windows are held at once: 16 bytes of memory for each."""
_MARGIN: Final = 1 << 15
"""Bytes behind them, more than the codes of one MCU can have: 10 blocks of 64 coefficients of at
most 32 bits, or the refinements of as many."""
_BITS: Final = 64
"""Factor of the coefficients in an entry of a table; the remainder is the number of bits."""
_END: Final = 1024
"""Added to the coefficients by an end of block."""
_INVALID: Final = 4096
"""Added to the coefficients by bits without a code."""

Table: TypeAlias = tuple[bytes, bytes]
"""Number of codes of each length from 1 to 16, and their symbols."""


@dataclass(frozen=True)
class Component:
    """A component of a frame."""

    across: int
    """Blocks in a row, if the component is alone in a scan."""
    down: int
    mcu: int
    """Blocks in an MCU of several components."""


@dataclass(frozen=True)
class Scan:
    """The header of a scan, and the tables before it."""

    components: tuple[int, ...]
    """Numbers of the components in the frame."""
    dc: tuple[Table | None, ...]
    """Table of each component; None if there is none."""
    ac: tuple[Table | None, ...]
    begin: int
    """First and last coefficient, and the bits of this scan and of the one before."""
    end: int
    high: int
    low: int
    restart: int
    """MCUs between two restarts; 0 without any."""


class _Codes(NamedTuple):
    """Entries by the next 16 bits: the number of bits, and `_BITS` times the coefficients."""

    several: memoryview
    """As many codes as end within the 16 bits."""
    single: memoryview
    """The first code, with the bits that follow it."""
    symbols: memoryview
    """Symbol of the first code; 256 if there is none."""
    lengths: memoryview
    """Bits of the first code, without those that follow it."""


class _EndedError(Exception):
    """The data end before the blocks."""


class ScanReader:
    """Follows the codes of the scans of a frame; remembers which coefficients are not 0, on which
    the length of refinements depends.
    """

    def __init__(self, components: Sequence[Component], mcus: int, *, progressive: bool) -> None:
        """Args:
        components: Components of the frame.
        mcus: Number of MCUs of several components.
        progressive: Whether coefficients come in several scans.
        """
        self._components, self._mcus, self._progressive = components, mcus, progressive
        self._nonzero: dict[int, list[int]] = {}
        self._skipped: list[tuple[int, int, Scan]] = []

    def skip(self, begin: int, end: int, scan: Scan) -> None:
        """Take note of a scan without following it; see `surplus`."""
        self._skipped.append((begin, end, scan))

    def surplus(self, data: bytes, begin: int, end: int, scan: Scan) -> Iterator[tuple[int, int]]:
        """Yield the ranges of bytes behind the last coded block of each interval of restarts.

        Args:
            data: The file.
            begin: Offset of the first entropy-coded byte.
            end: Offset of the marker that follows.
            scan: What to expect.

        Raises:
            BrokenSegmentsError: Bits have no code, or there are more restarts than blocks.
        """
        if scan.high and scan.begin:
            # The length of refinements depends on all scans before.
            skipped, self._skipped = self._skipped, []
            for first, last, before in skipped:
                deque(self._surplus(data, first, last, before), 0)
        yield from self._surplus(data, begin, end, scan)

    def _surplus(self, data: bytes, begin: int, end: int, scan: Scan) -> Iterator[tuple[int, int]]:
        units, left = self._units(scan), None
        at, work = begin, self._blocks(scan)
        count = scan.restart or units
        done = 0
        for stop, after in _intervals(data, begin, end, scan.restart):
            part = data[at:stop]
            if b"\xff\xff" in part:
                raise BrokenSegmentsError("has fill bytes among its pixels")
            if done >= units:
                # All blocks are there: libjpeg skips the rest up to a marker of another kind.
                yield left if left is not None else at, end
                return
            plain = part.replace(b"\xff\x00", b"\xff")
            todo = min(count, units - done)
            try:
                used = (work(_Window(plain), done, todo) + 7) // 8
            except _EndedError:
                used = len(plain)
            done += todo
            # A stuffed byte follows each 0xFF.
            stuffed = min(used + plain.count(b"\xff", 0, used), len(part))
            if stuffed < len(part):
                yield at + stuffed, stop
            at, left = after, stop

    def _units(self, scan: Scan) -> int:
        """Return the number of MCUs of a scan."""
        if len(scan.components) > 1:
            return self._mcus
        alone = self._components[scan.components[0]]
        return alone.across * alone.down

    def _blocks(self, scan: Scan) -> Any:
        """Return the function that follows some MCUs: of a window, the first MCU, and how many; it
        returns the bits that they have.
        """
        dc, ac = [_codes(t, dc=True) for t in scan.dc], [_codes(t, dc=False) for t in scan.ac]
        if not self._progressive:
            pattern = self._pattern(scan)
            return lambda window, _, count: _sequential(
                window, count, [(dc[n], ac[n]) for n in pattern]
            )
        if scan.begin == 0:
            pattern = self._pattern(scan)
            if scan.high:
                return lambda window, _, count: _counted(window, count * len(pattern))
            return lambda window, _, count: _first_dc(window, count, [dc[n] for n in pattern])
        number = scan.components[0]
        nonzero = self._nonzero.get(number)
        if nonzero is None:
            alone = self._components[number]
            nonzero = self._nonzero[number] = [0] * (alone.across * alone.down)
        follow = _refined_ac if scan.high else _first_ac
        return lambda window, first, count: follow(
            window, nonzero, first, count, ac[0], scan.begin, scan.end
        )

    def _pattern(self, scan: Scan) -> list[int]:
        """Return the component, by its number in the scan, of each block of an MCU."""
        if len(scan.components) == 1:
            return [0]
        return [n for n, c in enumerate(scan.components) for _ in range(self._components[c].mcu)]


def _intervals(data: bytes, begin: int, end: int, restart: int) -> Iterator[tuple[int, int]]:
    """Yield where entropy-coded bytes end, and where the next ones begin."""
    for match in _RESTART.finditer(data, begin, end):
        if not restart:
            raise BrokenSegmentsError("has restarts that it does not announce")
        yield match.start(), match.end()
    yield end, end


class _Window:
    """The next 16 bits from each bit of some bytes, a part at a time."""

    def __init__(self, plain: bytes) -> None:
        self._plain, self._first = plain, 0
        self.total = 8 * len(plain)
        self.bits, self.limit = self._part()

    def _part(self) -> tuple[Any, int]:
        """Return the windows from the current byte on, and the first bit at which the next part is
        needed.
        """
        size = _PART + _MARGIN
        part = self._plain[self._first : self._first + size]
        last = self._first + len(part) >= len(self._plain)
        # Zeros behind the end, so that no code leads out.
        codes = np.frombuffer(part + bytes(_MARGIN + 2 if last else 2), np.uint8).astype(np.uint32)
        three = codes[:-2] << 16 | codes[1:-1] << 8 | codes[2:]
        windows = np.empty((len(three), 8), np.uint16)
        for shift in range(8):
            windows[:, shift] = three >> (8 - shift)
        limit = 8 * len(part) if last else 8 * _PART
        return windows.reshape(-1).data, limit

    def moved(self, at: int) -> int:
        """Continue with the next part, at a bit of this one from its limit on; return the bit in
        it.

        Raises:
            _EndedError: There is none.
        """
        if self._first + at // 8 >= len(self._plain) and self._first * 8 + at > self.total:
            raise _EndedError
        if self._first * 8 + at == self.total:
            return at
        self._first += at // 8
        self.bits, self.limit = self._part()
        return at % 8

    def used(self, at: int) -> int:
        """Return the bits before a bit of this part.

        Raises:
            _EndedError: It is behind the end.
        """
        if self._first * 8 + at > self.total:
            raise _EndedError
        return self._first * 8 + at


def _sequential(window: _Window, count: int, pattern: Sequence[tuple[Any, Any]]) -> int:
    bits, limit, at = window.bits, window.limit, 0
    tables = [(dc.single, ac.several, ac.single) for dc, ac in pattern]
    for _ in range(count):
        if at >= limit:
            at = window.moved(at)
            bits, limit = window.bits, window.limit
        for dc, several, single in tables:
            at += dc[bits[at]]
            begin, k = at, 1
            while k < 64:
                entry = several[bits[at]]
                at += entry & 63
                k += entry >> 6
            if k != 64 and not _END < k < _END + 64:
                # A code behind the last coefficient was taken as well, or one is invalid.
                at, k = begin, 1
                while k < 64:
                    entry = single[bits[at]]
                    at += entry & 63
                    k += entry >> 6
                if k >= _INVALID:
                    window.used(at + 16)
                    raise BrokenSegmentsError("has damaged pixels")
    return window.used(at)


def _first_dc(window: _Window, count: int, pattern: Sequence[Any]) -> int:
    bits, limit, at = window.bits, window.limit, 0
    tables = [codes.single for codes in pattern]
    for _ in range(count):
        if at >= limit:
            at = window.moved(at)
            bits, limit = window.bits, window.limit
        for table in tables:
            at += table[bits[at]]
    return window.used(at)


def _counted(window: _Window, count: int) -> int:
    if count > window.total:
        raise _EndedError
    return count


def _first_ac(
    window: _Window, nonzero: list[int], first: int, count: int, codes: Any, begin: int, end: int
) -> int:
    bits, limit, at, run = window.bits, window.limit, 0, 0
    symbols, lengths = codes.symbols, codes.lengths
    for number in range(first, first + count):
        if run:
            run -= 1
            continue
        if at >= limit:
            at = window.moved(at)
            bits, limit = window.bits, window.limit
        k, refined = begin, 0
        while k <= end:
            next_bits = bits[at]
            symbol, size = symbols[next_bits], symbols[next_bits] & 15
            at += lengths[next_bits]
            zeros = symbol >> 4
            if size:
                k += zeros
                refined |= 1 << k
                at += size
                k += 1
            elif zeros == 15:
                k += 16
            elif zeros > 15:
                window.used(at + 16)
                raise BrokenSegmentsError("has damaged pixels")
            else:
                run = (1 << zeros) - 1 + (bits[at] >> 16 - zeros)
                at += zeros
                break
        nonzero[number] |= refined
    return window.used(at)


def _refined_ac(
    window: _Window, nonzero: list[int], first: int, count: int, codes: Any, begin: int, end: int
) -> int:
    bits, limit, at, run = window.bits, window.limit, 0, 0
    symbols, lengths = codes.symbols, codes.lengths
    whole = (1 << end + 1) - (1 << begin)
    for number in range(first, first + count):
        if at >= limit:
            at = window.moved(at)
            bits, limit = window.bits, window.limit
        known = nonzero[number]
        if run:
            run -= 1
            at += (known & whole).bit_count()
            continue
        k = begin
        while k <= end:
            next_bits = bits[at]
            symbol = symbols[next_bits]
            at += lengths[next_bits]
            zeros = symbol >> 4
            if symbol > 255:
                window.used(at + 16)
                raise BrokenSegmentsError("has damaged pixels")
            if symbol & 15:
                at += 1
            elif zeros < 15:
                run = (1 << zeros) - 1 + (bits[at] >> 16 - zeros)
                at += zeros + (known & whole & -(1 << k)).bit_count()
                break
            # As many zeros are passed, and one more, whose place the new coefficient has.
            free = ~known & whole & -(1 << k)
            for _ in range(zeros):
                free &= free - 1
            place = (free & -free).bit_length() - 1 if free else end + 1
            at += (known & whole & -(1 << k) & (1 << place) - 1).bit_count()
            if symbol & 15 and place <= end:
                nonzero[number] |= 1 << place
            k = place + 1
    return window.used(at)


@lru_cache(8)
def _codes(table: Table | None, *, dc: bool) -> _Codes | None:
    """Return the entries of a table; None without one."""
    if table is None:
        return None
    symbols, lengths = _first_codes(*table)
    known = symbols < 256
    if dc:
        bits = lengths + np.where(known, symbols & 15, 0)
        plain = np.where(known, bits, 0)
        return _Codes(*map(_view, (plain, plain, symbols, lengths)))
    size, run = symbols & 15, symbols >> 4
    ends = known & (size == 0) & (run < 15)
    steps = np.where(ends, _END, np.where(size > 0, run + 1, 16))
    bits = np.where(known, lengths + size, 0)
    steps = np.where(known, steps, _INVALID)
    single = (steps << 6) + bits
    return _Codes(*map(_view, (_several(bits, steps), single, symbols, lengths)))


def _view(entries: np.ndarray[Any, Any]) -> memoryview:
    """Return entries as something whose items are read faster than those of an array."""
    return entries.astype(np.int32).data


def _first_codes(counts: bytes, values: bytes) -> tuple[np.ndarray[Any, Any], ...]:
    """Return the symbol and the length of the code at the beginning of each 16 bits."""
    symbols, lengths = np.full(1 << 16, 256, np.int32), np.ones(1 << 16, np.int32)
    place, number = 0, 0
    for length, count in enumerate(counts, 1):
        for _ in range(count):
            width = 1 << 16 - length
            if place + width > 1 << 16:
                raise BrokenSegmentsError("has a damaged table of codes")
            symbols[place : place + width] = values[number]
            lengths[place : place + width] = length
            place, number = place + width, number + 1
    return symbols, lengths


def _several(bits: np.ndarray[Any, Any], steps: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return entries of as many codes as end within 16 bits; always the first one."""
    codes = np.arange(1 << 16, dtype=np.int32)
    taken, passed = bits.copy(), steps.copy()
    for _ in range(8):
        following = codes << np.minimum(taken, 16) & 0xFFFF
        more = bits[following]
        fits = (passed < _END) & (taken + more <= 16) & (steps[following] < _INVALID)
        if not fits.any():
            break
        taken = np.where(fits, taken + more, taken)
        passed = np.where(fits, passed + steps[following], passed)
    entries: np.ndarray[Any, Any] = (passed << 6) + taken
    return entries
