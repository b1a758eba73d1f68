"""What a choice of nodes would do: images/s, hours and money as ranges, with their grounds. Pure.

Every number of a forecast is a `Ground`: its value, the formula, and the source with its date.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, Final

from common.errors import ConfigError
from common.prices import NodePrices, Price
from infra.catalog.vm_sizes import Size
from jobs.extras.estimate.back_test import Score, scores
from jobs.extras.estimate.grounds import Basis, Ground
from jobs.extras.estimate.limits import epochs_from_storage, limited
from jobs.extras.estimate.rates import rate
from jobs.extras.estimate.workload import EPOCHS_SOURCE, Workload
from jobs.throughput import Point, Span, ends, words


@dataclass(frozen=True)
class Assumptions:
    """What was never measured or published. All of it is printed with a plan."""

    start_minutes: float = 15.0
    """Until the first step: nodes are allocated and pull the image. Also after a pre-emption."""
    start_source: str = "assumed"
    """Where that is from: measured on the stack, or assumed."""
    hours_between_losses: float = 4.0
    """Hours that one Spot node is held, on average."""
    other_hours_between_losses: tuple[float, ...] = (1.5, 23.0)
    """Others that are shown as well."""
    account_gbits: float = 50.0
    """What a storage account delivers in all, in Gbit/s."""
    evaluated_images: int = 50_000
    """Images of an evaluation, each of which takes a third of a training step's time."""


LOSSES_SOURCE: Final = (
    "no rate of Azure's Spot GPU nodes is published; one V100 of AWS was held 1.4 to 3.2 h"
    " and four nodes at once 2.7 to 22.9 h (skypilot-org/spot-traces, 2022-23)"
)


@dataclass(frozen=True)
class Choice:
    """A size, a number of nodes and a priority, with what they would do."""

    size: Size
    nodes: int
    priority: str
    steps: int | None = None
    """Steps of the run, as the trainer would take them."""
    epochs: float | None = None
    """Epochs that these are."""
    global_batch: int | None = None
    same_accuracy_epochs: float | None = None
    """Epochs to the recipe's accuracy at this global batch, by MLPerf; None if that is unknown."""
    images_per_s: Span | None = None
    efficiency: float | None = None
    """Throughput in that of as many single GPUs, in the middle."""
    hours: Span | None = None
    """From submission to the end; infinite if the run would never end."""
    lost: Span | None = None
    """Share of the time that pre-emptions take."""
    hours_by_losses: Mapping[float, Span] = field(default_factory=dict)
    """Hours for other times between losses."""
    price: Price | None = None
    """Of a node for an hour, of Spot at its date; None if no source states it."""
    money: Span | None = None
    """By that price; the high end of Spot is by the pay-as-you-go price, which it may reach."""
    money_at_most: float | None = None
    """Upper bound, if the price of Spot is not known but the pay-as-you-go price is."""
    binds: str = "?"
    basis: Basis = "?"
    score: Score | None = None
    """How past predictions of its class fared; None if there are none."""
    class_name: str = ""
    reason: str = ""
    """Why something is not known."""
    advised_against: str | None = None
    """Why it is never recommended, although everything may be known."""
    notes: tuple[str, ...] = ()
    grounds: tuple[Ground, ...] = ()

    @property
    def key(self) -> str:
        """Such as ND40rs_v2:4."""
        return f"{self.size.name.removeprefix('Standard_')}:{self.nodes}"

    @property
    def recommendable(self) -> bool:
        """Whether throughput, price and end are known, and nothing speaks against it."""
        known = self.money is not None and self.money.high < inf
        return known and self.advised_against is None

    @property
    def risk(self) -> str:
        """How often the range of its class held what it had not seen, in words."""
        if self.basis == "assumed":
            return "throughput is assumed, so that no past case says anything of it"
        if self.score is None or self.score.held is None:
            return f"no range of this class ({self.class_name}) was tested on left-out rows"
        return (
            f"of {self.score.rows} past cases of this class ({self.class_name}),"
            f" {self.score.held} were inside"
        )

    def document(self) -> dict[str, Any]:
        """Return the choice for JSON output; what is not known or infinite is null."""
        return {
            "size": self.size.name,
            "nodes": self.nodes,
            "priority": self.priority,
            "steps": self.steps,
            "epochs": self.epochs,
            "global_batch": self.global_batch,
            "epochs_to_same_accuracy": self.same_accuracy_epochs,
            "images_per_s": ends(self.images_per_s),
            "efficiency": None if self.efficiency is None else round(self.efficiency, 4),
            "hours": ends(self.hours),
            "lost_to_preemption": ends(self.lost),
            "hours_by_hours_between_losses": {
                f"{key:g}": ends(value) for key, value in self.hours_by_losses.items()
            },
            "node_price": self.price.amount if self.price else None,
            "currency": self.price.currency if self.price else None,
            "cost": ends(self.money, 2),
            "cost_at_most": None if self.money_at_most is None else round(self.money_at_most, 2),
            "binds": self.binds,
            "basis": self.basis,
            "class": self.class_name or None,
            "past_cases": self.score.rows if self.score else None,
            "past_cases_inside": self.score.held if self.score else None,
            "reason": self.reason or None,
            "advised_against": self.advised_against,
            "notes": list(self.notes),
        }


