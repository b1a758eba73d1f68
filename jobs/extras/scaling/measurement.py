"""The points of a measurement, the jobs that measure them, and what a job measured. Pure."""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from common.errors import ConfigError
from common.prices import Cost, Price
from common.text import plural
from infra.outputs import Cluster, PlatformOutputs
from jobs import throughput
from jobs.spec.builder import find_cluster
from jobs.spec.kinds import DATA
from jobs.throughput import SYNTHETIC, Expected, Point, alike
from trainer.config import TrainConfig
from trainer.presets import to_args

STACK: Final = "stack"
"""What the environment of a point calls the stack that it was measured on."""
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
    node_hours: float
    """Hours of all nodes and attempts together, at most."""
    highest: Price | None = None
    """Highest price that a node can have, for Spot the pay-as-you-go price."""

    @property
    def nodes(self) -> int:
        return self.wanted.nodes

    @property
    def at_most(self) -> Cost:
        """What the point costs at most."""
        return Cost(self.node_hours * 3600, self.highest)

    def __str__(self) -> str:
        return f"{self.series}, {plural(self.nodes, 'node')}, {self.wanted.data}"


def wanted_points(
    outputs: PlatformOutputs,
    series: Sequence[str],
    nodes: Iterable[int],
    data: Sequence[str],
    config: TrainConfig,
    cpu_processes: int,
) -> list[tuple[str, Cluster, Point]]:
    """Return the points of a measurement without rates: by cluster, then ascending by nodes.

    Args:
        outputs: Outputs of the stack.
        series: Clusters by their names in the stack's settings; none is the usual one.
        nodes: Numbers of nodes.
        data: What is read: synthetic, or data sets as NAME:VERSION.
        config: Configuration of the run.
        cpu_processes: Processes of a node without GPUs.

    Raises:
        ConfigError: A cluster has fewer nodes, or is not for training.
        SpecError: There is no such cluster.
    """
    found, problems = [], []
    for name in dict.fromkeys(series or (None,)):
        cluster = find_cluster(outputs, name, "train")
        key = next(key for key, one in outputs.clusters.items() if one is cluster)
        if cluster.duty != "train":
            problems.append(f"--series: {key} has another role, {cluster.duty}")
        most = max(nodes)
        if most > cluster.max_nodes:
            problems.append(f"--nodes: {most}, but {key} has at most {cluster.max_nodes}")
        ranks = cluster.gpus_per_node // config.strategy.devices or cpu_processes
        found += [
            (key, cluster, throughput.wanted(config, cluster.size, count, count * ranks, one))
            for count in sorted(set(nodes))
            for one in data
        ]
    if problems:
        raise ConfigError(problems)
    return found


def due(tasks: Iterable[Task], points: Sequence[Point]) -> list[Task]:
    """Return the tasks without a usable point."""
    return [
        task
        for task in tasks
        if not any(one.nodes == task.nodes for one in alike(points, task.wanted))
    ]


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
        data: What is read.
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
    before = sum(one.nodes == task.nodes and one.is_like(task.wanted) for one in points)
    told = json.dumps([to_args(config), task.wanted.data, before])
    digest = hashlib.sha256(told.encode()).hexdigest()[:8]
    return f"{name}-{task.series}-{task.nodes}-{digest}"


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
    rates = tuple(float(line["images_per_second"]) for line in timed)
    last = starts[-1] if starts else {}
    told = dict(last.get("environment") or {})
    environment = {name: _text(value) for name, value in told.items()} | {
        **facts,
        "images/s of a rank": _text([line.get("images_per_second_per_rank") for line in timed]),
        "waiting for data, in percent": _text([line.get("data_wait_percent") for line in timed]),
        "starts": str(len(starts)),
    }
    ranks = int(last.get("ranks") or task.wanted.ranks)
    infiniband = told.get("nccl_infiniband") is True
    network = "InfiniBand" if infiniband else _network(told)
    poor = None if not rates else _poor(task, ranks, told, network)
    if poor is not None and even_if_poor:
        environment["used although"] = poor
        poor = None
    return replace(
        task.wanted,
        ranks=ranks,
        rates=rates,
        network=network if task.nodes > 1 else None,
        at=at,
        environment=environment,
        problem=poor if rates else "the job ended without a timed step",
    )


def _poor(task: Task, ranks: int, environment: Mapping[str, Any], network: str) -> str | None:
    """Return why rates are not those of the VM size; None if they are."""
    cluster = task.cluster
    if ranks != task.wanted.ranks:
        return f"{plural(ranks, 'rank')} instead of {task.wanted.ranks}"
    gpus = len(environment.get("gpus") or ())
    if cluster.gpus_per_node and gpus < task.nodes * cluster.gpus_per_node:
        return f"the ranks saw {gpus} of {task.nodes * cluster.gpus_per_node} GPUs"
    if task.nodes > 1 and cluster.infiniband and network != "InfiniBand":
        return f"the network was not InfiniBand, which {cluster.size} has: {network}"
    return None


def _network(environment: Mapping[str, Any]) -> str:
    """Return what the ranks said of their network."""
    known = (environment.get(name) for name in ("nccl_transport", "operations"))
    return str(next(filter(None, known), "the ranks said nothing of it"))


def _text(value: object) -> str:
    if isinstance(value, list | tuple):
        if value and all(isinstance(one, str) for one in value):
            return ", ".join(f"{count} x {name}" for name, count in Counter(value).items())
        return ", ".join(f"{one:.5g}" if isinstance(one, float) else str(one) for one in value)
    return str(value)
