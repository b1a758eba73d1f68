"""A scaling measurement as a table, sentences and JSON. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from common.prices import UNKNOWN, money
from jobs.extras.scaling.measurement import Task
from jobs.throughput import Point, Span, alike, efficiency, ends, words

HEADS: Final = (
    *("cluster", "nodes", "data", "images/s", "range", "repeats", "of one node", "of one GPU"),
    *("per million images", "predicted"),
)


@dataclass(frozen=True)
class Result:
    """A point that was measured, with what was expected of it."""

    task: Task
    point: Point
    one_node: Point | None
    """The point of one node with the same configuration; None if it was not measured."""

    @property
    def predicted(self) -> Span | None:
        return self.task.expected.images_per_s

    @property
    def place(self) -> str | None:
        """Where it lies in its prediction: below, inside or above; None without one."""
        if self.predicted is None:
            return None
        middle = self.point.middle
        if middle < self.predicted.low:
            return "below"
        return "above" if middle > self.predicted.high else "inside"

    @property
    def of_one_gpu(self) -> float | None:
        """Throughput in that of as many single GPUs as published."""
        single = self.task.expected.one_gpu
        return None if single is None else self.point.middle / (single * self.point.ranks)

    @property
    def per_million(self) -> float | None:
        """Cost of a million images in the currency of the price; None if that is not known."""
        price = self.task.price
        if price is None:
            return None
        return 1e6 / self.point.middle / 3600 * self.point.nodes * price.amount

    def document(self) -> dict[str, Any]:
        """Return the point for JSON output."""
        return {
            "cluster": self.task.series,
            "size": self.point.size,
            "nodes": self.point.nodes,
            "ranks": self.point.ranks,
            "data": self.point.data,
            "images_per_s": [round(rate, 3) for rate in Span.of(self.point.rates).values],
            "of_one_node": efficiency(self.point, self.one_node),
            "of_one_gpu": self.of_one_gpu,
            "cost_per_million_images": self.per_million,
            "predicted": ends(self.predicted),
            "place": self.place,
        }

    def row(self) -> list[str]:
        """Return the cells of the table."""
        rates, cost, price = Span.of(self.point.rates), self.per_million, self.task.price
        return [
            *(self.task.series, str(self.point.nodes), self.point.data, f"{rates.middle:,.1f}"),
            *(f"{rates.low:,.1f} - {rates.high:,.1f}", str(len(self.point.rates))),
            *(share(efficiency(self.point, self.one_node)), share(self.of_one_gpu)),
            UNKNOWN if cost is None or price is None else money(cost, price.currency),
            words(self.predicted),
        ]

    def sentences(self) -> list[str]:
        """Say in words what was unlike its prediction, or used although it was poor."""
        head, found = f"{self.task}: {self.point.middle:,.1f} images/s", []
        if self.place is None:
            found.append(f"{head}; nothing was predicted: {self.task.expected.reason}")
        elif self.place != "inside":
            predicted = words(self.predicted, "images/s")
            found.append(f"{head}, {self.place} the predicted {predicted}")
        poor = (self.point.environment or {}).get("used although")
        return [*found, *([f"{self.task}: used although {poor}"] if poor else [])]


@dataclass(frozen=True)
class Measured:
    """All points of a measurement that were asked for."""

    name: str
    stack: str
    results: tuple[Result, ...]
    unused: tuple[Point, ...]
    """Points of it that are marked or failed, and not yet measured well."""

    @classmethod
    def of(
        cls, name: str, stack: str, tasks: Iterable[Task], points: Sequence[Point]
    ) -> "Measured":
        """Return what was measured of some tasks so far."""
        results, unused = [], []
        for task in tasks:
            like = {one.nodes: one for one in alike(points, task.wanted)}
            if task.nodes in like:
                results.append(Result(task, like[task.nodes], like.get(1)))
            else:
                same = [one for one in points if one.nodes == task.nodes]
                unused += [one for one in same if one.is_like(task.wanted)][-1:]
        return cls(name, stack, tuple(results), tuple(unused))

    def document(self) -> dict[str, Any]:
        """Return the measurement for JSON output."""
        return {
            "name": self.name,
            "stack": self.stack,
            "points": [one.document() for one in self.results],
            "not_used": [
                {"size": one.size, "nodes": one.nodes, "data": one.data, "problem": one.problem}
                for one in self.unused
            ],
        }

    def sentences(self) -> list[str]:
        """Say in words what lies outside of its prediction, and what was used although poor."""
        found = [sentence for one in self.results for sentence in one.sentences()]
        places = [one.place for one in self.results if one.place]
        if places and all(place == "inside" for place in places):
            found.append("every point with a prediction lies inside of it")
        return found

    def not_used(self) -> list[str]:
        """Say which points were not used, and why."""
        return [
            f"{one.size}, nodes {one.nodes}, {one.data}, {one.at}: {one.problem}"
            for one in self.unused
        ]


def share(value: float | None) -> str:
    """Format a fraction in percent; `?` if it is not known."""
    return UNKNOWN if value is None else f"{value:.0%}"
