"""Hours and cost of a run on a choice of nodes, by measured rows. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import Any, Final, Literal

from common.errors import ConfigError
from common.prices import NodePrices, Price
from infra.catalog import vm_sizes
from infra.catalog.vm_sizes import Size
from infra.outputs import Cluster
from jobs.extras.estimate.factors import Factor, Linear, nearest, published
from jobs.extras.estimate.rows import Row, gpu_type, own_rows, shipped, wanted_row
from jobs.extras.estimate.workload import Workload, decoding, decoding_ms
from jobs.throughput import SYNTHETIC, Expected, Point, Span, ends
from trainer.config import TrainConfig

EVALUATED: Final = 50_000
"""Images of an evaluation, each of which is assumed to take a third of a training step's time."""
_WITHOUT_BF16: Final = {"K80", "P40", "P100", "V100", "T4"}


@dataclass(frozen=True)
class Assumptions:
    """Figures that were never measured or published. All are printed with a plan."""

    start_minutes: float = 15.0
    """Until the first step: nodes are allocated and pull the image. Also after a pre-emption."""
    hours_between_losses: float = 4.0
    """Hours that one Spot node is held, on average."""


@dataclass(frozen=True)
class Estimate:
    """A size, a number of nodes and a priority, with time and cost of the run on them."""

    size: Size
    nodes: int
    priority: str
    steps: int | None = None
    """Steps of the run, as the trainer would take them."""
    epochs: float | None = None
    """Epochs that these are."""
    global_batch: int | None = None
    images_per_s: Span | None = None
    """None if nothing was measured."""
    hours: Span | None = None
    """From submission to the end; infinite if the run would never end."""
    price: Price | None = None
    """Of a node for an hour; None if no source states it."""
    cost: Span | None = None
    """By that price; the high end of Spot is by the pay-as-you-go price, which it may reach."""
    binds: Literal["GPU", "CPU", "?"] = "?"
    linear: Linear | None = None
    """The rows that it is based on."""
    factor: Factor | None = None
    """How far off the held-out rows of its class were."""
    reason: str = ""
    """Why something is not known."""
    advised_against: str | None = None
    """Why it is never recommended, although everything may be known."""

    @property
    def key(self) -> str:
        """Such as ND40rs_v2:4."""
        return f"{self.size.name.removeprefix('Standard_')}:{self.nodes}"

    @property
    def basis(self) -> str:
        """Measured by the user, published, or `?` if nothing was measured."""
        return self.linear.of_class[0] if self.linear else "?"

    @property
    def recommendable(self) -> bool:
        """Whether hours and cost are known and end, and nothing speaks against it."""
        return self.advised_against is None and self.cost is not None and self.cost.high < inf

    def document(self) -> dict[str, Any]:
        """Return the choice for JSON output; unknown and infinite figures are null."""
        linear, factor, price = self.linear, self.factor, self.price
        return {
            "size": self.size.name,
            "nodes": self.nodes,
            "priority": self.priority,
            "steps": self.steps,
            "epochs": self.epochs,
            "global_batch": self.global_batch,
            "images_per_s": ends(self.images_per_s),
            "hours": ends(self.hours),
            "node_price": price.amount if price else None,
            "currency": price.currency if price else None,
            "price_date": price.source.date if price else None,
            "cost": ends(self.cost, 2),
            "binds": self.binds,
            "basis": self.basis,
            "rests_on": linear.of_class[1] if linear else None,
            "factor": round(factor.off, 3) if factor else None,
            "rows": [str(row) for row in linear.rows] if linear else [],
            "reason": self.reason or None,
            "advised_against": self.advised_against,
        }


