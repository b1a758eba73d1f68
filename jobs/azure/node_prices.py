"""Prices of nodes: from the workspace, Azure's public price list, or as recorded."""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit

from common.errors import UserError
from common.files import write_atomically
from common.prices import (
    RECORDED,
    NodeKind,
    NodePrices,
    Price,
    price_list_json,
    read_price_list,
    read_retail,
)
from infra.outputs import PlatformOutputs
from jobs.console import Console
from jobs.errors import RequestError
from jobs.spec.from_options import REPOSITORY

LIST: Final = "https://prices.azure.com/api/retail/prices"
"""Azure's public price list, which needs no account (learn.microsoft.com, "Azure Retail Prices
overview")."""
STORED: Final = REPOSITORY / "build" / "prices"
"""Folder of stored answers, one file for each region."""
ASK_AGAIN: Final = "python -m jobs prices --region REGION"
RETRIES = 3
"""Retries of a request after transient errors."""
_PAGES: Final = 20
"""Pages of one size after which an answer counts as wrong."""


def ask(
    region: str,
    sizes: Iterable[str],
    folder: Path = STORED,
    get: Callable[[str], Any] | None = None,
    *,
    currency: str = "USD",
    address: str = LIST,
) -> Path:
    """Ask Azure's public price list for the prices of nodes, and store the answer with its date.

    Args:
        region: Azure region, such as eastus.
        sizes: VM sizes.
        folder: Folder of stored answers.
        get: Returns the JSON document of a URL.
        currency: ISO code of the currency to ask for.
        address: URL of the list, or of a service that answers in its form.

    Raises:
        UserError: The list cannot be read, or has no price of these sizes.
    """
    get = get or partial(_get, address)
    date = f"{datetime.now(UTC):%Y-%m-%d}"
    prices: dict[NodeKind, Price] = {}
    for size in sizes:
        wanted = (
            f"serviceName eq 'Virtual Machines' and armRegionName eq '{region}'"
            f" and armSkuName eq '{size}' and priceType eq 'Consumption'"
        )
        query = f"{address}?currencyCode='{currency}'&$filter={quote(wanted)}"
        try:
            retail = read_retail(_pages(query, get, address), region, date)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise UserError(
                f"{address}: the answer about {size} is not as documented ({error!r})"
            ) from error
        others = {price.currency for price in retail.values()} - {currency}
        if others:
            raise UserError(f"{address}: answered in {', '.join(others)}, not in {currency}")
        prices |= retail
    if not prices:
        raise UserError(f"{address}: has no price of these sizes in {region}; check --region")
    path = stored_file(folder, region)
    write_atomically(path, price_list_json(region, prices))
    return path


def stored_file(folder: Path, region: str) -> Path:
    """Return the file of the stored prices of a region."""
    return folder / f"{region}.json"


def known(
    region: str, workspace: Mapping[NodeKind, Price] | None = None, folder: Path = STORED
) -> NodePrices:
    """Return prices in order of trust: the workspace's, the region's stored ones, the recorded. All
    are of the region, and in the currency of the first source that has any.

    Args:
        region: Azure region.
        workspace: Prices that Azure answered for the stack's workspace; None without a stack.
        folder: Folder of stored answers.

    Raises:
        UserError: A stored answer is broken, or is that of another region.
    """
    sources: list[Mapping[NodeKind, Price]] = [] if workspace is None else [workspace]
    stored = stored_file(folder, region)
    if stored.exists():
        try:
            listed = read_price_list(stored)
        except ValueError as error:
            raise UserError(f"{error}; delete it, or ask again: {ASK_AGAIN}") from error
        if listed.region != region:
            raise UserError(f"{stored}: has the prices of {listed.region}; ask again: {ASK_AGAIN}")
        sources.append(listed.prices)
    recorded = read_price_list(RECORDED)
    if recorded.region == region:
        sources.append(recorded.prices)
    return NodePrices(tuple(sources), region).in_one_currency()


def of_workspace(outputs: PlatformOutputs, console: Console) -> Mapping[NodeKind, Price] | None:
    """Ask Azure for the prices of the stack's region; None, with a note, if it does not answer."""
    # Azure's libraries take seconds to import, and without a stack none is needed.
    from jobs.azure.costs import read_prices  # noqa: PLC0415
    from jobs.azure.workspace import connect  # noqa: PLC0415

    try:
        return read_prices(connect(outputs).manager).sources[0]
    except RequestError as error:
        console.note(f"prices of the workspace are not known: {str(error).splitlines()[0]}")
        return None


def _pages(url: str, get: Callable[[str], Any], address: str) -> list[Mapping[str, Any]]:
    pages: list[Mapping[str, Any]] = []
    following: str | None = url
    while following:
        if len(pages) == _PAGES or urlsplit(following).hostname != urlsplit(address).hostname:
            raise ValueError(f"unexpected next page {following}")
        pages.append(get(following))
        following = pages[-1].get("NextPageLink")
    return pages


def _get(address: str, url: str) -> Any:
    """Read a JSON document, with the retries of Azure's library.

    Raises:
        UserError: The server cannot be reached or refuses.
    """
    # It takes long to import, and other plans need no network.
    from azure.core import PipelineClient  # noqa: PLC0415
    from azure.core.exceptions import AzureError  # noqa: PLC0415
    from azure.core.rest import HttpRequest  # noqa: PLC0415

    from jobs.azure.sign_in import PRODUCT  # noqa: PLC0415

    try:
        with PipelineClient[Any, Any](address, retry_total=RETRIES) as client:
            answer = client.send_request(HttpRequest("GET", url, headers={"User-Agent": PRODUCT}))
            answer.raise_for_status()
            return answer.json()
    except AzureError as error:
        raise UserError(
            f"{address}: cannot be read ({str(error).splitlines()[0]}); nothing was stored, and"
            " plans use the stored and recorded prices"
        ) from error
