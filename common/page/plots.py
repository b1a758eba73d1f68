"""Plots over a count, such as nodes, as data for `plots.html`: lines with their ranges. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, log10
from typing import Final

WIDTH: Final = 360
HEIGHT: Final = 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 12, 10, 34
"""Space around the axes."""
_INSET: Final = 12
"""Space between an axis and the outermost marks."""
_COLOURS: Final = 8


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
class Line:
    """A series in a plot."""

    name: str
    colour: int
    marks: Sequence[Mark]
    measured: Sequence[tuple[float, float, str]]
    """Measured points: position and label."""

    @property
    def band(self) -> str:
        """Corners of the range's area."""
        upper = [f"{mark.x:.1f},{mark.top:.1f}" for mark in self.marks]
        lower = [f"{mark.x:.1f},{mark.bottom:.1f}" for mark in reversed(self.marks)]
        return " ".join([*upper, *lower])

    @property
    def path(self) -> str:
        return " ".join(f"{mark.x:.1f},{mark.y:.1f}" for mark in self.marks)


@dataclass(frozen=True)
class Plot:
    """A plot with two logarithmic axes."""

    title: str
    hint: str
    lines: Sequence[Line]
    axis: str
    """What is counted."""
    ticks_x: Sequence[tuple[float, str]]
    ticks_y: Sequence[tuple[float, str]]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = _LEFT
    right: int = WIDTH - _RIGHT
    bottom: int = HEIGHT - _BOTTOM


@dataclass(frozen=True)
class Series:
    """What one line shows."""

    name: str
    """The part before a comma decides the colour."""
    ranges: Sequence[tuple[int, tuple[float, float, float]]]
    """Counts, each with the low end, the middle and the high end."""
    points: Sequence[tuple[int, float]] = ()
    """Measured points."""


def plot(
    title: str, hint: str, axis: str, series: Sequence[Series], colours: Sequence[str] = ()
) -> Plot | None:
    """Lay out a plot; return None if there is nothing to show.

    Args:
        title: Title of the plot.
        hint: Unit and scale.
        axis: What is counted.
        series: What to show.
        colours: Names of series in the order of their colours; by default the order of `series`.
    """
    ranges = [values for one in series for _, values in one.ranges]
    if not ranges:
        return None
    names = list(colours or dict.fromkeys(one.name.partition(",")[0] for one in series))
    counts = sorted({count for one in series for count, _ in one.ranges})
    values = [value for each in ranges for value in each]
    values += [value for one in series for _, value in one.points]
    marks_y = _ticks(min(values), max(values))
    lowest, highest = min(marks_y[0], *values), max(marks_y[-1], *values)

    def across(count: int) -> float:
        inner = WIDTH - _LEFT - _RIGHT - 2 * _INSET
        whole = log10(counts[-1] / counts[0])
        share = log10(count / counts[0]) / whole if whole else 0.5
        return _LEFT + _INSET + share * inner

    def up(value: float) -> float:
        share = log10(value / lowest) / log10(highest / lowest)
        return HEIGHT - _BOTTOM - share * (HEIGHT - _TOP - _BOTTOM)

    lines = [
        Line(
            one.name,
            names.index(one.name.partition(",")[0]) % _COLOURS + 1,
            [
                Mark(
                    across(count),
                    up(middle),
                    up(high),
                    up(low),
                    _label(one.name, axis, count, middle),
                )
                for count, (low, middle, high) in one.ranges
            ],
            [
                (across(count), up(value), _label("measured", axis, count, value))
                for count, value in one.points
                if count in counts
            ],
        )
        for one in series
    ]
    ticks_x = [(across(count), str(count)) for count in counts]
    return Plot(title, hint, lines, axis, ticks_x, [(up(tick), _short(tick)) for tick in marks_y])


def _label(name: str, axis: str, count: int, value: float) -> str:
    return f"{name}, {axis} {count}: {value:,.4g}"


def _ticks(low: float, high: float) -> list[float]:
    """Return round values (1, 2, 5 and their tenfold) that enclose a range."""
    begin = floor(log10(low))
    every = [step * 10.0**power for power in range(begin, begin + 8) for step in (1, 2, 5)]
    first = max(index for index, value in enumerate(every) if value <= low)
    last = min(index for index, value in enumerate(every) if value >= high)
    return every[first : max(last, first + 1) + 1]


def _short(value: float) -> str:
    return f"{value / 1000:g}k" if value >= 1000 else f"{value:g}"
