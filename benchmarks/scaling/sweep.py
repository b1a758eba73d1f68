"""What a scaling sweep still has to measure, and its points as a table and a page. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from common.page.parts import Page, Table
from common.page.plots import Plot, Series, plot
from jobs.planning.points import Point, span

HEADS = ("ranks", "images/s", "range", "repeats", "efficiency")


@dataclass(frozen=True, kw_only=True)
class SweepPage(Page):
    """The content of the page."""

    plots: Sequence[Plot]
    table: Table
    failed: Sequence[str]


def due(asked: Iterable[int], wanted: Point, points: Iterable[Point]) -> list[int]:
    """Return the numbers of ranks that are still to be measured, ascending.

    Args:
        asked: Numbers of ranks.
        wanted: A point with the configuration of the sweep.
        points: Points so far. One that failed is measured again.
    """
    done = {point.ranks for point in alike(points, wanted)}
    return sorted(set(asked) - done)


def alike(points: Iterable[Point], wanted: Point) -> list[Point]:
    """Return the usable points of a configuration, one for each number of ranks: the newest."""
    found = {
        point.ranks: point
        for point in points
        if point.usable and _configuration(point) == _configuration(wanted)
    }
    return [found[ranks] for ranks in sorted(found)]


def efficiency(point: Point, points: Sequence[Point]) -> float | None:
    """Return throughput in that of as many single ranks; None if one rank was not measured."""
    single = next((one for one in points if one.ranks == 1), None)
    return None if single is None else point.middle / (point.ranks * single.middle)


def rows(points: Sequence[Point]) -> list[list[str]]:
    """Return the cells of the points of one configuration."""
    found = []
    for point in points:
        low, middle, high = span(point.rates)
        share = efficiency(point, points)
        found.append(
            [
                *(str(point.ranks), f"{middle:,.1f}", f"{low:,.1f} - {high:,.1f}"),
                *(str(len(point.rates)), "?" if share is None else f"{share:.0%}"),
            ]
        )
    return found


def page_of(points: Sequence[Point], failed: Sequence[Point], machine: str) -> SweepPage:
    """Return the content of the page.

    Args:
        points: Points of one configuration.
        failed: Points of it that failed.
        machine: CPU and cores.
    """
    first = points[0]
    measured = Series("measured", [(one.ranks, span(one.rates)) for one in points])
    single = next((one.middle for one in points if one.ranks == 1), None)
    linear = [
        Series("linear", [(one.ranks, (single * one.ranks,) * 3) for one in points])
        for single in [single]
        if single is not None
    ]
    drawn = plot("Throughput", "images/s, median and range", "ranks", [measured, *linear])
    return SweepPage(
        title="Scaling of this machine",
        heading="Throughput by number of ranks",
        above="Scaling of this machine",
        lead=f"{first.model}, {first.image_size} pixels, {first.batch_per_rank} images a rank,"
        f" {first.precision}; {machine}",
        plots=[drawn] if drawn else [],
        table=Table("Median of the repeats", HEADS, rows(points)),
        failed=[f"{one.ranks} ranks, {one.at}: {one.problem}" for one in failed],
    )


def _configuration(point: Point) -> tuple[object, ...]:
    return (
        *(point.size, point.nodes, point.model, point.precision),
        *(point.batch_per_rank, point.image_size),
    )
