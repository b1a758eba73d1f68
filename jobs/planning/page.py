"""The page of a plan: one HTML file with throughput and cost over nodes, and the table."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path

from common.files import write_atomically
from common.page.parts import Page
from common.page.plots import Plot, Series
from common.page.render import render
from jobs.planning.forecast import Choice
from jobs.planning.points import Point
from jobs.planning.values import Span


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


def write(path: Path, page: PlanPage) -> Path:
    """Write a page and return its path.

    Raises:
        OSError: The page cannot be written.
    """
    write_atomically(path, render("jobs.planning", "plan.html", page=page))
    return path


def throughput_series(choices: Iterable[Choice], points: Iterable[Point]) -> list[Series]:
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
            _ranges(spans),
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
    return [Series(name, _ranges(spans)) for name, spans in found.items()]


def _ranges(spans: Mapping[int, Span]) -> list[tuple[int, tuple[float, float, float]]]:
    return [(nodes, (one.low, one.middle, one.high)) for nodes, one in sorted(spans.items())]
