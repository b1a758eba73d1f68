"""Prices with their sources, and what nodes cost. Standard library only.

A price that no source states is None, which is shown as `?` and never as zero. Dedicated,
low-priority and spot nodes have three prices, and none stands for another.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

UNKNOWN: Final = "?"

RECORDED: Final = Path(__file__).with_name("node_prices.json")
"""List prices of nodes that come with the project, each with its source and date."""

NodeKind: TypeAlias = tuple[str, str]
"""VM size in lower case, and priority: LowPriority, Dedicated or Spot."""

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
class Discount:
    """The largest discount on the price of a dedicated node that a source states."""

    at_most: float
    """Fraction of the price, 0 to 1."""
    source: PriceSource


@dataclass(frozen=True)
class PriceList:
    """Prices of nodes from one file."""

    region: str
    """Azure region of the prices, such as eastus."""
    prices: Mapping[NodeKind, Price]
    discounts: Mapping[str, Discount]
    """Largest discounts by priority."""


@dataclass(frozen=True)
class NodePrices:
    """Prices of one node for an hour."""

    sources: tuple[Mapping[NodeKind, Price], ...] = ()
    """Known prices, in order of trust: the first source that states a price applies."""
    discounts: Mapping[str, Discount] = field(default_factory=dict)
    """Largest discounts by priority, for priorities whose price no source states."""

    def find(self, size: str, priority: str) -> Price | None:
        """Return the price of a node; None if no source states that of its priority."""
        kind = (size.lower(), priority)
        return next((source[kind] for source in self.sources if kind in source), None)

    def least(self, size: str, priority: str) -> Price | None:
        """Return the lowest price that a node can have by the largest discount that is published.

        It is a bound, not a price: whatever is computed from it is shown as `at least`.
        """
        discount, dedicated = self.discounts.get(priority), self.find(size, "Dedicated")
        if discount is None or dedicated is None:
            return None
        amount = dedicated.amount * (1 - discount.at_most)
        return Price(amount, dedicated.currency, dedicated.unit, discount.source)


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


def read_sources(data: Mapping[str, Mapping[str, str]]) -> dict[str, PriceSource]:
    """Read the sources of a file of prices, by their keys in it."""
    return {key: PriceSource(**entry) for key, entry in data.items()}


def read_price_list(path: Path) -> PriceList:
    """Read a file of node prices, in the form that `price_list_json` returns.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file is not such a list; names the file.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        sources = read_sources(data["sources"])
        prices = {
            (str(entry["size"]).lower(), str(entry["priority"])): Price(
                float(entry["hourly"]), data["currency"], "hour", sources[entry["source"]]
            )
            for entry in data["nodes"]
        }
        discounts = {
            str(entry["priority"]): Discount(float(entry["at_most"]), sources[entry["source"]])
            for entry in data.get("discounts", ())
        }
        return PriceList(str(data["region"]), prices, discounts)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: is not a list of node prices ({error!r})") from error


def price_list_json(region: str, prices: Mapping[NodeKind, Price]) -> str:
    """Return prices of one currency as a file that `read_price_list` reads.

    Raises:
        ValueError: The prices have several currencies, or there are none.
    """
    currencies = {price.currency for price in prices.values()}
    if len(currencies) != 1:
        raise ValueError(f"a list of prices has one currency, not {len(currencies)}")
    keys = {
        source: f"source-{index}"
        for index, source in enumerate(dict.fromkeys(price.source for price in prices.values()), 1)
    }
    document = {
        "region": region,
        "currency": currencies.pop(),
        "sources": {
            key: {"title": source.title, "url": source.url, "date": source.date}
            for source, key in keys.items()
        },
        "nodes": [
            {
                "size": size,
                "priority": priority,
                "hourly": price.amount,
                "source": keys[price.source],
            }
            for (size, priority), price in sorted(prices.items())
        ],
    }
    return json.dumps(document, indent=1) + "\n"


_SPARE: Final = {"Low Priority": "LowPriority", "Spot": "Spot"}
"""Priorities by the end of a meter's name in Azure's retail price list."""


def read_retail(
    pages: Iterable[Mapping[str, Any]], region: str, date: str
) -> dict[NodeKind, Price]:
    """Read the prices of Linux nodes in answers of Azure's retail price list.

    The meters of a size differ by the end of their names: that of low priority ends in `Low
    Priority`, that of spot in `Spot`. They are two markets.

    Args:
        pages: JSON documents of one or several pages.
        region: Region that was asked for; items of others are ignored.
        date: Date of the answer, as YYYY-MM-DD.
    """
    source = PriceSource(
        f"Azure Retail Prices API, {region}",
        "https://prices.azure.com/api/retail/prices",
        date,
    )
    prices: dict[NodeKind, Price] = {}
    for item in (item for page in pages for item in page["Items"]):
        size, amount = str(item.get("armSkuName") or ""), float(item.get("retailPrice") or 0)
        usable = (
            item.get("type") == "Consumption"
            and item.get("unitOfMeasure") == "1 Hour"
            and item.get("armRegionName") == region
            and not str(item.get("productName", "")).endswith("Windows")
        )
        if not usable or not size or amount <= 0:
            continue
        meter = str(item.get("meterName", ""))
        ends = (kind for end, kind in _SPARE.items() if meter.endswith(f" {end}"))
        kind = size.lower(), next(ends, "Dedicated")
        prices[kind] = Price(amount, str(item["currencyCode"]), "hour", source)
    return prices
