"""Print the cost of a stack in a month without jobs: `python -m infra.render.costs STACK`.

Prices are read from prices.json, here and in the folders of the leaves, each with its source and
date. A resource without a recorded price is shown as `?`, and the total is then a lower bound.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from common.prices import UNKNOWN, Price, PriceSource, read_sources
from infra import leaves
from infra.render.render import show
from infra.resources import Resource, input_at

PRICES = Path(__file__).with_name("prices.json")


@dataclass(frozen=True)
class ResourcePrice:
    """Price of one kind of resource."""

    type: str
    """`module:Kind` of azure-native."""
    item: str
    price: Price | None
    """Price of one idle resource for a month; None if no source states it."""
    source: str
    """Key of the source that states the price, or that it depends on usage."""
    where: Mapping[str, str | Sequence[str]]
    """Inputs that a resource must have for the price to apply, by dotted path."""
    region: str
    """Azure region that the source refers to; empty if it names none."""
    plus: str
    """Usage that is billed in addition."""
    usage: Mapping[str, float]
    """Prices of usage of storage: of a GB `stored` for a month, and of 10,000 operations that
    `read` and that `written` blocks."""

    def fits(self, resource: Resource) -> bool:
        if resource.kind != self.type:
            return False
        return all(
            input_at(resource, path) in ([expected] if isinstance(expected, str) else expected)
            for path, expected in self.where.items()
        )


@dataclass(frozen=True)
class PriceList:
    """All recorded prices."""

    currency: str
    prices: Sequence[ResourcePrice]
    """Prices in order of precedence: the first that fits a resource applies."""
    parts: Mapping[str, str]
    """Types that are settings of another resource and have no price of their own, with the
    reason."""
    sources: Mapping[str, PriceSource]


class Row(NamedTuple):
    """Resources with the same price."""

    item: str
    each: float | None
    plus: str
    source: str | None
    """Key of a source; None if no price is recorded."""
    names: tuple[str, ...] = ()
    region: str = ""
    """Region that the price is of; empty if the source names none."""

    @property
    def monthly(self) -> float | None:
        return None if self.each is None else self.each * len(self.names)


def read(paths: Sequence[Path] = (*leaves.PRICES, PRICES)) -> PriceList:
    """Read the prices of several files; those of an earlier file come first.

    Raises:
        ValueError: the files have several currencies, a price has an unknown source, or a type is
            listed both as a price and as a part.
    """
    files = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    entries = [entry for data in files for entry in data["prices"]]
    parts = {kind: why for data in files for kind, why in data["parts"].items()}
    sources = read_sources({key: one for data in files for key, one in data["sources"].items()})
    currencies = {data["currency"] for data in files}
    if len(currencies) != 1:
        raise ValueError(f"prices in several currencies: {', '.join(sorted(currencies))}")
    unknown = sorted({entry["source"] for entry in entries} - set(sources))
    if unknown:
        raise ValueError(f"prices refer to unknown sources {', '.join(unknown)}")
    [currency] = currencies
    prices = [_read_price(entry, currency, sources) for entry in entries]
    ambiguous = sorted({price.type for price in prices} & set(parts))
    if ambiguous:
        raise ValueError(f"{', '.join(ambiguous)} is both priced and listed as a part")
    return PriceList(currency, prices, parts, sources)


def rows(resources: Sequence[Resource], price_list: PriceList) -> list[Row]:
    """Return every Azure resource once, grouped by price: the most expensive first, then unknown
    prices, then free resources.
    """
    groups: dict[Row, list[str]] = {}
    for resource in resources:
        if not resource.type.startswith("azure-native:") or resource.kind in price_list.parts:
            continue
        price = next((price for price in price_list.prices if price.fits(resource)), None)
        row = Row(resource.kind, None, "no price is recorded", None)
        if price is not None:
            each = price.price.amount if price.price else None
            row = Row(price.item, each, price.plus, price.source, region=price.region)
        groups.setdefault(row, []).append(resource.name)
    priced = [row._replace(names=tuple(sorted(names))) for row, names in groups.items()]
    return sorted(priced, key=_order)


def total(priced: Sequence[Row]) -> tuple[float, bool]:
    """Return the sum of the known prices, and whether all prices are known."""
    return (
        sum(row.monthly for row in priced if row.monthly is not None),
        all(row.monthly is not None for row in priced),
    )


def table(priced: Sequence[Row], price_list: PriceList) -> str:
    """Return the rows as a Markdown table, followed by the sources of the prices."""
    keys = list(dict.fromkeys(row.source for row in priced if row.source))
    currency = price_list.currency
    lines = [
        f"| resource | count | {currency} a month each | {currency} a month | plus usage | region "
        "| date | from |",
        "|---|--:|--:|--:|---|---|--:|---|",
    ]
    free = [row for row in priced if row.monthly == 0 and not row.plus]
    for row in (row for row in priced if row not in free):
        note = f"[{keys.index(row.source) + 1}]" if row.source else ""
        date = price_list.sources[row.source].date if row.source else ""
        lines.append(
            f"| {row.item} | {len(row.names)} | {_money(row.each)} | {_money(row.monthly)} "
            f"| {row.plus} | {row.region} | {date} | {note} |"
        )
    known, complete = total(priced)
    lines.append(f"| **Total** | | | **{'' if complete else 'at least '}{known:.2f}** | | | | |")
    if free:
        names = ", ".join(
            f"{row.item} ({len(row.names)})"
            + (f" [{keys.index(row.source) + 1}]" if row.source else "")
            for row in free
        )
        lines += ["", f"No fixed cost: {names}."]
    lines += [
        "",
        f"List prices for 730 hours in {currency}, before tax and discounts:",
        "",
    ]
    for number, key in enumerate(keys, 1):
        source = price_list.sources[key]
        lines.append(f"{number}. [{source.title}]({source.url}), {source.date}")
    return "\n".join(lines) + "\n"


def _read_price(
    entry: Mapping[str, Any], currency: str, sources: Mapping[str, PriceSource]
) -> ResourcePrice:
    values = {"where": {}, "region": "", "plus": "", "usage": {}, **entry}
    if values["usage"]:
        values["plus"] = _usage(values["usage"], currency)
    amount = values.pop("monthly")
    source = sources[entry["source"]]
    price = None if amount is None else Price(amount, currency, "month", source)
    return ResourcePrice(price=price, **values)


def _usage(usage: Mapping[str, float], currency: str) -> str:
    text = f"{usage['stored']:g} {currency} a GB stored"
    if "read" in usage:
        text += f"; for 10,000 operations {usage['read']:g} (reads), {usage['written']:g} (writes)"
    return text


def reading(price_list: PriceList) -> str:
    """Return the cost of keeping training data and of reading them once, by the kind of account."""
    gb = 100
    lines = [
        f"Training data of {gb} GB, read in blocks of 4 MiB:",
        "",
        f"| account | {price_list.currency} a month stored | {price_list.currency} an epoch read "
        "| region | date |",
        "|---|--:|--:|---|--:|",
    ]
    reads = gb * 1e9 / (4 * 2**20)
    lines += [
        f"| {one.item.removeprefix('Storage account, ')} | {gb * one.usage['stored']:.2f} "
        f"| {reads / 10_000 * one.usage['read']:.4f} | {one.region} "
        f"| {price_list.sources[one.source].date} |"
        for one in price_list.prices
        if "read" in one.usage
    ]
    return "\n".join(lines) + "\n"


def _order(row: Row) -> tuple[int, float, str]:
    if row.monthly is None:
        return 1, 0, row.item
    return (2, 0, row.item) if row.monthly == 0 else (0, -row.monthly, row.item)


def _money(amount: float | None) -> str:
    return UNKNOWN if amount is None else f"{amount:.2f}"


def main(arguments: Sequence[str]) -> int:
    """Print the cost table of a stack."""
    parser = argparse.ArgumentParser(prog="python -m infra.render.costs", description=__doc__)
    return show(parser, arguments, _print)


def _print(resources: Sequence[Resource], _options: argparse.Namespace) -> None:
    price_list = read()
    print(table(rows(resources, price_list), price_list))
    print(reading(price_list), end="")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
