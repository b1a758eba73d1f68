"""A picture of a simulated run on Spot nodes over time: nodes, work and cost."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rehearsal.capacity import Trace

_WIDTH: Final = 720
_LEFT: Final = 64
_PANEL: Final = 110
_GAP: Final = 44
_COLOURS: Final = ("#1f6fb2", "#c26a1b")


@dataclass(frozen=True)
class Phase:
    """What a run did in a step of the simulation."""

    hours: float
    nodes: int
    """Nodes that it trained on, or started on; 0 while it waited."""
    done: float
    """Share of the work that is done."""
    usd: float
    """Cost so far."""


def draw(trace: Trace, runs: Mapping[str, Sequence[Phase]]) -> str:
    """Return an SVG image with the nodes of the first run and what there was, and the work and the
    cost of all runs.
    """
    hours = max(phases[-1].hours for phases in runs.values())
    first = next(iter(runs.values()))
    usd = max(phases[-1].usd for phases in runs.values())
    own = zip(_COLOURS, runs.values(), strict=False)
    panels = [
        (
            "nodes: those that there are (grey), and those of the run (blue)",
            4.0,
            [
                (
                    "#c9ced6",
                    [(moment.hours, float(moment.nodes)) for moment in trace.moments],
                    True,
                ),
                (_COLOURS[0], [(one.hours, float(one.nodes)) for one in first], True),
            ],
        ),
        ("work done, %", 100.0, list(_lines(own, lambda one: 100 * one.done))),
        (
            "cost so far, USD",
            usd,
            list(_lines(zip(_COLOURS, runs.values(), strict=False), lambda one: one.usd)),
        ),
    ]
    height = len(panels) * (_PANEL + _GAP) + 50
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}"'
        ' font-family="sans-serif" font-size="12" role="img">',
        "<title>A simulated run on Spot nodes over time</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    for number, (title, top, series) in enumerate(panels):
        base = 26 + number * (_PANEL + _GAP) + _PANEL
        parts += _panel(title, top, series, base, hours)
    for number, (colour, name) in enumerate(zip(_COLOURS, runs, strict=False)):
        x = _LEFT + number * 240
        parts.append(
            f'<rect x="{x}" y="{height - 26}" width="14" height="4" fill="{colour}"/>'
            f'<text x="{x + 20}" y="{height - 20}" fill="#333">{name}</text>'
        )
    return "\n".join([*parts, "</svg>", ""])


Series = tuple[str, list[tuple[float, float]], bool]
"""Colour, points by hours, and whether values hold until the next point."""


def _lines(
    runs: Iterator[tuple[str, Sequence[Phase]]], value: Callable[[Phase], float]
) -> Iterator[Series]:
    for colour, phases in runs:
        # A point for each quarter of an hour suffices.
        yield colour, [(one.hours, value(one)) for one in [*phases[::15], phases[-1]]], False


def _panel(
    title: str, top: float, series: Sequence[Series], base: int, hours: float
) -> Iterator[str]:
    span = _WIDTH - _LEFT - 16

    def x(at: float) -> float:
        return _LEFT + span * min(at, hours) / hours

    def y(value: float) -> float:
        return base - _PANEL * value / top

    yield f'<text x="{_LEFT}" y="{base - _PANEL - 8}" fill="#333">{title}</text>'
    for value in (0.0, top / 2, top):
        yield (
            f'<path d="M{_LEFT} {y(value):.1f}H{_WIDTH - 16}" stroke="#e5e7eb"/>'
            f'<text x="{_LEFT - 8}" y="{y(value) + 4:.1f}" text-anchor="end" fill="#555">'
            f"{value:,.0f}</text>"
        )
    for colour, points, holds in series:
        steps = [f"M{x(points[0][0]):.1f} {y(points[0][1]):.1f}"]
        before = points[0][1]
        for at, value in points[1:]:
            if at > hours or (holds and value == before):
                continue
            steps.append(
                f"H{x(at):.1f}V{y(value):.1f}" if holds else f"L{x(at):.1f} {y(value):.1f}"
            )
            before = value
        if holds:
            steps.append(f"H{x(min(points[-1][0], hours)):.1f}")
        yield f'<path d="{"".join(steps)}" fill="none" stroke="{colour}" stroke-width="1.6"/>'
    ticks = range(0, int(hours) + 1, max(int(hours) // 8, 1))
    yield "".join(
        f'<text x="{x(tick):.1f}" y="{base + 16}" text-anchor="middle" fill="#555">{tick} h</text>'
        for tick in ticks
    )
