"""The page of a plan: one HTML file with throughput and cost over nodes, and the table."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import floor, inf, log10
from pathlib import Path
from typing import TYPE_CHECKING, Final

from common.files import write_atomically
from common.page.parts import Page
from common.page.render import render
from jobs.planning.forecast import Choice
from jobs.planning.values import Span, words

if TYPE_CHECKING:
    from jobs.planning.points import Point

WIDTH: Final = 360
HEIGHT: Final = 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 12, 10, 34
"""Space around the axes."""
_COLOURS: Final = 8


@dataclass(frozen=True)
class Mark:
    """A choice in a plot."""

    x: float
    y: float
    top: float
    """Upper end of its range."""
    bottom: float
    label: str


@dataclass(frozen=True)
class Line:
    """The choices of one size and priority in a plot."""

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
    """A plot over nodes, both axes logarithmic."""

    title: str
    hint: str
    lines: Sequence[Line]
    ticks_x: Sequence[tuple[float, str]]
    ticks_y: Sequence[tuple[float, str]]


@dataclass(frozen=True, kw_only=True)
class PlanPage(Page):
    """The content of the page."""

    plots: Sequence[Plot]
    advice: Sequence[tuple[str, str]]
    """Wishes, each with its answer."""
    heads: Sequence[str]
    rows: Sequence[Mapping[str, tuple[str, str]]]
    """Cells by column, each with its remark."""
    footer: Sequence[str]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = _LEFT
    right: int = WIDTH - _RIGHT
    bottom: int = HEIGHT - _BOTTOM


@dataclass(frozen=True)
class Series:
    """What one line shows: a range for each number of nodes."""

    name: str
    spans: Sequence[tuple[int, Span]]
    points: Sequence[tuple[int, float]] = ()


def write(path: Path, page: PlanPage) -> Path:
    """Write a page and return its path.

    Raises:
        OSError: The page cannot be written.
    """
    write_atomically(path, render("jobs.planning", "plan.html", page=page))
    return path


def throughput_series(choices: Iterable[Choice], points: Iterable["Point"]) -> list[Series]:
    """Return images/s over nodes by size. Pure. Priorities do not differ in it."""
    found: dict[str, dict[int, Span]] = {}
    for choice in choices:
        if choice.images_per_s is not None:
            name = choice.size.name
            found.setdefault(name, {})[choice.nodes] = choice.images_per_s
    measured = [point for point in points if point.usable]
    return [
        Series(
            name.removeprefix("Standard_"),
            sorted(spans.items()),
            [(one.nodes, one.middle) for one in measured if one.size.lower() == name.lower()],
        )
        for name, spans in found.items()
    ]


def cost_series(choices: Iterable[Choice]) -> list[Series]:
    """Return cost over nodes by size and priority, of choices whose price is known. Pure."""
    found: dict[str, dict[int, Span]] = {}
    for choice in choices:
        if choice.money is not None and choice.money.high < inf:
            spare = "" if choice.priority == "Dedicated" else f", {choice.priority}"
            name = f"{choice.size.name.removeprefix('Standard_')}{spare}"
            found.setdefault(name, {})[choice.nodes] = choice.money
    return [Series(name, sorted(spans.items())) for name, spans in found.items()]


def plot(title: str, hint: str, series: Sequence[Series], colours: Sequence[str]) -> Plot | None:
    """Lay out a plot; return None if there is nothing to show. Pure.

    Args:
        title: Title of the plot.
        hint: Unit and scale.
        series: What to show.
        colours: Names of sizes in the order of their colours.
    """
    spans = [span for one in series for _, span in one.spans]
    if not spans:
        return None
    counts = sorted({nodes for one in series for nodes, _ in one.spans})
    points = [rate for one in series for _, rate in one.points]
    lowest = min([*(span.low for span in spans), *points])
    highest = max([*(span.high for span in spans), *points])
    marks_y = _ticks(lowest, highest)
    bottom, top = min(marks_y[0], lowest), max(marks_y[-1], highest)

    def across(nodes: int) -> float:
        inner = WIDTH - _LEFT - _RIGHT - 24
        if len(counts) == 1:
            return _LEFT + 12 + inner / 2
        share = log10(nodes / counts[0]) / log10(counts[-1] / counts[0])
        return _LEFT + 12 + share * inner

    def up(value: float) -> float:
        share = log10(value / bottom) / log10(top / bottom) if top > bottom else 0.5
        return HEIGHT - _BOTTOM - share * (HEIGHT - _TOP - _BOTTOM)

    lines = []
    for one in series:
        size = one.name.partition(",")[0]
        marks = [
            Mark(
                across(nodes),
                up(span.middle),
                up(span.high),
                up(span.low),
                f"{one.name}, {nodes} nodes: {words(span)}",
            )
            for nodes, span in one.spans
        ]
        measured = [
            (across(nodes), up(rate), f"measured on {nodes} nodes: {rate:,.4g}")
            for nodes, rate in one.points
            if nodes in counts
        ]
        colour = colours.index(size) % _COLOURS + 1
        lines.append(Line(one.name, colour, marks, measured))
    return Plot(
        title,
        hint,
        lines,
        [(across(nodes), str(nodes)) for nodes in counts],
        [(up(value), _short(value)) for value in marks_y],
    )


def _ticks(low: float, high: float) -> list[float]:
    """Return round values (1, 2, 5 and their tenfold) that enclose a range."""
    begin = floor(log10(low))
    every = [step * 10.0**power for power in range(begin, begin + 8) for step in (1, 2, 5)]
    first = max(index for index, value in enumerate(every) if value <= low)
    last = min(index for index, value in enumerate(every) if value >= high)
    return every[first : max(last, first + 1) + 1]


def _short(value: float) -> str:
    return f"{value / 1000:g}k" if value >= 1000 else f"{value:g}"