@dataclass(frozen=True)
class Forecaster:
    """Estimates choices for one run."""

    workload: Workload
    prices: NodePrices
    assumed: Assumptions = Assumptions()
    points: Sequence[Point] = ()
    """The points that the user has measured, oldest first."""

    @cached_property
    def _mine(self) -> list[Row]:
        return own_rows(self.points, self.workload.config)

    def rate(self, size: Size, nodes: int) -> tuple[Linear, Factor] | str:
        """Return images/s in proportion to the nearest rows, and the factor of their class, or why
        nothing is known. Measurements of the user win.
        """
        gpu, wanted = gpu_type(size.gpu or ""), wanted_row(self.workload.config, size, nodes)
        if wanted.precision == "bf16" and gpu in _WITHOUT_BF16:
            return f"the {gpu} has no unit for bfloat16"
        linear = nearest(self._mine, wanted) or nearest(shipped(), wanted)
        if linear is not None:
            return linear, published()[linear.of_class]
        if wanted.network == "TCP":
            return "measure two nodes: networks without InfiniBand differ too much"
        return (
            f"no row of {wanted.model} on a {gpu} with {wanted.framework}, {wanted.precision},"
            f" batch {wanted.batch_per_gpu}; measure it (jobs/extras/estimate/README.md)"
        )

    def choice(self, size: Size, nodes: int, priority: str) -> Estimate:
        """Estimate one choice."""
        workload, config = self.workload, self.workload.config
        gone = f"{size.name} is {size.status} since {size.since}" + (
            f"; use {size.replacement}" if size.replacement else ""
        )
        empty = Estimate(
            size, nodes, priority, advised_against=None if size.status == "deployable" else gone
        )
        if not size.gpus:
            return replace(empty, reason=f"{size.name} has no GPU")
        try:
            plan = workload.plan(size.gpus * nodes // config.strategy.devices)
        except ConfigError as error:
            return replace(empty, reason=error.problems[0])
        epochs = plan.epoch_of(plan.last_step)
        planned = replace(
            empty,
            steps=plan.last_step,
            epochs=epochs,
            global_batch=plan.global_batch,
            advised_against=empty.advised_against or workload.unpublished_batch(plan.global_batch),
        )
        rate = self.rate(size, nodes)
        if isinstance(rate, str):
            return replace(planned, reason=rate)
        linear, factor = rate
        middle = linear.images_per_s * factor.usual
        gpus = Span(middle / factor.off, middle, middle * factor.off)
        # Two vCPUs are one core with hyper-threads, or two: the ends of the range.
        cpus = size.vcpus / 2 * nodes / (decoding_ms(workload.data) / 1000)
        steady = Span(min(gpus.low, cpus), min(middle, cpus), min(gpus.high, 2 * cpus))
        every = config.evaluation.every_epochs
        evaluations = max(round(epochs / every), 1) if every else 0
        images = plan.last_step * plan.global_batch + evaluations * EVALUATED / 3
        train = Span(*(images / rate / 3600 for rate in reversed(steady.values)))
        if config.max_seconds:
            train = train.capped(config.max_seconds / 3600)
        hours = self._with_losses(train, steady.middle, nodes, priority)
        price = self.prices.find(size.name, priority)
        most = self.prices.highest(size.name, priority)
        return replace(
            planned,
            images_per_s=steady,
            hours=hours,
            price=price,
            cost=_cost(hours, nodes, price, most),
            binds="CPU" if steady.middle < middle else "GPU",
            linear=linear,
            factor=factor,
            reason="" if price else f"the price of {priority} in {self.prices.where} is not known",
        )

    def _with_losses(self, train: Span, rate: float, nodes: int, priority: str) -> Span:
        """Return the hours from submission to the end.

        Spot nodes are lost all at once, or each for itself: that is the range. A loss takes a
        start, which is billed, and half the time between two checkpoints.
        """
        start = self.assumed.start_minutes / 60
        if priority == "Dedicated":
            return train.shifted(start)
        back = start + min(self.workload.checkpoint_hours(rate), train.middle) / 2
        once = back / self.assumed.hours_between_losses
        lost = once, once * (1 + nodes) / 2, once * nodes
        pairs = zip(train.values, lost, strict=True)
        return Span(*(time / (1 - part) if part < 1 else inf for time, part in pairs)).shifted(
            start
        )

    def grounds(self, choice: Estimate) -> list[str]:
        """Return the basis of the figures of a choice, a line each."""
        linear, factor, price = choice.linear, choice.factor, choice.price
        lines = [f"{choice.key}, {choice.priority}: {choice.basis}"]
        if choice.reason:
            lines.append(f"?: {choice.reason}")
        if linear is None or factor is None or choice.images_per_s is None:
            return lines
        each, data = decoding_ms(self.workload.data), decoding()
        lines += [
            f"{choice.steps:,} steps of {choice.global_batch:,} images: {choice.epochs:.4g} epochs,"
            " as the trainer plans them (trainer/training/plan.py)",
            *(f"row: {row}" for row in linear.rows),
            f"{linear.images_per_s:,.0f} images/s in proportion to GPUs, x {factor.usual:.2f} as is"
            f" usual for rows of {linear.of_class[1]}, and a factor of {factor.off:.2f} both ways"
            f" ({factor.rows} held-out rows of {factor.publishers} publishers)",
            f"decoding: {each:.2f} ms an image on half of {choice.size.vcpus * choice.nodes} vCPUs,"
            f" at the high end on all; {data['source']}, {data['date']}",
        ]
        if price is not None:
            amount = f"{price.amount:g} {price.currency} an hour and node, {self.prices.where}"
            lines.append(f"price: {amount}; {price.source.title}, {price.source.date}:"
                         f" {price.source.url}")  # fmt: skip
        return lines


def _cost(hours: Span, nodes: int, price: Price | None, most: Price | None) -> Span | None:
    """Return the cost; its high end is by the highest price."""
    if price is None:
        return None
    high = max(price.amount, most.amount if most else 0.0)
    amounts = zip(hours.values, (price.amount, price.amount, high), strict=True)
    return Span(*(nodes * time * amount for time, amount in amounts))


def expected(config: TrainConfig, cluster: Cluster, nodes: int, data: str) -> Expected:
    """Return the throughput of a run on a cluster by published rows alone.

    Args:
        config: Configuration of the run.
        cluster: The cluster.
        nodes: Number of its nodes.
        data: synthetic, or the data set that is read, which brings the limit of decoding.
    """
    size = vm_sizes.find(cluster.size)
    if size is None or not size.gpus:
        return Expected(None, "a plan knows nodes with GPUs alone")
    forecaster = Forecaster(Workload(config), NodePrices())
    choice = forecaster.choice(size, nodes, cluster.priority)
    if choice.linear is None or choice.factor is None:
        return Expected(None, choice.reason)
    middle = choice.linear.images_per_s * choice.factor.usual
    if data == SYNTHETIC:
        off = choice.factor.off
        return Expected(Span(middle / off, middle, middle * off))
    return Expected(choice.images_per_s)
