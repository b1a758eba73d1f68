"""The points of a measurement, the jobs that measure them, and the table of their results.
Pure.
"""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from common.prices import UNKNOWN, Cost, Price, money
from common.text import plural
from infra.outputs import Cluster
from jobs.spec.kinds import DATA
from jobs.throughput import SYNTHETIC, Expected, Point, Span, alike, efficiency, ends, words
from trainer.config import TrainConfig
from trainer.presets import to_args

HEADS: Final = (
    *("cluster", "nodes", "data", "images/s", "range", "repeats", "of one node"),
    *("per million images", "predicted"),
)
STEPS_IF_UNKNOWN: Final = 50
"""Steps of a repeat, if nothing is known about the throughput."""
_LEAST_STEPS: Final = 5
_EPOCHS: Final = 100_000
"""More than any measurement reaches."""


@dataclass(frozen=True)
class Task:
    """A point that is to be measured."""

    series: str
    """The cluster, by its name in the stack's settings."""
    cluster: Cluster
    wanted: Point
    """The point without rates."""
    expected: Expected
    """Throughput that is expected of it."""
    price: Price | None
    """Of a node for an hour; None if no source states it."""
    at_most: Cost
    """The highest cost of the point."""

    @property
    def nodes(self) -> int:
        return self.wanted.nodes

    def __str__(self) -> str:
        return task_words(self.series, self.nodes, self.wanted.data)


def task_words(series: str, nodes: int, data: str) -> str:
    """Return which point is meant, in words."""
    return f"{series}, {plural(nodes, 'node')}, {data}"


def due(tasks: Iterable[Task], points: Sequence[Point]) -> list[Task]:
    """Return the tasks without a usable point."""
    return [task for task in tasks if task.nodes not in by_nodes(points, task)]


def by_nodes(points: Iterable[Point], task: Task) -> dict[int, Point]:
    """Return the usable points with the configuration of a task, by nodes."""
    return {point.nodes: point for point in alike(points, task.wanted)}


def steps_of_repeat(
    images_per_s: float | None, global_batch: int, seconds: float, repeat: int
) -> int:
    """Return the steps of one repeat, so that all of them take some seconds.

    Args:
        images_per_s: Expected throughput; None if nothing is known.
        global_batch: Images of a step, over all ranks.
        seconds: Seconds of all repeats together.
        repeat: Number of repeats.
    """
    if images_per_s is None:
        return STEPS_IF_UNKNOWN
    return max(math.ceil(seconds / repeat * images_per_s / global_batch), _LEAST_STEPS)


def benchmark_config(config: TrainConfig, steps: int, repeat: int, data: str) -> TrainConfig:
    """Return the configuration of a job that measures: as many steps for each repeat, after as many
    that are left out.

    Args:
        config: Configuration of the run.
        steps: Steps of a repeat.
        repeat: Number of repeats.
        data: The data set, or synthetic data.
    """
    source = (
        replace(config.data, source="synthetic", dir=None)
        if data == SYNTHETIC
        else replace(config.data, source="tfrecords", dir=DATA)
    )
    return replace(
        config.unobserved(),
        max_steps=steps * (repeat + 1),
        max_seconds=None,
        epochs=_EPOCHS,
        export=False,
        data=source,
        evaluation=replace(config.evaluation, every_epochs=0),
        checkpoint=replace(
            config.checkpoint,
            every_minutes=0.0,
            every_steps=0,
            every_epochs=0,
            keep_best=False,
            keep_every_steps=0,
        ),
        log=replace(config.log, every_steps=steps, report=False),
    )


def run_key(name: str, task: Task, config: TrainConfig, points: Iterable[Point]) -> str:
    """Return the key of the run that measures a point: the same until its job has ended, so that
    the job is found again, and another one afterwards if it could not be used.

    Args:
        name: Name of the measurement.
        task: The point.
        config: Configuration of the run, without what differs between points.
        points: Points so far.
    """
    before = len(_measured(points, task))
    identity = json.dumps([to_args(config), task.wanted.data, before])
    digest = hashlib.sha256(identity.encode()).hexdigest()[:8]
    return f"{name}-{task.series}-{task.nodes}-{digest}"


def _measured(points: Iterable[Point], task: Task) -> list[Point]:
    """Return the points of a task, usable or not."""
    return [point for point in points if point.nodes == task.nodes and point.is_like(task.wanted)]


