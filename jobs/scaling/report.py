"""A sweep as a table, sentences, JSON and the content of its page. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from common.page.parts import Page, Table
from common.page.plots import Plot, Series, plot
from common.prices import UNKNOWN, money
from jobs.planning.points import Point, alike, efficiency, have_one_configuration, span
from jobs.planning.values import Span, words
from jobs.scaling.expectation import Expectation
from jobs.scaling.sweep import Task

HEADS: Final = (
    *("cluster", "nodes", "data", "images/s", "range", "repeats", "of one node", "of one GPU"),
    *("per million images", "predicted"),
)
HEAD_WORDS: Final = (
    "images/s: median of the repeats; of one node: throughput of a rank in that on one measured"
    " node; of one GPU: in that of one GPU as published"
)


@dataclass(frozen=True, kw_only=True)
class SweepPage(Page):
    """The content of the page of a sweep, of this machine or of a stack."""

    plots: Sequence[Plot]
    table: Table
    sentences: Sequence[str]
    failed: Sequence[str]


@dataclass(frozen=True)
class Result:
    """A point of the sweep that was measured, with what was expected of it."""

    task: Task
    point: Point
    expected: Expectation
    one_node: Point | None
    """The point of one node with the same configuration; None if it was not measured."""

    @property
    def of_one_gpu(self) -> float | None:
        """Throughput in that of as many single GPUs as published."""
        single = self.expected.one_gpu
        return None if single is None else self.point.middle / (single * self.point.ranks)

    @property
    def per_million(self) -> float | None:
        """Cost of a million images in the currency of the price; None if that is not known."""
        price = self.expected.price
        if price is None:
            return None
        return 1e6 / self.point.middle / 3600 * self.point.nodes * price.amount


@dataclass(frozen=True)
class Sweep:
    """All points of a sweep that were asked for."""

    name: str
    stack: str
    training: str
    """The training in a line."""
    results: tuple[Result, ...]
    unused: tuple[Point, ...]
    """Points of it that are marked or failed, and not yet measured well."""

    def document(self) -> dict[str, Any]:
        """Return the sweep for JSON output."""
        return {
            "name": self.name,
            "stack": self.stack,
            "points": [
                {
                    "cluster": one.task.series,
                    "size": one.point.size,
                    "nodes": one.point.nodes,
                    "ranks": one.point.ranks,
                    "data": one.point.data,
                    "images_per_s": [round(rate, 3) for rate in span(one.point.rates)],
                    "of_one_node": efficiency(one.point, one.one_node),
                    "of_one_gpu": one.of_one_gpu,
                    "cost_per_million_images": one.per_million,
                    "predicted": one.expected.document()["images_per_s"],
                    "place": place(one),
                }
                for one in self.results
            ],
            "not_used": [
                {"size": one.size, "nodes": one.nodes, "data": one.data, "problem": one.problem}
                for one in self.unused
            ],
        }


def sweep_of(
    name: str,
    stack: str,
    training: str,
    expected: Mapping[Task, Expectation],
    points: Sequence[Point],
) -> Sweep:
    """Return the sweep of some points.

    Args:
        name: Name of the sweep.
        stack: Name of the stack.
        training: The training in a line.
        expected: The points that were asked for, with what is expected of each.
        points: What was measured so far.
    """
    results, unused = [], []
    for task, expectation in expected.items():
        like = {one.nodes: one for one in alike(points, task.wanted)}
        if task.nodes in like:
            results.append(Result(task, like[task.nodes], expectation, like.get(1)))
        else:
            unused += [
                one
                for one in points
                if one.nodes == task.nodes and have_one_configuration(one, task.wanted)
            ][-1:]
    return Sweep(name, stack, training, tuple(results), tuple(unused))


def place(result: Result) -> str | None:
    """Say where a measurement lies in its prediction: below, inside or above; None without one."""
    predicted, middle = result.expected.images_per_s, result.point.middle
    if predicted is None:
        return None
    return "below" if middle < predicted.low else "above" if middle > predicted.high else "inside"


def rows(results: Iterable[Result]) -> list[list[str]]:
    """Return the cells of measured points."""
    found = []
    for one in results:
        low, middle, high = span(one.point.rates)
        price, per_million = one.expected.price, one.per_million
        found.append(
            [
                *(one.task.series, str(one.point.nodes), one.point.data),
                *(f"{middle:,.1f}", f"{low:,.1f} - {high:,.1f}", str(len(one.point.rates))),
                _share(efficiency(one.point, one.one_node)),
                _share(one.of_one_gpu),
                UNKNOWN if per_million is None or price is None
                else money(per_million, price.currency),
                words(one.expected.images_per_s),
            ]
        )  # fmt: skip
    return found


def sentences(sweep: Sweep) -> list[str]:
    """Say in words what lies outside of its prediction, and what was not used."""
    found = []
    for one in sweep.results:
        where = place(one)
        head = f"{one.task}: {one.point.middle:,.1f} images/s"
        if where is None:
            found.append(f"{head}; nothing was predicted: {one.expected.reason}")
        elif where != "inside":
            predicted = words(one.expected.images_per_s, "images/s")
            found.append(f"{head}, {where} the predicted {predicted}")
        if one.point.environment and "used although" in one.point.environment:
            found.append(f"{one.task}: used although {one.point.environment['used although']}")
    if sweep.results and not any(place(one) in ("below", "above") for one in sweep.results):
        known = [one for one in sweep.results if place(one)]
        if known:
            found.append("every point with a prediction lies inside of it")
    return found


def not_used(sweep: Sweep) -> list[str]:
    """Say which points were not used, and why."""
    return [
        f"{one.size}, nodes {one.nodes}, {one.data}, {one.at}: {one.problem}"
        for one in sweep.unused
    ]


def page_of(sweep: Sweep) -> SweepPage:
    """Return the content of the page of a sweep."""
    return SweepPage(
        title=f"Scaling of {sweep.stack}",
        heading="Throughput by number of nodes",
        above=f"Scaling of {sweep.stack}, {sweep.name}",
        lead=sweep.training,
        plots=[drawn for drawn in _plots(sweep.results) if drawn is not None],
        table=Table(HEAD_WORDS, HEADS, rows(sweep.results)),
        sentences=sentences(sweep),
        failed=not_used(sweep),
    )


def _plots(results: Sequence[Result]) -> list[Plot | None]:
    groups: dict[str, list[Result]] = {}
    for one in results:
        groups.setdefault(f"{one.task.series}, {one.point.data}", []).append(one)
    names = list(dict.fromkeys(name.partition(",")[0] for name in groups))
    rates = [
        Series(
            name,
            [(one.point.nodes, _ends(one.expected.images_per_s, one.point)) for one in group],
            [(one.point.nodes, one.point.middle) for one in group],
        )
        for name, group in groups.items()
    ]
    costs = [
        Series(name, [(one.point.nodes, (cost, cost, cost)) for one, cost in known])
        for name, group in groups.items()
        if (known := [(one, one.per_million) for one in group if one.per_million is not None])
    ]
    currencies = {one.expected.price.currency for one in results if one.expected.price}
    return [
        plot("Throughput", "images/s, prediction and measured points", "nodes", rates, names),
        plot("Cost of a million images", ", ".join(currencies), "nodes", costs, names),
    ]


def _ends(predicted: Span | None, point: Point) -> tuple[float, float, float]:
    """Return the band behind a point: its prediction, or else its own range."""
    if predicted is None:
        return span(point.rates)
    return predicted.low, predicted.middle, predicted.high


def _share(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.0%}"
