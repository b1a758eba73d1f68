"""What a choice of nodes would do: images/s, hours and money as ranges, with their grounds. Pure.

Every number of a forecast is a `Ground`: its value, the formula, and the source with its date.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, Final

from common.prices import NodePrices, Price
from infra.catalog.vm_sizes import Size
from jobs.estimate.rates import Basis, Ground, limited, rate
from jobs.estimate.workload import EPOCHS_SOURCE, Workload
from jobs.throughput import Point, Span, ends, words


@dataclass(frozen=True)
class Assumptions:
    """What was never measured or published. All of it is printed with a plan."""

    start_minutes: float = 15.0
    """Until the first step: nodes are allocated and pull the image. Also after a pre-emption."""
    hours_between_losses: float = 4.0
    """Hours that one Spot node is held, on average."""
    other_hours_between_losses: tuple[float, ...] = (1.5, 23.0)
    """Others that are shown as well."""
    account_gbits: float = 50.0
    """What a storage account delivers in all, in Gbit/s."""


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
    reason: str = ""
    """Why something is not known."""
    notes: tuple[str, ...] = ()
    grounds: tuple[Ground, ...] = ()

    @property
    def key(self) -> str:
        """Such as ND40rs_v2:4."""
        return f"{self.size.name.removeprefix('Standard_')}:{self.nodes}"

    @property
    def recommendable(self) -> bool:
        """Whether throughput, price and end are known."""
        return self.money is not None and self.money.high < inf

    def document(self) -> dict[str, Any]:
        """Return the choice for JSON output; what is not known or infinite is null."""
        return {
            "size": self.size.name,
            "nodes": self.nodes,
            "priority": self.priority,
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
            "reason": self.reason or None,
            "notes": list(self.notes),
        }


@dataclass(frozen=True)
class Forecaster:
    """Forecasts choices for one run."""

    workload: Workload
    prices: NodePrices
    assumed: Assumptions
    points: Sequence[Point] = ()
    """Measured points, which are used instead of published ones for their VM size."""

    def choice(self, size: Size, nodes: int, priority: str) -> Choice:
        """Forecast one choice."""
        workload, empty = self.workload, Choice(size, nodes, priority)
        found = rate(workload, size, nodes, self.points)
        batch = workload.config.batch_size * workload.config.batches(size.gpus * nodes)
        epochs = workload.epochs_at(batch)
        if isinstance(found, str):
            return replace(empty, reason=found)
        if epochs is None:
            return replace(empty, reason=f"no reference point for a batch of {batch:,} images")
        limits = limited(size, nodes, found, workload, self.assumed.account_gbits)
        rates = limits.most_epochs
        # The slowest throughput gives the longest time.
        ends_of_both = [*zip(limits.first_epoch.values, rates.values, strict=True)]
        train = Span(
            *(
                (workload.images / begin + max(epochs - 1, 0) * workload.images / steady) / 3600
                for begin, steady in reversed(ends_of_both)
            )
        )
        lost, hours, others = self._with_losses(train, rates, nodes, priority)
        price = self.prices.find(size.name, priority)
        most = self.prices.highest(size.name, priority)
        growth = f"{workload.config.epochs:g} of the recipe, more at a global batch of {batch:,}"
        return Choice(
            size,
            nodes,
            priority,
            rates,
            rates.middle / (found.one_gpu * size.gpus * nodes),
            hours,
            lost,
            others,
            price,
            _money(hours, nodes, price, most),
            hours.high * nodes * most.amount if most and not price else None,
            limits.binds,
            found.basis,
            "" if price else f"the price of {priority} is not known",
            limits.notes,
            (
                *found.grounds,
                *limits.grounds,
                Ground("epochs", f"{epochs:.1f}", growth, EPOCHS_SOURCE),
                *self._time_grounds(train, lost, hours, priority),
                *_price_grounds(price, most, hours, empty),
            ),
        )

    def _with_losses(
        self, train: Span, rates: Span, nodes: int, priority: str
    ) -> tuple[Span, Span, dict[float, Span]]:
        """Return the share that pre-emptions take, hours with it, and hours by other assumptions.

        Nodes are lost all at once, or each for itself: that is the range.
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
                "images of an epoch / images/s, the first epoch from storage",
                "the numbers above",
            ),
            Ground("start", f"{assumed.start_minutes:g} min", "", "assumed"),
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