def read_point(
    task: Task,
    lines: Sequence[Mapping[str, Any]],
    facts: Mapping[str, str],
    at: str,
    *,
    even_if_poor: bool = False,
) -> Point:
    """Return the point that a run has measured.

    Args:
        task: The point.
        lines: Events of the run, from its metrics.jsonl.
        facts: What else explains the rates, such as the image.
        at: Time in UTC as in ISO 8601.
        even_if_poor: Whether a point is used although its ranks or their network were not those of
            the VM size.
    """
    starts = [line for line in lines if line.get("event") == "start"]
    trained = [line for line in lines if line.get("event") == "train"]
    steps = min((int(line["step"]) for line in trained), default=0)
    begun = [int(line["step"]) for line in starts]
    timed = [
        line
        for line in trained
        if "images_per_second" in line
        # The first steps after a start warm up.
        and not any(first < int(line["step"]) <= first + steps for first in begun)
    ]
    last = starts[-1] if starts else {}
    seen = dict(last.get("environment") or {})
    environment = {name: _text(value) for name, value in seen.items()} | {
        **facts,
        "images/s of a rank": _text([line.get("images_per_second_per_rank") for line in timed]),
        "waiting for data, in percent": _text([line.get("data_wait_percent") for line in timed]),
        "starts": str(len(starts)),
    }
    ranks = int(last.get("ranks") or task.wanted.ranks)
    network = next(
        (str(seen[name]) for name in ("nccl_transport", "operations") if seen.get(name)),
        "the ranks said nothing of it",
    )
    network = "InfiniBand" if seen.get("nccl_infiniband") is True else network
    problem = "the job ended without a timed step"
    if timed:
        problem = _poor(task, ranks, len(seen.get("gpus") or ()), network)
        if problem and even_if_poor:
            environment["used although"], problem = problem, ""
    return replace(
        task.wanted,
        ranks=ranks,
        rates=tuple(float(line["images_per_second"]) for line in timed),
        network=network if task.nodes > 1 else None,
        at=at,
        environment=environment,
        problem=problem or None,
    )


def _poor(task: Task, ranks: int, gpus: int, network: str) -> str:
    """Return why rates are not those of the VM size; nothing if they are."""
    cluster = task.cluster
    if ranks != task.wanted.ranks:
        return f"{plural(ranks, 'rank')} instead of {task.wanted.ranks}"
    if gpus < task.nodes * cluster.gpus_per_node:
        return f"the ranks saw {gpus} of {task.nodes * cluster.gpus_per_node} GPUs"
    if task.nodes > 1 and cluster.infiniband and network != "InfiniBand":
        return f"the network was not InfiniBand, which {cluster.size} has: {network}"
    return ""


def _text(value: object) -> str:
    if not isinstance(value, list | tuple):
        return str(value)
    if value and all(isinstance(item, str) for item in value):
        return ", ".join(f"{count} x {name}" for name, count in Counter(value).items())
    return ", ".join(f"{item:.5g}" if isinstance(item, float) else str(item) for item in value)


def results(
    tasks: Iterable[Task], points: Sequence[Point]
) -> tuple[list[dict[str, Any]], list[Point]]:
    """Return the results of some tasks so far for JSON output, and the newest points of the
    others, which are marked or failed.
    """
    measured, unused = [], []
    for task in tasks:
        usable = by_nodes(points, task)
        if task.nodes in usable:
            measured.append(_result(task, usable[task.nodes], usable.get(1)))
        else:
            unused += _measured(points, task)[-1:]
    return measured, unused


def _result(task: Task, point: Point, one_node: Point | None) -> dict[str, Any]:
    price = task.price
    cost = price and 1e6 / point.middle / 3600 * point.nodes * price.amount
    return {
        "cluster": task.series,
        "size": point.size,
        "nodes": point.nodes,
        "ranks": point.ranks,
        "data": point.data,
        "repeats": len(point.rates),
        "images_per_s": [round(rate, 3) for rate in Span.of(point.rates).values],
        "of_one_node": efficiency(point, one_node),
        "cost_per_million_images": cost,
        "currency": price and price.currency,
        "predicted": ends(task.expected.images_per_s),
        "used_although": (point.environment or {}).get("used although"),
    }


def row(result: Mapping[str, Any]) -> list[str]:
    """Return the cells of a measured point in the table."""
    low, middle, high = (f"{rate:,.1f}" for rate in result["images_per_s"])
    cost, predicted = result["cost_per_million_images"], result["predicted"]
    return [
        *(result["cluster"], str(result["nodes"]), result["data"], middle, f"{low} - {high}"),
        *(str(result["repeats"]), share(result["of_one_node"])),
        UNKNOWN if cost is None else money(cost, result["currency"]),
        words(Span(*predicted) if predicted else None),
    ]


def share(value: float | None) -> str:
    """Format a fraction in percent; `?` if it is not known."""
    return UNKNOWN if value is None else f"{value:.0%}"
