"""Which choice to take: the cheapest within a deadline, or the fastest within a budget. Pure."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from common.errors import ConfigError
from jobs.planning.forecast import Choice

End = Literal["middle", "high"]
"""Whether a limit holds by the middle of the range, or even at its slow end."""

ENDS: Final[dict[End, str]] = {"high": "even at the slow end", "middle": "by the middle"}
_TIME: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(h|min)")


@dataclass(frozen=True)
class Advice:
    """What to take for one wish and one end of the ranges."""

    end: End
    choice: Choice | None
    """None if nothing is known of any choice."""
    possible: bool
    """Whether the choice meets the wish; if not, it is the nearest to it."""


def read_deadline(text: str) -> float:
    """Return the hours of a text such as 2h, 1.5h or 90min.

    Raises:
        ConfigError: It is no such text, or not above 0.
    """
    found = _TIME.fullmatch(text.strip())
    hours = float(found[1]) / (60 if found[2] == "min" else 1) if found else 0.0
    if hours <= 0:
        raise ConfigError([f"--deadline: {text!r} must be a time such as 2h, 1.5h or 90min"])
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


def within_deadline(choices: Sequence[Choice], hours: float, end: End) -> Advice:
    """Return the cheapest choice that ends in time; if none does, the fastest."""
    return _best(pareto(choices, end), end, lambda one: hours_of(one, end) <= hours, cheapest=True)


def within_budget(choices: Sequence[Choice], amount: float, end: End) -> Advice:
    """Return the fastest choice that costs no more; if all cost more, the cheapest."""
    return _best(
        pareto(choices, end), end, lambda one: money_of(one, end) <= amount, cheapest=False
    )


def _best(
    front: Sequence[Choice], end: End, fits: Callable[[Choice], bool], *, cheapest: bool
) -> Advice:
    # Along the front, money rises while hours fall.
    fitting = [choice for choice in front if fits(choice)]
    if fitting:
        return Advice(end, fitting[0] if cheapest else fitting[-1], possible=True)
    if not front:
        return Advice(end, None, possible=False)
    return Advice(end, front[-1] if cheapest else front[0], possible=False)
