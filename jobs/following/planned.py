"""The plan of a run, stored with its jobs and compared with the outcome.

The plan is a tag of the job, so that it stays as it was when the run was submitted. Plan and
outcome count the time in which nodes train, without allocation and image pulls, as the estimate of
a cost does.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import inf
from typing import Literal, Self

from common.errors import ConfigError
from common.prices import Cost, money, total
from infra.catalog import vm_sizes
from jobs.planning import prices
from jobs.planning.back_test import published
from jobs.planning.forecast import Assumptions, Choice, Forecaster
from jobs.planning.points import Point
from jobs.planning.throughput import Throughput
from jobs.planning.values import words
from jobs.planning.workload import IMAGENET_GB, IMAGENET_IMAGES, read_workload
from jobs.spec.job_spec import JobSpec
from jobs.spec.tags import PLAN
from trainer.config import TrainConfig
from trainer.training.plan import Plan


@dataclass(frozen=True)
class Planned:
    """What was planned of a run."""

    node_hours: tuple[float, float, float]
    """Hours of training, added up over the nodes: low, middle, high."""
    cost: tuple[float, float, float] | None
    """Cost of these; None if no source states the price."""
    currency: str | None
    basis: str

    @classmethod
    def of(cls, choice: Choice, assumptions: Assumptions) -> Self | None:
        """Return the plan of a choice; None if it has none, or might never end."""
        if choice.hours is None or choice.hours.high == inf:
            return None
        start = assumptions.start_minutes / 60
        ends = choice.hours.low, choice.hours.middle, choice.hours.high
        hours = tuple(round((hours - start) * choice.nodes, 3) for hours in ends)
        price = choice.price
        if price is None:
            return cls(_three(hours), None, None, choice.basis)
        cost = _three(round(each * price.amount, 2) for each in hours)
        return cls(_three(hours), cost, price.currency, choice.basis)

    @classmethod
    def read(cls, tags: Mapping[str, str]) -> Self | None:
        """Read the plan of a job from its tags; None if it has none."""
        try:
            data = json.loads(tags[PLAN])
            cost = data["cost"]
            return cls(
                _three(data["node_hours"]),
                None if cost is None else _three(cost),
                data["currency"],
                str(data["basis"]),
            )
        except (KeyError, TypeError, ValueError):
            return None

    @property
    def tag(self) -> str:
        """The plan as the value of a tag."""
        return json.dumps(asdict(self), separators=(",", ":"))

    def place(self, node_seconds: float) -> Literal["below", "inside", "above"]:
        """Say where an outcome lies in the planned range of node hours."""
        low, _, high = self.node_hours
        hours = node_seconds / 3600
        return "below" if hours < low else "above" if hours > high else "inside"

    def beside(self, costs: Iterable[Cost], *, completed: bool) -> str:
        """Return plan and outcome in a sentence.

        Args:
            costs: Costs of the run's attempts.
            completed: Whether the run has completed; otherwise there is no outcome yet.
        """
        summed = total(costs)
        place = f", {self.place(summed.node_seconds)} the range" if completed else " so far"
        was = f"{summed.node_seconds / 3600:.2f} node hours{place}, {summed}"
        return f"planned: {self}; was: {was}"

    def __str__(self) -> str:
        low, middle, high = self.node_hours
        text = f"{middle:.2f} node hours ({low:.2f} - {high:.2f})"
        if self.cost and self.currency:
            first, cost, last = self.cost
            text += f", {money(cost, self.currency)} ({first:,.2f} - {last:,.2f})"
        return f"{text}, {self.basis}"


def with_plan(
    spec: JobSpec,
    config: TrainConfig | None,
    plan: Plan | None,
    region: str,
    measured: Sequence[Point] = (),
) -> tuple[JobSpec, str | None]:
    """Return a training with its plan as a tag, and the plan in a line.

    Args:
        spec: Job to submit.
        config: Configuration of the training; None for a check.
        plan: Sizes of the training; None if they are unknown.
        region: Azure region of the nodes.
        measured: Measured points, which are used instead of published ones for their VM size.

    Returns:
        The same job, and None, if nothing is known about such a training.
    """
    size = vm_sizes.find(spec.cluster.size)
    whole = plan is not None and plan.last_step == plan.total_steps
    if spec.kind != "train" or config is None or plan is None or not whole or size is None:
        return spec, None
    gigabytes = IMAGENET_GB * plan.examples / IMAGENET_IMAGES
    try:
        workload = read_workload(config, plan.examples, gigabytes)
    except ConfigError:
        return spec, None
    fit, ranges = published()
    assumptions = Assumptions()
    forecaster = Forecaster(
        workload, Throughput(workload, fit, ranges, measured), prices.known(region), assumptions
    )
    choice = forecaster.choice(size, spec.nodes, spec.cluster.priority)
    planned = Planned.of(choice, assumptions)
    if planned is None:
        return spec, None
    line = f"planned: {words(choice.images_per_s, 'images/s')}, {planned}"
    return replace(spec, tags={**spec.tags, PLAN: planned.tag}), line


def _three(values: Iterable[float]) -> tuple[float, float, float]:
    low, middle, high = map(float, values)
    return low, middle, high
