"""Plots as drawings (SVG) for `plots.html`: lines with their ranges, and measured points. Pure.

A plot is whole without a script. The script of `plots.js` tells the values below a pointer,
enlarges a range, and hides lines.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import Final

WIDTH: Final = 360
HEIGHT: Final = 225
"""Size of a plot, in units of its drawing."""
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 12, 18, 34
"""Space around the axes."""
_INSET: Final = 0.04
"""Part of an axis that is left free at an end that is not zero."""
COLOURS: Final = 8
"""Colours of the palette, distinguishable with colour blindness; see style.css."""
_MOST_TICKS: Final = 7

Point = tuple[float, str]
"""Position in a drawing, or count, with a label."""


@dataclass(frozen=True)
class Mark:
    """A value in a plot, with its range."""

    x: float
    y: float
    top: float
    """Upper end of its range."""
    bottom: float
    label: str


@dataclass(frozen=True)
class Series:
    """Values over counts, with their ranges."""

    name: str
    """Several series may have one name; the part before a comma decides the colour."""
    ranges: Sequence[tuple[int, tuple[float, float, float]]]
    """Counts, each with the low end, the middle and the high end."""
    points: Sequence[tuple[int, float]] = ()
    """Measured points."""
    notes: Sequence[str] = ()
    """What else to tell of each count."""
    label: str = ""
    """What tells the series from others of its name."""
    colour: int = 0
    """Number of its colour in the palette, from 1; 0 is one by its name."""
    marked: bool = True
    """Whether each value is marked."""
    dashes: str = ""
    """Lengths of dashes and gaps; empty for a solid line."""


@dataclass(frozen=True)
class Line:
    """A series in a plot."""

    series: Series
    name: str
    colour: int
    marks: Sequence[Mark]
    measured: Sequence[tuple[float, float, str]]
    """Measured points: position and label."""

    @property
    def path(self) -> str:
        return _joined((mark.x, mark.y) for mark in self.marks)

    @property
    def band(self) -> str:
        """Corners of the range's area; empty if there is no range."""
        if all(mark.top == mark.bottom for mark in self.marks):
            return ""
        upper = [(mark.x, mark.top) for mark in self.marks]
        return _joined([*upper, *((mark.x, mark.bottom) for mark in reversed(self.marks))])

    @property
    def data(self) -> str:
        """Counts, values and notes for the script, as JSON."""
        notes = self.series.notes or [""] * len(self.series.ranges)
        each = zip(self.series.ranges, notes, strict=True)
        return json.dumps([(count, middle, note) for (count, (_, middle, _)), note in each])


@dataclass(frozen=True)
class Axis:
    """A linear or logarithmic axis."""

    low: float
    high: float
    length: float
    """In units of the drawing."""
    log: bool

    def at(self, value: float) -> float:
        """Return the position of a value, from the lower end."""
        low, high = self.low, self.high
        if self.log:
            value, low, high = log10(value), log10(low), log10(high)
        return self.length * ((value - low) / (high - low) if high > low else 0.5)


@dataclass(frozen=True)
class Scale:
    """How a plot shows its values."""

    log: bool = False
    from_zero: bool = False
    """Whether a linear axis begins at zero."""
    percent: bool = False
    """Whether fractions are written as percentages."""
    unit: str = ""
    """Unit, after a space, of the values that the script tells."""


LOGARITHMIC: Final = Scale(log=True)


@dataclass(frozen=True)
class Plot:
    """A plot, laid out."""

    title: str
    hint: str
    lines: Sequence[Line]
    axis: str
    """The things that are counted."""
    ticks_x: Sequence[Point]
    ticks_y: Sequence[Point]
    scale: Scale
    across: Axis
    up: Axis
    summary: str
    """Description for those who do not see it."""
    saved: Sequence[Point]
    """What to mark on the axis."""
    starts: Sequence[Point]
    """Where to draw a vertical line."""
    width: int = WIDTH
    height: int = HEIGHT
    left: int = _LEFT
    right: int = WIDTH - _RIGHT
    top: int = _TOP
    bottom: int = HEIGHT - _BOTTOM

    @property
    def legend(self) -> Mapping[str, tuple[int, bool]]:
        """Colour of each name, and whether measured points are marked."""
        return {line.name: (line.colour, bool(line.measured)) for line in self.lines}

    @property
    def data(self) -> str:
        """The axes for the script, as JSON."""
        axes = [(axis.low, axis.high, axis.log) for axis in (self.across, self.up)]
        return json.dumps([*axes, self.scale.percent, self.scale.unit])


