"""Prices with their sources, and what nodes cost. Standard library only.

A price that no source states is None, which is shown as `?` and never as zero. Low-priority and
dedicated nodes have two prices, and neither stands for the other.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

UNKNOWN: Final = "?"

NodeKind: TypeAlias = tuple[str, str]
"""VM size in lower case, and priority: LowPriority or Dedicated."""

_TIERS: Final = {"LowPriority": "LowPriority", "Standard": "Dedicated"}
"""Priorities of nodes by their names in Azure's list of VM sizes. Spot is another market, whose
prices are not those of low priority."""


@dataclass(frozen=True)
class PriceSource:
    """Source of a price."""

    title: str
    url: str
    date: str
    """Date of the source, as YYYY-MM-DD."""


@dataclass(frozen=True)
class Price:
    """Price of one thing for a unit of time, before tax and discounts."""

    amount: float
    currency: str
    unit: Literal["hour", "month"]
    """Hour, or month of 730 hours."""
    source: PriceSource


@dataclass(frozen=True)
class NodePrices:
    """Prices of one node for an hour."""

    sources: tuple[Mapping[NodeKind, Price], ...] = ()
    """Known prices, in order of trust: the first source that states a price applies."""

    def find(self, size: str, priority: str) -> Price | None:
        """Return the price of a node; None if no source states that of its priority."""
        kind = (size.lower(), priority)
        return next((source[kind] for source in self.sources if kind in source), None)


@dataclass(frozen=True)
class Cost:
    """What nodes cost by an estimate."""

    node_seconds: float | None
    """Seconds, added up over the nodes; None if unknown."""
    price: Price | None
    """Price of one node for an hour."""

    @property
    def amount(self) -> float | None:
        """Amount in the currency of the price; None if it is unknown."""
        if self.node_seconds is None or self.price is None:
            return None
        return self.node_seconds / 3600 * self.price.amount


@dataclass(frozen=True)
class Total:
    """Sum of costs."""

    node_seconds: float
    amounts: Mapping[str, float]
    """Sums by currency."""
    complete: bool
    """Whether all parts are known; otherwise the sums are lower bounds."""

    def __str__(self) -> str:
        """Return the amount in words; `?` if nothing is known, `-` if no node has run."""
        if not self.amounts:
            return "-" if self.complete else UNKNOWN
        known = " + ".join(money(amount, currency) for currency, amount in self.amounts.items())
        return known if self.complete else f"at least {known}"


def total(costs: Iterable[Cost]) -> Total:
    """Add up costs. Nodes that have not run cost nothing, even if their price is unknown."""
    seconds, amounts, complete = 0.0, dict[str, float](), True
    for cost in costs:
        if cost.node_seconds == 0:
            continue
        seconds += cost.node_seconds or 0.0
        if cost.amount is None or cost.price is None:
            complete = False
        else:
            currency = cost.price.currency
            amounts[currency] = amounts.get(currency, 0.0) + cost.amount
    return Total(seconds, amounts, complete)


def money(amount: float, currency: str) -> str:
    """Format an amount: 1,234.50 USD; with four decimals below one."""
    return f"{amount:,.2f} {currency}" if amount >= 1 else f"{amount:.4f} {currency}"


def read_vm_sizes(data: Any, date: str) -> dict[NodeKind, Price]:
    """Read the prices of Linux nodes in Azure Machine Learning's list of the VM sizes of a region.

    A price of zero counts as unknown, as no VM is free.

    Args:
        data: Response to `locations/REGION/vmSizes`.
        date: Date of the response, as YYYY-MM-DD.
    """
    source = PriceSource(
        "Azure Machine Learning, VM sizes of the region, estimated prices",
        "https://learn.microsoft.com/rest/api/azureml/virtual-machine-sizes/list",
        date,
    )
    items = data.get("value") or data.get("amlCompute") or [] if isinstance(data, Mapping) else data
    prices = {}
    for item in items:
        estimate = item.get("estimatedVMPrices") or {}
        if estimate.get("unitOfMeasure") != "OneHour" or not estimate.get("billingCurrency"):
            continue
        for value in estimate.get("values") or []:
            priority, amount = _TIERS.get(value.get("vmTier")), float(value.get("retailPrice") or 0)
            if value.get("osType") == "Linux" and priority is not None and amount > 0:
                price = Price(amount, str(estimate["billingCurrency"]), "hour", source)
                prices[str(item["name"]).lower(), priority] = price
    return prices
