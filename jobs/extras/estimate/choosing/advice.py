"""Which choice to take: the cheapest within a deadline, or the fastest within a budget. Pure."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from common.errors import ConfigError
from common.prices import UNKNOWN, money
from jobs.extras.estimate.forecast import Choice

End = Literal["middle", "high"]
"""Whether a limit holds by the middle of the range, or even at its slow end."""

ENDS: Final[dict[End, str]] = {"high": "even at the slow end", "middle": "by the middle"}
_TIME: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(d|h|min)")


@dataclass(frozen=True)
class Wish:
    """What a choice is to keep within; None has no limit."""

    hours: float | None = None
    """The cheapest choice is looked for."""
    money: float | None = None
    """The fastest choice is looked for."""

    def __str__(self) -> str:
        if self.hours is not None:
            return f"cheapest within {self.hours:.3g} h"
        return "" if self.money is None else f"fastest within {self.money:,.2f}"

    def advice(self, choices: Sequence[Choice], end: End) -> "Advice":
        """Return the best choice within the limit; the nearest one to it if none is within."""
        # Along the front, money rises while hours fall.
        front = pareto(choices, end)
        if self.hours is not None:
            fitting = [one for one in front if hours_of(one, end) <= self.hours]
            best = next(iter(fitting or front[-1:]), None)
        else:
            most = self.money or 0.0
            fitting = [one for one in front if money_of(one, end) <= most]
            best = next(iter(fitting[-1:] or front), None)
        return Advice(self, end, best, bool(fitting))


@dataclass(frozen=True)
class Advice:
    """What to take for one wish and one end of the ranges."""

    wish: Wish
    end: End
    choice: Choice | None
    """None if nothing is known of any choice."""
    possible: bool
    """Whether the choice keeps within the limit; if not, it is the nearest to it."""

    @property
    def words(self) -> tuple[str, str]:
        """The wish, with the end of the ranges for which it is to hold, and what to take."""
        choice, wished = self.choice, f"{self.wish}, {ENDS[self.end]}:"
        if choice is None:
            return wished, "nothing is known of any choice"
        currency = choice.price.currency if choice.price else UNKNOWN
        takes = f"{hours_of(choice, self.end):.2f} h, {money(money_of(choice, self.end), currency)}"
        nearest = "" if self.possible else "not possible; nearest is "
        return wished, f"{nearest}{choice.key} {choice.priority}, {takes}"


def read_deadline(text: str) -> float:
    """Return the hours of a text such as 2h, 30d or 90min.

    Raises:
        ConfigError: It is no such text, or not above 0.
    """
    found = _TIME.fullmatch(text.strip())
    factor = {"d": 24.0, "h": 1.0, "min": 1 / 60}
    hours = float(found[1]) * factor[found[2]] if found else 0.0
    if hours <= 0:
        raise ConfigError([f"--deadline: {text!r} must be a time such as 2h, 30d or 90min"])
    return hours


def hours_of(choice: Choice, end: End) -> float:
    """Return the hours of a recommendable choice at one end of its range."""
    if choice.hours is None:
        raise ValueError(f"{choice.key}: has no hours")
    return choice.hours.high if end == "high" else choice.hours.middle


def money_of(choice: Choice, end: End) -> float:
    """Return the cost of a recommendable choice at one end of its range."""
    if choice.money is None:
        raise ValueError(f"{choice.key}: has no cost")
    return choice.money.high if end == "high" else choice.money.middle


def pareto(choices: Iterable[Choice], end: End) -> list[Choice]:
    """Return the recommendable choices that no other beats in both hours and money, or in one of
    them with the other equal; the cheapest first.
    """
    front: list[Choice] = []
    known = [choice for choice in choices if choice.recommendable]
    for choice in sorted(known, key=lambda one: (money_of(one, end), hours_of(one, end))):
        if not front or hours_of(choice, end) < hours_of(front[-1], end):
            front.append(choice)
    return front
