"""A plan as text and JSON, with the choice to take. Pure."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any, Final

from common.errors import ConfigError
from common.prices import UNKNOWN, money
from jobs.console import table
from jobs.extras.estimate.forecast import Choice, Forecaster
from jobs.extras.estimate.rows import why_not
from jobs.throughput import Span, words

WIDTH: Final = 80
"""Columns of a terminal that the table and all sentences fit."""
_TIME: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(d|h|min)")


def read_deadline(text: str) -> float:
    """Return the hours of a text such as 2h, 30d or 90min.

    Raises:
        ConfigError: It is no such text, or not above 0.
    """
    found = _TIME.fullmatch(text.strip())
    hours = float(found[1]) * {"d": 24.0, "h": 1.0, "min": 1 / 60}[found[2]] if found else 0.0
    if hours <= 0:
        raise ConfigError([f"--deadline: {text!r} must be a time such as 2h, 30d or 90min"])
    return hours


@dataclass(frozen=True)
class Wish:
    """What a choice is to keep within: hours or, if these are None, an amount of money."""

    hours: float | None = None
    amount: float = 0.0

    def best(
        self, choices: Sequence[Choice], end: Callable[[Span], float]
    ) -> tuple[Choice | None, bool]:
        """Return the cheapest choice within the hours, or the fastest one for the amount, and
        whether there is one; without one, the nearest.

        Args:
            choices: Choices of which those that can be recommended are looked at.
            end: The end of a range that must keep within the limit.
        """
        known: list[tuple[float, float, Choice]] = []
        for choice in choices:
            if choice.recommendable and choice.hours and choice.cost:
                hours, cost = end(choice.hours), end(choice.cost)
                known.append((hours, cost, choice) if self.hours else (cost, hours, choice))
        limit = self.hours or self.amount
        fitting = [(other, limited, choice) for limited, other, choice in known if limited <= limit]
        best = min(fitting or known, key=lambda each: each[:2], default=None)
        return best and best[2], bool(fitting)

    def __str__(self) -> str:
        if self.hours is not None:
            return f"cheapest within {self.hours:.3g} h"
        return f"fastest within {self.amount:,.2f}"


ENDS: Final[dict[str, Callable[[Span], float]]] = {
    "even at the slow end": lambda span: span.high,
    "by the middle": lambda span: span.middle,
}


@dataclass(frozen=True)
class Report:
    """All choices for one run."""

    forecaster: Forecaster
    choices: Sequence[Choice]
    wish: Wish | None = None

    @property
    def _currency(self) -> str:
        return next((one.price.currency for one in self.choices if one.price), UNKNOWN)

    def document(self) -> dict[str, Any]:
        """Return the plan for JSON output."""
        workload, wish = self.forecaster.workload, self.wish
        best = {holds: wish.best(self.choices, end) for holds, end in ENDS.items() if wish}
        return {
            "model": workload.model,
            "data": str(workload.data),
            "images": workload.data.images,
            "assumptions": vars(self.forecaster.assumed),
            "prices": self.forecaster.prices.where,
            "choices": [choice.document() for choice in self.choices],
            "wish": str(wish) if wish else None,
            "recommended": [
                {
                    "holds": holds,
                    "possible": possible,
                    "choice": choice.key if choice else None,
                    "priority": choice.priority if choice else None,
                }
                for holds, (choice, possible) in best.items()
            ],
            "points_not_used": self.unused(),
        }

    def lines(self) -> Iterator[str]:
        """Return the plan as text that fits a terminal of 80 columns."""
        yield from _wrapped(str(self.forecaster.workload))
        yield ""
        heads = ["choice", "pays", "hours", f"cost, {self._currency}", "basis"]
        ranked = sorted(
            # More nodes than the first of which nothing is known would say the same.
            (one for one in self.choices if one.hours or one.nodes == self.choices[0].nodes),
            key=lambda one: (one.cost is None, one.cost.middle if one.cost else 0.0, one.key),
        )
        yield table(heads, [_row(one) for one in ranked])
        yield from _wrapped(
            "middle (low - high), from submission to end, before tax and discounts; ?: nothing was"
            " measured; !: never recommended, see below"
        )
        yield ""
        for sentence in (*self._advice(), *self._about()):
            yield from _wrapped(sentence)

    def _advice(self) -> Iterator[str]:
        for holds, end in ENDS.items() if self.wish else ():
            choice, possible = self.wish.best(self.choices, end) if self.wish else (None, False)
            if choice is None or choice.hours is None or choice.cost is None:
                yield f"{self.wish}, {holds}: nothing is known of any choice"
                continue
            cost = money(end(choice.cost), self._currency)
            nearest = "" if possible else "not possible; nearest is "
            yield (
                f"{self.wish}, {holds}: {nearest}{choice.key} {choice.priority},"
                f" {end(choice.hours):.2f} h, {cost}"
            )

    def _about(self) -> Iterator[str]:
        """Return what the figures rest on, and what is not known, recommended or used."""
        choices, assumed, where = self.choices, self.forecaster.assumed, self.forecaster.prices
        known = [one for one in choices if one.linear and one.factor]
        for of_class, factor in dict.fromkeys((one.linear.of_class, one.factor) for one in known
                                              if one.linear and one.factor):  # fmt: skip
            yield (
                f"{of_class[0]}, by rows of {of_class[1]}: within a factor of {factor.off:.2f} for"
                f" 19 of 20 held-out rows ({factor.rows} of {factor.publishers} publishers)"
            )
        for reason in dict.fromkeys(one.reason for one in choices if one.reason):
            yield f"?: {reason}: {_names(one for one in choices if one.reason == reason)}"
        for against in dict.fromkeys(one.advised_against for one in choices):
            if against is not None:
                yield f"!: {against}: " + ", ".join(
                    dict.fromkeys(one.key for one in choices if one.advised_against == against)
                )
        for line in self.unused():
            yield f"measured, but not used: {line}"
        losses = (
            f"; {assumed.hours_between_losses:g} h between losses of a Spot node, which costs up to"
            " the pay-as-you-go price"
            if any(one.priority != "Dedicated" for one in choices)
            else ""
        )
        yield f"assumed: {assumed.start_minutes:.3g} minutes until the first step{losses}"
        if any(one.linear and not one.price for one in choices):
            yield "`python -m jobs prices --region REGION` asks Azure's public list for prices"
        for source in dict.fromkeys(one.price.source for one in choices if one.price):
            yield f"prices: {where.where}: {source.title}, {source.date}: {source.url}"

    def unused(self) -> list[str]:
        """Return every point of the user that says nothing of the run, with the reason."""
        found = []
        for point in self.forecaster.points:
            reason = why_not(point, self.forecaster.workload.config)
            if reason is not None:
                name = point.size.removeprefix("Standard_")
                at = f", {point.at}" if point.at else ""
                ranks = point.ranks // point.nodes
                found.append(f"{name}, {point.nodes} x {ranks} ranks{at}: {reason}")
        return found


def _row(choice: Choice) -> list[str]:
    name = choice.key.replace("_A100_v4", "").replace("_H100", "")
    return [
        f"{name}{'!' if choice.advised_against else ' '}",
        "ded." if choice.priority == "Dedicated" else "spot",
        *(words(choice.hours), words(choice.cost), choice.basis),
    ]


def _names(choices: Iterator[Choice]) -> str:
    return ", ".join(dict.fromkeys(one.size.name.removeprefix("Standard_") for one in choices))


def _wrapped(text: str) -> list[str]:
    return [line for part in text.splitlines()
            for line in wrap(part, WIDTH, subsequent_indent="  ", break_long_words=False,
                             break_on_hyphens=False)]  # fmt: skip
