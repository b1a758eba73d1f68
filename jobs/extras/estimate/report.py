"""A plan as text and JSON, with the choice to take. Pure."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any, Final

from common.errors import ConfigError
from common.prices import UNKNOWN, money
from jobs.console import table
from jobs.extras.estimate.forecast import Estimate, Forecaster
from jobs.extras.estimate.rows import why_not
from jobs.throughput import Span, words

WIDTH: Final = 80
"""Columns of a terminal that the table and all sentences fit."""
_TIME: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(d|h|min)")


def read_deadline(text: str) -> float:
    """Return the hours of a text such as 2h, 30d or 90min.

    Raises:
        ConfigError: It is not such a text, or not above 0.
    """
    match = _TIME.fullmatch(text.strip())
    hours = float(match[1]) * {"d": 24.0, "h": 1.0, "min": 1 / 60}[match[2]] if match else 0.0
    if hours <= 0:
        raise ConfigError([f"--deadline: {text!r} must be a time such as 2h, 30d or 90min"])
    return hours


@dataclass(frozen=True)
class Wish:
    """The limit of a choice: hours or, if these are None, an amount of money."""

    hours: float | None = None
    amount: float = 0.0

    def best(
        self, choices: Sequence[Estimate], end: Callable[[Span], float]
    ) -> tuple[Estimate | None, bool]:
        """Return the cheapest choice within the hours, or the fastest one for the amount, and
        whether there is one; without one, the nearest.

        Args:
            choices: Choices of which those that can be recommended are looked at.
            end: The end of a range that must keep within the limit.
        """
        known: list[tuple[float, float, Estimate]] = []
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
    choices: Sequence[Estimate]
    wish: Wish | None = None

    @property
    def _currency(self) -> str:
        return next((choice.price.currency for choice in self.choices if choice.price), UNKNOWN)

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
            (
                choice
                for choice in self.choices
                if choice.hours or choice.nodes == self.choices[0].nodes
            ),
            key=lambda choice: (
                choice.cost is None,
                choice.cost.middle if choice.cost else 0.0,
                choice.key,
            ),
        )
        yield table(heads, [_row(choice) for choice in ranked])
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
        """Return the basis of the figures, and which are unknown, not recommended or unused."""
        choices, assumed, where = self.choices, self.forecaster.assumed, self.forecaster.prices
        classes = dict.fromkeys(
            (choice.linear.of_class, choice.factor)
            for choice in choices
            if choice.linear and choice.factor
        )
        for of_class, factor in classes:
            yield (
                f"{of_class[0]}, by rows of {of_class[1]}: within a factor of {factor.off:.2f} for"
                f" 19 of 20 held-out rows ({factor.rows} of {factor.publishers} publishers)"
            )
        for reason in dict.fromkeys(choice.reason for choice in choices if choice.reason):
            yield f"?: {reason}: {_names(choice for choice in choices if choice.reason == reason)}"
        for against in dict.fromkeys(choice.advised_against for choice in choices):
            if against is not None:
                yield f"!: {against}: " + ", ".join(
                    dict.fromkeys(
                        choice.key for choice in choices if choice.advised_against == against
                    )
                )
        for line in self.unused():
            yield f"measured, but not used: {line}"
        losses = (
            f"; {assumed.hours_between_losses:g} h between losses of a Spot node, which costs up to"
            " the pay-as-you-go price"
            if any(choice.priority != "Dedicated" for choice in choices)
            else ""
        )
        yield f"assumed: {assumed.start_minutes:.3g} minutes until the first step{losses}"
        if any(choice.linear and not choice.price for choice in choices):
            yield "`python -m jobs prices --region REGION` asks Azure's public list for prices"
        for source in dict.fromkeys(choice.price.source for choice in choices if choice.price):
            yield f"prices: {where.where}: {source.title}, {source.date}: {source.url}"

    def unused(self) -> list[str]:
        """Return every point of the user that says nothing of the run, with the reason."""
        lines = []
        for point in self.forecaster.points:
            reason = why_not(point, self.forecaster.workload.config)
            if reason is not None:
                name = point.size.removeprefix("Standard_")
                at = f", {point.at}" if point.at else ""
                ranks = point.ranks // point.nodes
                lines.append(f"{name}, {point.nodes} x {ranks} ranks{at}: {reason}")
        return lines


def _row(choice: Estimate) -> list[str]:
    name = choice.key.replace("_A100_v4", "").replace("_H100", "")
    return [
        f"{name}{'!' if choice.advised_against else ' '}",
        "ded." if choice.priority == "Dedicated" else "spot",
        *(words(choice.hours), words(choice.cost), choice.basis),
    ]


def _names(choices: Iterator[Estimate]) -> str:
    return ", ".join(
        dict.fromkeys(choice.size.name.removeprefix("Standard_") for choice in choices)
    )


def _wrapped(text: str) -> list[str]:
    return [line for part in text.splitlines()
            for line in wrap(part, WIDTH, subsequent_indent="  ", break_long_words=False,
                             break_on_hyphens=False)]  # fmt: skip
