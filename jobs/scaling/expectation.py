"""What a plan expects of the points of a sweep, and what measuring them costs at most. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from common.prices import Cost, NodePrices, Price, Total, total
from infra.catalog import vm_sizes
from jobs.planning.back_test import published
from jobs.planning.forecast import Assumptions, Forecaster
from jobs.planning.points import SYNTHETIC
from jobs.planning.throughput import Throughput
from jobs.planning.values import Span, ends
from jobs.planning.workload import Workload
from jobs.scaling.sweep import Task


@dataclass(frozen=True)
class Expectation:
    """What is expected of one point, before it is measured."""

    images_per_s: Span | None
    """Prediction from published measurements; None if there is none."""
    reason: str
    """Why there is none."""
    one_gpu: float | None
    """Images/s of one GPU that the prediction rests on."""
    price: Price | None
    """Of a node for an hour; None if no source states it."""
    node_hours: float
    """Hours of all nodes and attempts together, at most."""

    @property
    def at_most(self) -> Cost:
        """What the point costs at most."""
        return Cost(self.node_hours * 3600, self.price)

    def document(self) -> dict[str, Any]:
        """Return the expectation for JSON output."""
        amount = self.at_most.amount
        return {
            "images_per_s": ends(self.images_per_s),
            "node_hours_at_most": round(self.node_hours, 3),
            "cost_at_most": None if amount is None else round(amount, 2),
            "currency": self.price.currency if self.price else None,
        }


def expected(
    all_tasks: Iterable[Task],
    workload: Workload | None,
    prices: NodePrices,
    timeout_hours: float,
    attempts: int,
) -> dict[Task, Expectation]:
    """Return what is expected of each point.

    Args:
        all_tasks: The points.
        workload: The training; None if a plan refuses to predict it.
        prices: Prices of nodes.
        timeout_hours: Hours after which an attempt is cancelled.
        attempts: Most attempts of a point on low-priority nodes.
    """
    found = {}
    for task in all_tasks:
        cluster = task.cluster
        tries = attempts if cluster.priority == "LowPriority" else 1
        span, one_gpu, reason = _predicted(task, workload, prices)
        found[task] = Expectation(
            span,
            reason,
            one_gpu,
            prices.find(cluster.size, cluster.priority),
            timeout_hours * tries * task.nodes,
        )
    return found


def cost_at_most(of: Mapping[Task, Expectation], measured: Sequence[Task]) -> Total:
    """Return what measuring some of the points costs at most."""
    return total(of[task].at_most for task in measured)


def _predicted(
    task: Task, workload: Workload | None, prices: NodePrices
) -> tuple[Span | None, float | None, str]:
    size = vm_sizes.find(task.cluster.size)
    if workload is None:
        return None, None, "a plan does not predict such a training"
    if size is None or not size.gpus:
        return None, None, "a plan predicts nodes with GPUs alone"
    throughput = Throughput(workload, *published())
    rate = throughput.of(size, task.nodes)
    if isinstance(rate, str):
        return None, None, rate
    if task.wanted.data == SYNTHETIC:
        return rate.images_per_s, rate.one_gpu, ""
    # Data in storage brings the limits of the input.
    forecaster = Forecaster(workload, throughput, prices, Assumptions())
    choice = forecaster.choice(size, task.nodes, task.cluster.priority)
    return choice.images_per_s, rate.one_gpu, choice.reason