@dataclass(frozen=True)
class Forecaster:
    """Forecasts choices for one run."""

    workload: Workload
    prices: NodePrices
    assumed: Assumptions
    points: Sequence[Point] = ()
    """Measured points, which are used instead of published ones for their GPU."""

    def choice(self, size: Size, nodes: int, priority: str) -> Choice:
        """Forecast one choice."""
        workload, notes = self.workload, self._notes(size)
        gone = f"the size is {size.status}" if size.status != "deployable" else None
        empty = Choice(size, nodes, priority, notes=notes, advised_against=gone)
        try:
            plan = workload.plan(size.gpus * nodes // workload.config.strategy.devices)
        except ConfigError as error:
            return replace(empty, reason=error.problems[0])
        batch, config = plan.global_batch, workload.config
        same = workload.epochs_to_same_accuracy(batch)
        planned = replace(
            empty,
            steps=plan.last_step,
            epochs=plan.epoch_of(plan.last_step),
            global_batch=batch,
            same_accuracy_epochs=same,
            advised_against=gone or workload.unpublished_batch(batch),
        )
        found = rate(workload, size, nodes, self.points)
        if isinstance(found, str):
            return replace(planned, reason=found)
        limits = limited(size, nodes, found, workload, self.assumed.account_gbits)
        steady = limits.steady
        epochs = plan.epoch_of(plan.last_step)
        read = epochs_from_storage(epochs, nodes)
        every = config.evaluation.every_epochs
        evaluations = max(round(epochs / every), 1) if every else 0
        tested = evaluations * self.assumed.evaluated_images / 3
        # The slowest throughput gives the longest time.
        train = Span(
            *(
                (read * workload.images / begin
                 + ((epochs - read) * workload.images + tested) / fast) / 3600
                for begin, fast in reversed(
                    [*zip(limits.first_epoch.values, steady.values, strict=True)]
                )
            )
        )  # fmt: skip
        if config.max_seconds:
            train = train.capped(config.max_seconds / 3600)
            notes = (*notes, f"the attempt ends after {config.max_seconds:g} s")
        lost, hours, others = self._with_losses(train, steady, nodes, priority)
        price = self.prices.find(size.name, priority)
        most = self.prices.highest(size.name, priority)
        against = planned.advised_against
        if found.basis == "assumed":
            against = against or "its throughput is assumed; measure one GPU first"
        score = None if found.basis == "assumed" else scores().get(found.key)
        return replace(
            planned,
            images_per_s=steady,
            efficiency=steady.middle / (found.one_gpu * size.gpus * nodes),
            hours=hours,
            lost=lost,
            hours_by_losses=others,
            price=price,
            money=_money(hours, nodes, price, most),
            money_at_most=hours.high * nodes * most.amount if most and not price else None,
            binds=limits.binds,
            basis=found.basis,
            score=score,
            class_name=", ".join(found.key),
            reason="" if price else self._no_price(priority),
            advised_against=against,
            notes=(*notes, *limits.notes),
            grounds=(
                *found.grounds,
                *limits.grounds,
                Ground(
                    "steps", f"{plan.last_step:,}",
                    f"{epochs:.4g} epochs of {workload.images:,} images, {batch:,} a step",
                    "the configuration, as the trainer plans it (trainer/training/plan.py), 2026",
                ),
                Ground(
                    "epochs to the same accuracy",
                    "?" if same is None else f"{same:.1f}",
                    f"{config.epochs:g} of the recipe, more at a global batch of {batch:,};"
                    " not planned, for comparison",
                    EPOCHS_SOURCE,
                ),
                Ground(
                    "evaluations",
                    f"{evaluations} of {self.assumed.evaluated_images:,} images",
                    "an image takes a third of its training step",
                    "assumed",
                ),
                *self._time_grounds(train, lost, hours, priority),
                *_price_grounds(price, most, hours, empty),
            ),
        )  # fmt: skip

    def _no_price(self, priority: str) -> str:
        return f"the price of {priority} in {self.prices.where} is not known"

    def _notes(self, size: Size) -> tuple[str, ...]:
        if size.status == "deployable":
            return ()
        instead = f"; use {size.replacement}" if size.replacement else ""
        return (f"{size.name} is {size.status} since {size.since}{instead}",)

    def _with_losses(
        self, train: Span, rates: Span, nodes: int, priority: str
    ) -> tuple[Span, Span, dict[float, Span]]:
        """Return the share that pre-emptions take, hours with it, and hours by other assumptions.

        Nodes are lost all at once, or each for itself: that is the range. The start of a
        replacement is billed, so that it counts as the time of all nodes.
        """
        start = self.assumed.start_minutes / 60
        if priority == "Dedicated":
            return Span(0, 0, 0), train.shifted(start), {}
        back = start + min(self.workload.checkpoint_hours(rates.middle), train.middle) / 2

        def lost(between: float) -> Span:
            together, apart = back / between, nodes * back / between
            return Span(together, (together + apart) / 2, apart)

        def hours(share: Span) -> Span:
            pairs = zip(train.values, share.values, strict=True)
            return Span(*(time / (1 - part) if part < 1 else inf for time, part in pairs)).shifted(
                start
            )

        share = lost(self.assumed.hours_between_losses)
        others = {each: hours(lost(each)) for each in self.assumed.other_hours_between_losses}
        return share, hours(share), others

    def _time_grounds(self, train: Span, lost: Span, hours: Span, priority: str) -> list[Ground]:
        assumed = self.assumed
        grounds = [
            Ground(
                "training",
                words(train, "h"),
                "images of all epochs / images/s, those that no disk holds yet from storage",
                "the numbers above",
            ),
            Ground("start", f"{assumed.start_minutes:g} min", "", assumed.start_source),
        ]
        if priority != "Dedicated":
            grounds.append(
                Ground(
                    "lost to pre-emption",
                    f"{lost.low:.0%} to {lost.high:.0%}",
                    "(start + half a checkpoint's interval) / hours between losses, once for all"
                    " nodes to once for each",
                    f"assumed: {assumed.hours_between_losses:g} h between losses; {LOSSES_SOURCE}",
                )
            )
        return [*grounds, Ground("hours", words(hours, "h"), "start + training / (1 - lost)", "")]


def _money(hours: Span, nodes: int, price: Price | None, most: Price | None) -> Span | None:
    """Return the cost; its high end is that of the highest price."""
    if price is None:
        return None
    high = max(price.amount, most.amount if most else 0.0)
    amounts = zip(hours.values, (price.amount, price.amount, high), strict=True)
    return Span(*(nodes * time * amount for time, amount in amounts))


def _price_grounds(
    price: Price | None, most: Price | None, hours: Span, choice: Choice
) -> list[Ground]:
    found = []
    if price is None:
        found.append(Ground("price", "?", "", f"no source states the price of {choice.priority}"))
    else:
        found.append(Ground("price", _hourly(price), "", _source(price)))
    if most is not None and choice.priority != "Dedicated":
        bound = f"{_hourly(most)}, the pay-as-you-go price, which Spot may reach"
        found.append(Ground("highest price", bound, "", _source(most)))
    cost = _money(hours, choice.nodes, price, most)
    if price is not None and cost is not None:
        high = "" if choice.priority == "Dedicated" else ", at the high end x highest price"
        formula = f"hours x nodes x price{high}"
        shown = words(cost, price.currency)
        found.append(Ground("cost", shown, formula, "the numbers above"))
    return found


def _hourly(price: Price) -> str:
    return f"{price.amount:g} {price.currency} an hour"


def _source(price: Price) -> str:
    return f"{price.source.title}, {price.source.date}: {price.source.url}"
