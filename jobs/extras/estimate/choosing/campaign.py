"""Many runs of one plan: their number, total and money by month. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from math import ceil, inf
from typing import Final

from common.errors import ConfigError
from common.text import plural
from jobs.extras.estimate.forecast import Choice
from jobs.throughput import Span

HOURS_OF_MONTH: Final = 730.0
_PERCENT: Final = re.compile(r"(\d+(?:\.\d+)?)\s*%")


@dataclass(frozen=True)
class Campaign:
    """Runs that are planned together, all with the same configuration."""

    runs: int = 1
    """Configurations that are trained."""
    seeds: int = 1
    """Runs of each of them."""
    trials: int = 0
    """Further runs of a search, each as long as a run."""
    failed: float = 0.0
    """Share of runs that fail and are paid for; each counts as a whole run."""
    parallel: int = 1
    """Runs at a time."""
    platform_month: float = 0.0
    """What the platform costs in a month while no job runs, in the currency of the prices."""

    @property
    def count(self) -> int:
        """Runs that are paid for; a share of one counts as one."""
        planned = self.runs * self.seeds + self.trials
        return planned + ceil(round(planned * self.failed, 6))

    @property
    def single(self) -> bool:
        return self.count == 1

    def __str__(self) -> str:
        parts = [f"{plural(self.runs, 'run')} x {plural(self.seeds, 'seed')}"]
        parts += [f"{plural(self.trials, 'trial')}"] if self.trials else []
        parts += [f"{self.failed:.0%} that fail"] if self.failed else []
        return f"{' + '.join(parts)} = {plural(self.count, 'run')}, {self.parallel} at a time"

    def hours(self, choice: Choice) -> Span:
        """Return the hours from the first submission to the last end.

        Raises:
            ValueError: The choice has no hours.
        """
        if choice.hours is None:
            raise ValueError(f"{choice.key}: has no hours")
        return choice.hours.scaled(ceil(self.count / self.parallel))

    def money(self, choice: Choice) -> Span:
        """Return the cost of nodes and platform. The error of a plan is that of all of its runs, so
        that their ranges add up.

        Raises:
            ValueError: The choice has no cost, or no end.
        """
        if choice.money is None or choice.money.high == inf:
            raise ValueError(f"{choice.key}: has no cost")
        pairs = zip(choice.money.values, self.hours(choice).values, strict=True)
        return Span(*(
            self.count * each + self.platform_month * time / HOURS_OF_MONTH for each, time in pairs
        ))  # fmt: skip

    def of_run(self, hours: float | None, money: float | None) -> tuple[float | None, float | None]:
        """Return how long a run may take, and cost, so that the campaign keeps within its limits.

        Args:
            hours: Limit of the campaign.
            money: Limit of the campaign, without the platform's own cost.
        """
        each = None if hours is None else hours / ceil(self.count / self.parallel)
        return each, None if money is None else money / self.count

    def by_month(self, choice: Choice, begin: date) -> list[tuple[str, Span]]:
        """Return the cost by month: that of nodes as their hours pass, at the middle's pace."""
        hours, money = self.hours(choice).middle, self.money(choice)
        left, found, year, month = hours, [], begin.year, begin.month
        while left > 0:
            part = min(left, HOURS_OF_MONTH)
            found.append((f"{year}-{month:02}", money.scaled(part / hours)))
            left -= part
            year, month = (year + 1, 1) if month == 12 else (year, month + 1)
        return found


def read_share(text: str) -> float:
    """Return the share of a text such as 10%.

    Raises:
        ConfigError: It is no such text, or not below 100 %.
    """
    found = _PERCENT.fullmatch(text.strip())
    if found is None or float(found[1]) >= 100:
        raise ConfigError([f"--failed: {text!r} must be a share such as 10%, below 100%"])
    return float(found[1]) / 100


def months(values: Sequence[tuple[str, Span]], currency: str) -> str:
    """Return costs by month in words."""
    return "; ".join(
        f"{name}: {span.middle:,.0f} ({span.low:,.0f} - {span.high:,.0f}) {currency}"
        for name, span in values
    )