def plot(
    title: str,
    hint: str,
    axis: str,
    series: Sequence[Series],
    colours: Sequence[str] = (),
    *,
    scale: Scale = LOGARITHMIC,
    from_zero: bool = False,
    summary: str = "the table below has the same figures",
    saved: Sequence[Point] = (),
    starts: Sequence[Point] = (),
) -> Plot | None:
    """Lay out a plot; return None if there is nothing to show.

    Args:
        title: Title of the plot.
        hint: How to read it, such as unit and scale.
        axis: Name of the values along the axis.
        series: Named values to plot. A logarithmic scale leaves out values that are not positive.
        colours: Names of series in the order of their colours; by default the order of `series`.
        scale: How values are shown.
        from_zero: Whether counts have a linear axis from zero, in place of a logarithmic one.
        summary: Description for those who do not see the plot.
        saved: Counts to mark on the axis, with labels.
        starts: Counts to mark by a vertical line, with labels.
    """
    shown = [[each for each in line.ranges if not scale.log or each[1][0] > 0] for line in series]
    values = [value for ranges in shown for _, each in ranges for value in each]
    if not values:
        return None
    values += [value for line in series for _, value in line.points]
    names = list(colours or dict.fromkeys(line.name.partition(",")[0] for line in series))
    counts = sorted({count for ranges in shown for count, _ in ranges})
    up, ticks = _vertical(values, scale)
    across, counted = _across(counts, from_zero=from_zero)

    def down(value: float) -> float:
        return up.length - up.at(value)

    def label(name: str, count: int, value: float) -> str:
        return f"{name}, {axis} {count}: {value:,.4g}"

    lines = [
        Line(
            line,
            line.name,
            line.colour or names.index(line.name.partition(",")[0]) % COLOURS + 1,
            [
                Mark(across.at(n), down(middle), down(high), down(low), label(line.name, n, middle))
                for n, (low, middle, high) in ranges
            ],
            [
                (across.at(n), down(value), label("measured", n, value))
                for n, value in line.points
                if n in counts
            ],
        )
        for line, ranges in zip(series, shown, strict=True)
        if ranges
    ]
    return Plot(
        title,
        hint,
        lines,
        axis,
        [(_LEFT + across.at(count), _short(count)) for count in counted],
        [(HEIGHT - _BOTTOM - up.at(tick), _written(tick, scale)) for tick in ticks],
        scale,
        across,
        up,
        summary,
        [(across.at(count), words) for count, words in saved],
        [(across.at(count), words) for count, words in starts],
    )


def _across(counts: Sequence[int], *, from_zero: bool) -> tuple[Axis, Sequence[float]]:
    """Return the axis of counts, and its ticks."""
    length = WIDTH - _LEFT - _RIGHT
    if from_zero:
        high = (1 + _INSET / 2) * max(counts[-1], 1)
        return Axis(0, high, length, log=False), _round(0, high)
    free = (counts[-1] / counts[0]) ** _INSET
    return Axis(counts[0] / free, counts[-1] * free, length, log=True), counts


def _vertical(values: Sequence[float], scale: Scale) -> tuple[Axis, Sequence[float]]:
    """Return the axis of values, and its ticks."""
    low, high, length = min(values), max(values), HEIGHT - _TOP - _BOTTOM
    if scale.log:
        ticks = _enclosing(low, high)
        return Axis(min(ticks[0], low), max(ticks[-1], high), length, log=True), ticks
    free = _INSET * (high - low or abs(high) or 1.0)
    low = 0.0 if scale.from_zero and low >= 0 else low - free
    return Axis(low, high + free, length, log=False), _round(low, high + free)


def _round(low: float, high: float) -> list[float]:
    """Return round values (1, 2, 5 and their tenfold apart) in a range."""
    rough = (high - low) / (_MOST_TICKS - 1)
    power = 10.0 ** floor(log10(rough))
    apart = next(step * power for step in (1, 2, 5, 10) if step * power >= rough * 0.999)
    return [round(n * apart, 12) for n in range(ceil(low / apart), floor(high / apart) + 1)]


def _enclosing(low: float, high: float) -> list[float]:
    """Return round values (1, 2, 5 and their tenfold, or only powers of ten) around a range."""
    begin, end = floor(log10(low)), ceil(log10(high)) + 1
    every = [step * 10.0**power for power in range(begin, end) for step in (1, 2, 5)]
    every.append(10.0**end)
    first = max(index for index, value in enumerate(every) if value <= low)
    last = min(index for index, value in enumerate(every) if value >= high)
    ticks = every[first : max(last, first + 1) + 1]
    if len(ticks) <= _MOST_TICKS:
        return ticks
    return [10.0**power for power in range(begin, end, ceil((end - begin) / _MOST_TICKS))]


def _joined(points: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _written(value: float, scale: Scale) -> str:
    if scale.percent:
        return f"{round(100 * value, 9):g}%"
    return f"{_short(value)}{scale.unit if scale.unit == ' %' else ''}"


def _short(value: float) -> str:
    size, letter = next(
        ((s, c) for s, c in ((1e9, "G"), (1e6, "M"), (1e3, "k")) if abs(value) >= s), (1, "")
    )
    return f"{value / size:g}{letter}"
