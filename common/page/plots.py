"""Plots as drawings (SVG) for `plots.html`: curves, and ranges with measured points. Pure.

A plot is whole without a script. The script of `plots.js` tells the values below a pointer, and
enlarges a range of a plot of curves.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import ceil, floor, log10
from typing import Final, Literal

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
    """The part before a comma decides the colour."""
    ranges: Sequence[tuple[int, tuple[float, float, float]]]
    """Counts, each with the low end, the middle and the high end."""
    points: Sequence[tuple[int, float]] = ()
    """Measured points."""


@dataclass(frozen=True)
class Curve:
    """Values over steps, or whatever else is counted."""

    name: str
    points: Sequence[tuple[float, float, str]]
    """Count, value, and what else to tell of the count."""
    colour: int
    """Number of its colour in the palette, from 1."""
    marked: bool = False
    """Whether each point is marked, for values that are measured rarely."""
    label: str = ""
    """What the curve shows, if `name` does not say it: curves of one name are listed once."""
    dashes: str = ""
    """Lengths of dashes and gaps; empty for a solid line."""


@dataclass(frozen=True)
class Line:
    """A line of a plot, as it is drawn."""

    name: str
    colour: int
    marks: Sequence[Mark] = ()
    measured: Sequence[tuple[float, float, str]] = ()
    """Measured points: position and label."""
    path: str = ""
    band: str = ""
    """Corners of the range's area."""
    curve: Curve | None = None
    dots: Sequence[tuple[float, float]] = ()
    """Marked points of a curve."""

    @property
    def data(self) -> str:
        """The points of a curve for the script, as JSON."""
        return json.dumps(self.curve.points if self.curve else [])


@dataclass(frozen=True)
class Axis:
    """A linear or logarithmic axis."""

    low: float
    high: float
    length: float
    """In units of the drawing."""
    log: bool = False

    def at(self, value: float) -> float:
        """Return the position of a value, from the lower end."""
        low, high = self.low, self.high
        if self.log:
            value, low, high = log10(value), log10(low), log10(high)
        return self.length * ((value - low) / (high - low) if high > low else 0.5)

    @property
    def data(self) -> str:
        """The axis for the script, as JSON."""
        return json.dumps([self.low, self.high, self.log])


@dataclass(frozen=True)
class Plot:
    """A plot, as it is drawn."""

    title: str
    hint: str
    lines: Sequence[Line]
    axis: str
    """What is counted."""
    across: Axis
    up: Axis
    ticks_x: Sequence[tuple[float, str]]
    ticks_y: Sequence[tuple[float, str]]
    summary: str = "the table below has the same figures"
    """Description for those who do not see it."""
    id: str = ""
    starts: Sequence[tuple[float, str]] = ()
    """Vertical lines: positions and labels."""
    saved: Sequence[tuple[float, str]] = ()
    """Triangles on the axis: positions and labels."""
    form: str = ""
    unit: str = ""
    width: int = WIDTH
    height: int = HEIGHT
    left: int = _LEFT
    right: int = WIDTH - _RIGHT
    top: int = _TOP
    bottom: int = HEIGHT - _BOTTOM

    @property
    def names(self) -> Sequence[tuple[str, Line, bool]]:
        """The names of the lines, each with its first line and whether points of it are marked as
        measured."""
        return [
            (name, next(line for line in self.lines if line.name == name), any_measured)
            for name in dict.fromkeys(line.name for line in self.lines)
            for any_measured in [any(line.measured for line in self.lines if line.name == name)]
        ]


@dataclass(frozen=True)
class Scale:
    """How a plot of curves shows its values."""

    log: bool = False
    from_zero: bool = False
    form: Literal["", "percent"] = ""
    """How values are written."""
    unit: str = ""
    marks: Sequence[tuple[float, str]] = field(default=())
    """Counts to mark on the axis, with labels."""
    starts: Sequence[tuple[float, str]] = field(default=())
    """Counts to mark with a vertical line, with labels."""


def plot(
    title: str, hint: str, axis: str, series: Sequence[Series], colours: Sequence[str] = ()
) -> Plot | None:
    """Lay out values over counts with two logarithmic axes; return None if there is nothing to
    show.

    Args:
        title: Title of the plot.
        hint: Unit and scale.
        axis: What is counted.
        series: What to show.
        colours: Names of series in the order of their colours; by default the order of `series`.
    """
    values = [value for one in series for _, each in one.ranges for value in each]
    if not values:
        return None
    values += [value for one in series for _, value in one.points]
    names = list(colours or dict.fromkeys(one.name.partition(",")[0] for one in series))
    counts = sorted({count for one in series for count, _ in one.ranges})
    ticks = _enclosing(min(values), max(values))
    widened = (counts[-1] / counts[0]) ** _INSET
    across = Axis(counts[0] / widened, counts[-1] * widened, _inner_width(), log=True)
    up = Axis(min(ticks[0], *values), max(ticks[-1], *values), _inner_height(), log=True)

    def label(name: str, count: int, value: float) -> str:
        return f"{name}, {axis} {count}: {value:,.4g}"

    lines = []
    for one in series:
        marks = [
            Mark(
                across.at(count),
                *(up.length - up.at(value) for value in (middle, high, low)),
                label(one.name, count, middle),
            )
            for count, (low, middle, high) in one.ranges
        ]
        lines.append(
            Line(
                one.name,
                names.index(one.name.partition(",")[0]) % COLOURS + 1,
                marks,
                [
                    (across.at(n), up.length - up.at(value), label("measured", n, value))
                    for n, value in one.points
                    if n in counts
                ],
                _joined((mark.x, mark.y) for mark in marks),
                _joined(
                    [
                        *((mark.x, mark.top) for mark in marks),
                        *((mark.x, mark.bottom) for mark in reversed(marks)),
                    ]
                ),
            )
        )
    return Plot(
        title,
        hint,
        lines,
        axis,
        across,
        up,
        [(_LEFT + across.at(count), str(count)) for count in counts],
        [(HEIGHT - _BOTTOM - up.at(tick), _short(tick)) for tick in ticks],
    )


