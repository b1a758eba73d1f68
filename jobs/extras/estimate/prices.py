"""`python -m jobs prices`: ask Azure's public price list, and store the answer."""

from dataclasses import dataclass
from typing import Annotated

from common.annotations import Positional
from common.errors import ConfigError
from common.prices import read_price_list
from infra.catalog import vm_sizes
from infra.outputs import PlatformOutputs
from jobs.azure import node_prices
from jobs.console import Console, table


@dataclass(frozen=True)
class PricesOptions:
    """Ask Azure's public price list for the prices of GPU nodes, dedicated and Spot, and store the
    answer with its date. Later commands use it. Needs no account.
    """

    region: str | None = None
    """Azure region; None is that of the stack, if one is named."""

    currency: str = "USD"
    """ISO code of the currency of your invoice."""

    address: str = node_prices.LIST
    """URL of the list, or of a service that answers in its form."""

    sizes: Annotated[tuple[str, ...], Positional("SIZE...")] = ()
    """VM sizes; none are all GPU sizes that can be deployed."""


def ask_prices(options: PricesOptions, outputs: PlatformOutputs | None, *, as_json: bool) -> int:
    """Store the prices of a region, and print them."""
    region = options.region or (outputs.region if outputs else None)
    if region is None:
        raise ConfigError(["--region: is missing; name a region such as westeurope, or a stack"])
    sizes = options.sizes or tuple(size.name for size in vm_sizes.deployable(gpu=True))
    file = node_prices.ask(region, sizes, currency=options.currency, address=options.address)
    prices = read_price_list(file).prices
    rows = [
        (size, priority, f"{price.amount:g} {price.currency}", price.source.date)
        for (size, priority), price in sorted(prices.items())
    ]
    missing = [size for size in sizes if (size.lower(), "Dedicated") not in prices]
    text = [table(("size", "priority", "an hour", "date"), rows)]
    text += [f"no price in {region}: {', '.join(missing)}"] if missing else []
    document = {"region": region, "file": str(file), "prices": len(prices), "missing": missing}
    Console(as_json=as_json).answer(document, "\n".join([*text, f"stored: {file}"]))
    return 0
