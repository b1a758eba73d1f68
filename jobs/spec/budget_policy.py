"""Decide how long an attempt may run on what is left of its run's budget. Pure.

The budget of a run becomes two limits of each attempt: a time after which the trainer saves its
state and stops by itself, and behind it the timeout of the job. The job's tags hold the facts that
the next attempt needs, so that every supervisor computes the same limits.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Self

from common.prices import Price, money
from common.text import duration, plural
from jobs.errors import SpecError
from jobs.spec.job_spec import JobSpec

LIMIT: Final = "budget"
"""Tag of a job with the budget of its run, such as 50 USD."""
PRICE: Final = "node_price"
"""Tag with the price of a node for an hour when the attempt was submitted."""
HIGHEST: Final = "node_price_at_most"
"""Tag with the highest price that a node of Spot can have, the pay-as-you-go price."""
SPENT: Final = "spent_before"
"""Tag with the cost of the earlier attempts of the run."""
MARGIN: Final = "budget_margin"
"""Tag with the seconds of `Budget.margin_seconds`."""
LONGEST: Final = "longest_seconds"
"""Tag with the seconds of `Budget.longest_seconds`."""
TAGS: Final = (LIMIT, PRICE, HIGHEST, SPENT, MARGIN, LONGEST)
"""All tags of `Budget.tags`, some of which a budget may not have."""

USEFUL = 1.0
"""Time for which an attempt must be able to train to be useful, as a multiple of its margin."""

AMOUNT: Final = re.compile(r"(\d+(?:\.\d+)?) ([A-Z]{3})")
"""An amount of money in a tag."""
_MAX_SECONDS: Final = re.compile(r"--max-seconds [\d.]+")


@dataclass(frozen=True)
class Limits:
    """Time limits of an attempt, in whole seconds."""

    timeout_seconds: int
    """Timeout of the job."""
    max_seconds: int
    """Time after which the trainer saves its state and stops."""


@dataclass(frozen=True)
class Budget:
    """Budget of a run, and its state before one of the attempts."""

    limit: float
    """Amount that all attempts together may cost."""
    currency: str
    price: float
    """Price of one node for an hour when the attempt is submitted, above 0."""
    nodes: int
    """Number of nodes of the attempt."""
    spent: float = 0.0
    """Cost of the earlier attempts, each at the highest price that was seen or possible."""
    margin_seconds: float = 300.0
    """Part of an attempt's time that is kept for its start and for saving its state."""
    at_most: float | None = None
    """Highest price that the node can have while the attempt runs; None is `price`. An attempt is
    limited by it, as the price of Spot can rise to it at any time."""
    longest_seconds: int | None = None
    """Timeout of the job without a budget: each attempt has it, however short the time was that the
    budget left to an earlier one. None sets no limit."""

    @classmethod
    def of(cls, tags: Mapping[str, str], nodes: int) -> Self | None:
        """Read the budget of a job's run from the tags of the job; None if it has none."""
        matches = [AMOUNT.fullmatch(tags.get(name, "")) for name in (LIMIT, PRICE, SPENT)]
        margin = tags.get(MARGIN, "")
        limit, price, spent = matches
        if not (limit and price and spent and margin.isdigit()) or float(price[1]) <= 0:
            return None
        amounts = float(limit[1]), limit[2], float(price[1])
        most = AMOUNT.fullmatch(tags.get(HIGHEST, ""))
        at_most = float(most[1]) if most else None
        longest = tags.get(LONGEST, "")
        longest_seconds = int(longest) if longest.isdigit() and int(longest) else None
        return cls(*amounts, nodes, float(spent[1]), float(margin), at_most, longest_seconds)

    @property
    def tags(self) -> dict[str, str]:
        """Tags from which `of` reads this budget."""
        most = self.at_most
        highest = {} if most is None else {HIGHEST: f"{most:.10g} {self.currency}"}
        longest = {} if self.longest_seconds is None else {LONGEST: str(self.longest_seconds)}
        return {
            **highest,
            **longest,
            LIMIT: f"{self.limit:.10g} {self.currency}",
            PRICE: f"{self.price:.10g} {self.currency}",
            SPENT: f"{self.spent:.6f} {self.currency}",
            MARGIN: f"{self.margin_seconds:.0f}",
        }

    @property
    def seconds(self) -> float:
        """Seconds for which the rest of the budget pays for all nodes of the attempt, whatever the
        price becomes.
        """
        return self._left * 3600 / (self.highest * self.nodes)

    @property
    def highest(self) -> float:
        """Price by which an attempt is limited."""
        return max(self.price, self.at_most or 0.0)

    @property
    def worst(self) -> float:
        """Upper bound of the cost of all attempts: the highest price is billed all the time, while
        supervisors count the price of now.
        """
        return self.spent + self._left * self.highest / self.price

    @property
    def _left(self) -> float:
        return max(self.limit - self.spent, 0.0)

    @property
    def least(self) -> float:
        """Lowest budget of the run with which the attempt would be useful."""
        return self.spent + self._useful_seconds * self.highest * self.nodes / 3600

    @property
    def used_up(self) -> bool:
        """Whether the rest is too small for an attempt that trains longer than its margin."""
        return self.seconds < self._useful_seconds

    def after(self, seconds: float, seen: Price | None = None) -> Self:
        """Return the budget after an attempt.

        Args:
            seconds: Running time of the attempt.
            seen: Highest price of a node that was seen while it ran; None if the price was not
                watched, so that the attempt may have cost the highest price all the time.
        """
        known = seen is not None and seen.currency == self.currency
        price = max(self.price, seen.amount) if seen is not None and known else self.highest
        return replace(self, spent=self.spent + seconds * price * self.nodes / 3600)

    def priced(self, price: Price | None, most: Price | None) -> Self:
        """Return the budget with the prices of today; those in another currency change nothing."""
        if price is None or price.currency != self.currency:
            return self
        same = most is not None and most.currency == self.currency and most.amount > price.amount
        return replace(self, price=price.amount, at_most=most.amount if same and most else None)

    def limits(self) -> Limits:
        """Return the limits of the attempt.

        Raises:
            SpecError: The rest of the budget, or the timeout, is too short for a useful attempt.
        """
        if self.used_up:
            raise SpecError([self._too_small()])
        timeout = int(self.seconds)
        if self.longest_seconds is not None:
            if self.longest_seconds < self._useful_seconds:
                raise SpecError([self._too_short(self.longest_seconds)])
            timeout = min(timeout, self.longest_seconds)
        return Limits(timeout, int(timeout - self.margin_seconds))

    def words(self) -> str:
        """Say what the budget pays for."""
        before = f", of which {money(self.spent, self.currency)} is spent" if self.spent else ""
        now = ""
        if self.highest > self.price:
            seconds = self._left * 3600 / (self.price * self.nodes)
            now = (
                f" at the pay-as-you-go price, which Spot may reach, and for {duration(seconds)} at"
                f" the {money(self.price, self.currency)} of now: an attempt ends at the former,"
                " and the next one gets the rest at the highest price that a supervisor has"
                " seen meanwhile, or at the pay-as-you-go price if none has watched"
            )
        timeout = ""
        if self.longest_seconds is not None and self.longest_seconds < self.seconds:
            timeout = f" its timeout of {duration(self.longest_seconds)}"
        return (
            f"{money(self.limit, self.currency)}{before}: pays for {self._nodes()} for"
            f" {duration(self.seconds)}{now}; the trainer saves its state and stops"
            f" {duration(self.margin_seconds)} before{timeout}. All attempts cost at most"
            f" {money(self.limit, self.currency)}{self._unseen()}"
        )

    def _unseen(self) -> str:
        if self.highest <= self.price:
            return ""
        return (
            f", or {money(self.worst, self.currency)} if the price rises to"
            f" {money(self.highest, self.currency)} each time after a supervisor has looked"
        )

    @property
    def _useful_seconds(self) -> float:
        return (1 + USEFUL) * self.margin_seconds

    def _nodes(self) -> str:
        each = f"{money(self.highest, self.currency)} an hour{' each' if self.nodes > 1 else ''}"
        return f"{plural(self.nodes, 'node')} at {each}"

    def _too_small(self) -> str:
        left = self._left
        spent = f" after the {money(self.spent, self.currency)} that earlier attempts cost"
        return (
            f"--budget: {money(left, self.currency)}{spent if self.spent else ''} pays for"
            f" {self._nodes()} for {duration(self.seconds)}, but"
            f" {duration(self.margin_seconds)} are kept for starting and saving, and an attempt"
            f" should train at least as long; pass more than {money(self.least, self.currency)},"
            " fewer --nodes, or a shorter --budget-margin-minutes"
        )

    def _too_short(self, seconds: int) -> str:
        return (
            f"--timeout-hours: {seconds / 3600:.3g}, but of each attempt with a --budget"
            f" {duration(self.margin_seconds)} are kept for starting and saving, and it should"
            f" train at least as long; pass more than {self._useful_seconds / 3600:.3g}, or a"
            " shorter --budget-margin-minutes"
        )


def limited(spec: JobSpec, budget: Budget) -> JobSpec:
    """Return a job that trains and ends within a budget.

    Raises:
        SpecError: The rest of the budget is too small for a useful attempt.
    """
    budget = replace(budget, longest_seconds=spec.timeout_seconds)
    limits = budget.limits()
    return replace(
        spec,
        command=with_max_seconds(spec.command, limits.max_seconds),
        timeout_seconds=limits.timeout_seconds,
        tags={**spec.tags, **budget.tags},
        notes=(*spec.notes, f"--budget: {budget.words()}"),
    )


def with_max_seconds(command: str, seconds: int) -> str:
    """Return the command line of a job that trains, with this --max-seconds."""
    flag = f"--max-seconds {seconds}"
    replaced, count = _MAX_SECONDS.subn(flag, command)
    return replaced if count else f"{command} {flag}"