def curves(
    id: str,
    title: str,
    hint: str,
    axis: str,
    shown: Sequence[Curve],
    scale: Scale = Scale(),
    *,
    summary: str = "",
) -> Plot | None:
    """Lay out curves over a linear axis; return None if there is nothing to show.

    Args:
        id: Identifier in the page.
        title: Title of the plot.
        hint: How to read it, in one line.
        axis: What is counted.
        shown: The curves. A logarithmic scale leaves out values that are not positive.
        scale: How values are shown.
        summary: Description for those who do not see the plot.
    """
    points = {
        number: [p for p in curve.points if not scale.log or p[1] > 0]
        for number, curve in enumerate(shown)
    }
    values = [y for each in points.values() for _, y, _ in each]
    if not values:
        return None
    farthest = max(x for each in points.values() for x, _, _ in each)
    across = Axis(0, (1 + _INSET / 2) * max(farthest, 1), _inner_width())
    up, ticks = _vertical(values, scale)
    lines = []
    for number, curve in enumerate(shown):
        placed = [(across.at(x), up.length - up.at(y)) for x, y, _ in points[number]]
        if placed:
            dots = placed if curve.marked or len(placed) == 1 else []
            lines.append(
                Line(curve.name, curve.colour, path=_joined(placed), curve=curve, dots=dots)
            )
    steps = [tick for tick in _round(0, across.high, 6) if tick <= across.high]
    return Plot(
        title,
        hint,
        lines,
        axis,
        across,
        up,
        [(_LEFT + across.at(tick), _short(tick)) for tick in steps],
        [(HEIGHT - _BOTTOM - up.at(tick), _written(tick, scale)) for tick in ticks],
        summary,
        id,
        [(across.at(count), label) for count, label in scale.starts],
        [(across.at(count), label) for count, label in scale.marks],
        scale.form,
        scale.unit,
    )


def _vertical(values: Sequence[float], scale: Scale) -> tuple[Axis, list[float]]:
    """Return the axis of values, and its ticks."""
    low, high = min(values), max(values)
    if scale.log:
        ticks = _enclosing(low, high)
        return Axis(min(ticks[0], low), max(ticks[-1], high), _inner_height(), log=True), ticks
    spread = high - low or abs(high) or 1.0
    low, high = low - _INSET * spread, high + _INSET * spread
    if scale.from_zero:
        low = min(low, 0.0) if min(values) < 0 else 0.0
    ticks = [tick for tick in _round(low, high, 6) if low <= tick <= high]
    return Axis(low, high, _inner_height()), ticks


def _round(low: float, high: float, most: int) -> list[float]:
    """Return at most about `most` round values (1, 2, 5 and their tenfold apart) in a range."""
    rough = (high - low) / most
    power = 10.0 ** floor(log10(rough))
    distance = next(step * power for step in (1, 2, 5, 10) if step * power >= rough * 0.999)
    return [round(n * distance, 12) for n in range(ceil(low / distance), floor(high / distance) + 1)]


def _enclosing(low: float, high: float) -> list[float]:
    """Return round values (1, 2, 5 and their tenfold, or fewer) that enclose a range."""
    begin, end = floor(log10(low)), ceil(log10(high)) + 1
    every = [step * 10.0**power for power in range(begin, end + 1) for step in (1, 2, 5)]
    first = max(index for index, value in enumerate(every) if value <= low)
    last = min(index for index, value in enumerate(every) if value >= high)
    ticks = every[first : max(last, first + 1) + 1]
    if len(ticks) <= _MOST_TICKS:
        return ticks
    apart = ceil((end - begin) / (_MOST_TICKS - 1))
    return [10.0**power for power in range(begin, end + apart, apart) if 10.0**power < 10 * high]


def _joined(points: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _written(value: float, scale: Scale) -> str:
    if scale.form == "percent":
        return f"{round(100 * value, 9):g}%"
    return f"{_short(value)}{scale.unit if scale.unit == ' %' else ''}"


def _short(value: float) -> str:
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def _inner_width() -> float:
    return WIDTH - _LEFT - _RIGHT


def _inner_height() -> float:
    return HEIGHT - _TOP - _BOTTOM
