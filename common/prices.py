"""Prices with their sources, and what nodes cost. Standard library only.

A price that no source states is None, which is shown as `?` and never as zero. Nodes of Azure's
tier `low_priority` are Spot VMs since 31 March 2026: their price is that of the Spot meter, which
moves with demand up to the pay-as-you-go price, that of a dedicated node.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

UNKNOWN: Final = "?"

RECORDED: Final = Path(__file__).with_name("node_prices.json")
"""List prices of nodes that come with the project, each with its source and date."""

NodeKind: TypeAlias = tuple[str, str]
"""VM size in lower case, and priority: LowPriority, which is Spot, or Dedicated."""

_TIERS: Final = {"LowPriority": "LowPriority", "Standard": "Dedicated", "Spot": "LowPriority"}
"""Priorities of nodes by their tiers in Azure's list of VM sizes and in files of prices. Of two
that are one priority, the last one applies."""


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
class PriceList:
    """Prices of nodes from one file."""

    region: str
    """Azure region of the prices, such as eastus."""
    prices: Mapping[NodeKind, Price]


@dataclass(frozen=True)
class NodePrices:
    """Prices of one node for an hour."""

    sources: tuple[Mapping[NodeKind, Price], ...] = ()
    """Known prices, in order of trust: the first source that states a price applies."""
    region: str | None = None
    """Azure region of all of them; None if that was not told."""

    @property
    def where(self) -> str:
        """Region and currency in words, such as `westeurope, in EUR`."""
        known = self.region or "this region"
        return f"{known}, in {self._currency}" if self._currency else known

    @property
    def _currency(self) -> str | None:
        return next((price.currency for prices in self.sources for price in prices.values()), None)

    def in_one_currency(self) -> "NodePrices":
        """Return the prices in the currency of the most trusted source: amounts of several cannot
        be compared or added.
        """
        sources = tuple(
            {kind: price for kind, price in prices.items() if price.currency == self._currency}
            for prices in self.sources
        )
        return NodePrices(sources, self.region)

    def find(self, size: str, priority: str) -> Price | None:
        """Return the price of a node; None if no source states that of its priority."""
        kind = (size.lower(), priority)
        return next((source[kind] for source in self.sources if kind in source), None)

    def highest(self, size: str, priority: str) -> Price | None:
        """Return the highest price that a node can have: the pay-as-you-go price, also for Spot.

        It is None if no source states it, or if it is in another currency than that of `find`.
        """
        most, now = self.find(size, "Dedicated"), self.find(size, priority)
        if most is None or now is None:
            return most
        if most.currency != now.currency:
            return None
        # Two lists of different dates may contradict each other.
        return max(most, now, key=lambda price: price.amount)


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

    A price of zero counts as unknown, as no VM is free. Some sizes have two prices of one system
    and one tier, of which the higher one is that of Windows under a wrong name; the lowest counts.

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
    prices: dict[NodeKind, Price] = {}
    for item in items:
        estimate = item.get("estimatedVMPrices") or {}
        if estimate.get("unitOfMeasure") != "OneHour" or not estimate.get("billingCurrency"):
            continue
        # From the highest to the lowest of each tier, as the last one applies.
        values = sorted(estimate.get("values") or [], key=_amount, reverse=True)
        for value in sorted(values, key=_tier):
            priority, amount = _TIERS.get(value.get("vmTier")), _amount(value)
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
            (str(entry["size"]).lower(), _priority(str(entry["priority"]))): Price(
                float(entry["hourly"]), data["currency"], "hour", sources[entry["source"]]
            )
            for entry in sorted(data["nodes"], key=_tier)
        }
        return PriceList(str(data["region"]), prices)
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
                "priority": "Spot" if priority == "LowPriority" else priority,
                "hourly": price.amount,
                "source": keys[price.source],
            }
            for (size, priority), price in sorted(prices.items())
        ],
    }
    return json.dumps(document, indent=1) + "\n"


def _tier(entry: Mapping[str, Any]) -> bool:
    """Return whether a price is of the Spot meter, which sorts it behind the others."""
    return "Spot" in (entry.get("vmTier"), entry.get("priority"))


def _amount(entry: Mapping[str, Any]) -> float:
    return float(entry.get("retailPrice") or 0)


def _priority(text: str) -> str:
    return _TIERS.get(text, text)


_UNUSED: Final = "Low Priority"
"""End of the names of a retired meter in Azure's retail price list."""


def read_retail(
    pages: Iterable[Mapping[str, Any]], region: str, date: str
) -> dict[NodeKind, Price]:
    """Read the prices of Linux nodes in answers of Azure's retail price list.

    The meters of a size differ by the end of their names: `Spot` is that of the tier
    `low_priority`. A meter that ends in `Low Priority` has the price of that tier until 31 March
    2026, and is not read.

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
    items = [item for page in pages for item in page["Items"]]
    # As above: of several meters of one kind, such as one of another product, the lowest counts.
    for item in sorted(items, key=_amount, reverse=True):
        size, amount = str(item.get("armSkuName") or ""), _amount(item)
        usable = (
            item.get("type") == "Consumption"
            and item.get("unitOfMeasure") == "1 Hour"
            and item.get("armRegionName") == region
            and not str(item.get("productName") or "").endswith("Windows")
        )
        if not usable or not size or amount <= 0:
            continue
        meter = str(item.get("meterName") or "")
        if meter.endswith(f" {_UNUSED}"):
            continue
        kind = size.lower(), "LowPriority" if meter.endswith(" Spot") else "Dedicated"
        prices[kind] = Price(amount, str(item["currencyCode"]), "hour", source)
    return prices
