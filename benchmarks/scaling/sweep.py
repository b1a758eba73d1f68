"""What a scaling sweep still has to measure, and its points as a table and a page. Pure."""

from collections.abc import Iterable, Sequence

from common.page.parts import Table
from common.page.plots import Series, plot
from jobs.planning.points import Point, alike, efficiency, span
from jobs.scaling.report import SweepPage

HEADS = ("ranks", "images/s", "range", "repeats", "efficiency")


def due(asked: Iterable[int], wanted: Point, points: Iterable[Point]) -> list[int]:
    """Return the numbers of ranks that are still to be measured, ascending.

    Args:
        asked: Numbers of ranks.
        wanted: A point with the configuration of the sweep.
        points: Points so far. One that failed is measured again.
    """
    done = {point.ranks for point in alike(points, wanted)}
    return sorted(set(asked) - done)


def rows(points: Sequence[Point]) -> list[list[str]]:
    """Return the cells of the points of one configuration."""
    found = []
    single = next((one for one in points if one.ranks == 1), None)
    for point in points:
        low, middle, high = span(point.rates)
        share = efficiency(point, single)
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
        sentences=(),
        failed=[f"{one.ranks} ranks, {one.at}: {one.problem}" for one in failed],
    )
