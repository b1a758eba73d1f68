"""The price of Spot while runs use it: it moves with demand, so it is asked for again."""

from collections.abc import Callable, Iterable
from functools import partial
from itertools import pairwise
from typing import Final

from common.prices import NodePrices, Price, PriceSource, money
from infra.outputs import Cluster
from jobs.azure.costs import read_prices
from jobs.azure.resource_manager import ResourceManager
from jobs.console import Console
from jobs.errors import RequestError
from jobs.spec.budget_policy import Budget

ASK_SECONDS: Final = 900.0
"""Seconds after which prices are asked for again while a run continues."""
UNWATCHED_SECONDS: Final = 3 * ASK_SECONDS
"""Longest time between two answers after which the prices in between count as unknown."""
MOVED: Final = 0.1
"""Change of a price, as a fraction, that is told."""

_SUBMITTED: Final = PriceSource("tag of the attempt before", "", "")


class Rates:
    """Asks for the prices of Spot nodes, and tells when one has moved.

    Args:
        read: Asks Azure for the prices of the region.
        say: Prints a line.
        clock: Clock in seconds that counts the time in which this machine is suspended.
    """

    def __init__(
        self,
        read: Callable[[], NodePrices],
        say: Callable[[str], None],
        clock: Callable[[], float],
    ) -> None:
        self._read, self._say, self._clock = read, say, clock
        self._prices = NodePrices()
        self._asked: float | None = None
        self._told: dict[str, Price] = {}
        """By VM size, the price that was told last."""
        self._submitted: dict[str, Price] = {}
        """By VM size, the price of the last attempt whose budget was priced."""
        self._seen: dict[str, list[tuple[float, Price]]] = {}
        """By VM size, the prices that Azure has answered, each with its time."""

    def look(self, clusters: Iterable[Cluster], *, again: bool = False) -> None:
        """Tell which prices have moved, by asking every `ASK_SECONDS`.

        Args:
            clusters: Clusters of runs that continue; only those of Spot nodes count.
            again: Ask now, as an attempt is to be submitted.
        """
        sizes = {cluster.size: None for cluster in clusters if cluster.priority == "LowPriority"}
        if sizes and (again or self._due()):
            self._ask(sizes)

    def _ask(self, sizes: Iterable[str]) -> None:
        """Ask for all prices, and tell which ones of these VM sizes of Spot have moved."""
        self._asked = self._clock()
        try:
            self._prices = self._read()
        except RequestError:
            # The run continues without it, and the next look asks again.
            return
        for size in sizes:
            now = self._prices.find(size, "LowPriority")
            if now is not None:
                self._seen.setdefault(size, []).append((self._asked, now))
                self._tell(size, now)

    def now(self, cluster: Cluster) -> Price | None:
        """Ask for the price of a cluster's nodes, and return it; None if Azure states none."""
        self.look([cluster], again=True)
        return self._prices.find(cluster.size, cluster.priority)

    def highest(self, cluster: Cluster, seconds: float) -> Price | None:
        """Ask for the price of a cluster's nodes, and return the highest one of a time that ends
        now; None if it was not watched all the time.

        Args:
            cluster: A cluster of Spot nodes.
            seconds: Length of the time.
        """
        self.look([cluster], again=True)
        now = self._clock()
        begin = now - seconds - UNWATCHED_SECONDS
        seen = [(at, price) for at, price in self._seen.get(cluster.size, []) if at >= begin]
        times = [at for at, _ in seen]
        watched = bool(times) and times[0] <= now - seconds + UNWATCHED_SECONDS
        gaps = (later - at for at, later in pairwise([*times, now]))
        if not watched or any(gap > UNWATCHED_SECONDS for gap in gaps):
            return None
        return max((price for _, price in seen), key=lambda price: price.amount)

    def priced(self, budget: Budget | None, cluster: Cluster | None) -> Budget | None:
        """Ask for the prices of a cluster's nodes before another attempt on it, tell if they have
        moved, and return the budget with them.
        """
        if cluster is None or cluster.priority != "LowPriority":
            return budget
        if budget is not None:
            before = Price(budget.price, budget.currency, "hour", _SUBMITTED)
            if self._submitted.get(cluster.size) != before:
                # A look in between may have been the first, and it had nothing to compare with.
                self._told[cluster.size] = self._submitted[cluster.size] = before
        self.look([cluster], again=True)
        if budget is None:
            return None
        now = self._prices.find(cluster.size, "LowPriority")
        return budget.priced(now, self._prices.highest(cluster.size, "LowPriority"))

    def priced_elsewhere(self, budget: Budget, cluster: Cluster) -> Budget | None:
        """Ask for the prices of a cluster's nodes before the first attempt on it, and return the
        budget with them; None if Azure states no price in the currency of the budget.
        """
        self._ask([cluster.size] if cluster.priority == "LowPriority" else [])
        now = self._prices.find(cluster.size, cluster.priority)
        if now is None or now.currency != budget.currency:
            return None
        return budget.priced(now, self._prices.highest(cluster.size, cluster.priority))

    def _due(self) -> bool:
        return self._asked is None or self._clock() - self._asked >= ASK_SECONDS

    def _tell(self, size: str, now: Price) -> None:
        before = self._told.setdefault(size, now)
        text = moved(before, now)
        if text is not None:
            self._told[size] = now
            most = self._prices.highest(size, "LowPriority")
            limit = f", of at most {money(most.amount, most.currency)}" if most else ""
            self._say(f"the price of Spot {size} {text}{limit}")


def rates_of(manager: ResourceManager, console: Console) -> Rates:
    """Create the rates of a workspace's region."""
    read = partial(read_prices, manager)
    return Rates(read, console.say, lambda: manager.now().timestamp())


def moved(before: Price, now: Price) -> str | None:
    """Say how a price has moved; None if it has not by more than `MOVED`. Pure."""
    if before.currency != now.currency or before.amount <= 0:
        return None
    change = now.amount / before.amount - 1
    if abs(change) <= MOVED:
        return None
    old, new = (money(price.amount, price.currency) for price in (before, now))
    way = "risen" if change > 0 else "fallen"
    return f"has {way} by {abs(change):.0%}, from {old} to {new} an hour"
