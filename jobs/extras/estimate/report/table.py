"""A plan as a table for a terminal, sentences, JSON and a page that can be filed. Pure."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import date
from math import inf
from textwrap import wrap
from typing import Any, Final

from common.prices import UNKNOWN
from jobs.console import table
from jobs.extras.estimate.choosing.advice import ENDS, Advice, pareto
from jobs.extras.estimate.choosing.campaign import Campaign, months
from jobs.extras.estimate.forecast import LOSSES_SOURCE, Assumptions, Choice
from jobs.extras.estimate.rates import unused
from jobs.extras.estimate.workload import Workload
from jobs.throughput import Point, Span, in_parts, words

WIDTH: Final = 80
"""Columns of a terminal that the table and all sentences fit."""
_HEADS: Final = ("choice", "pays", "batch", "hours", "cost", "basis")


@dataclass(frozen=True)
class Knowing:
    """What measuring would narrow."""

    choice: Choice
    after: Choice
    """The choice, if two points were measured and were as expected."""
    money: float
    """What the points cost."""

    def __str__(self) -> str:
        currency = self.choice.price.currency if self.choice.price else UNKNOWN
        before, after = ("-".join(f"{end:,.0f}" for end in (span.low, span.high)) if span else "?"
                         for span in (self.choice.money, self.after.money))  # fmt: skip
        nodes = "one node" if self.choice.nodes == 1 else "one and two nodes"
        return (
            f"to know better: points on {nodes} of {self.choice.size.name} for about"
            f" {self.money:,.0f} {currency} narrow {self.choice.key} from {before} to {after}"
            f" {currency} (`scaling`, docs/plan.md)"
        )


@dataclass(frozen=True)
class Plans:
    """All choices for one run, or for a campaign of such runs."""

    workload: Workload
    choices: tuple[Choice, ...]
    advice: tuple[Advice, ...]
    """Empty if nothing was wished for."""
    assumptions: Assumptions
    points: tuple[Point, ...]
    """Measured points."""
    campaign: Campaign
    knowing: Knowing | None
    begin: date
    """First day of the campaign."""
    where: str = ""
    """Region and currency of the prices."""

    @property
    def front(self) -> list[Choice]:
        """Choices that no other beats in hours and money, by the middle."""
        return pareto(self.choices, "middle")

    @property
    def chosen(self) -> Choice | None:
        """What is recommended, or else the cheapest choice that may be."""
        advised = [one.choice for one in self.advice if one.choice is not None]
        return next(iter([*advised, *self.front]), None)

    @property
    def currency(self) -> str:
        return next((one.price.currency for one in self.choices if one.price), UNKNOWN)

    def advised(self) -> list[str]:
        """Return what was wished for, with what to take, in words."""
        each = "" if self.campaign.single else f"each of {self.campaign.count} runs: "
        return [each + " ".join(one.words) for one in self.advice]

    def document(self) -> dict[str, Any]:
        """Return the plan for JSON output."""
        assumed = asdict(self.assumptions)
        del assumed["other_hours_between_losses"]
        chosen = self.chosen
        return {
            "model": self.workload.model,
            "data": str(self.workload.data),
            "images": self.workload.images,
            "assumptions": assumed,
            "prices": self.where,
            "choices": [choice.document() for choice in self.choices],
            "pareto_front": [[choice.key, choice.priority] for choice in self.front],
            "wish": str(self.advice[0].wish) if self.advice else None,
            "recommended": [
                {
                    "holds": ENDS[each.end],
                    "possible": each.possible,
                    "choice": each.choice.key if each.choice else None,
                    "priority": each.choice.priority if each.choice else None,
                }
                for each in self.advice
            ],
            "runs": self.campaign.count,
            "campaign": (
                None
                if chosen is None
                else {
                    "choice": [chosen.key, chosen.priority],
                    "cost": [round(one, 2) for one in self.campaign.money(chosen).values],
                    "hours": [round(one, 3) for one in self.campaign.hours(chosen).values],
                    "by_month": {
                        name: [round(one, 2) for one in span.values]
                        for name, span in self.campaign.by_month(chosen, self.begin)
                    },
                }
            ),
            "points_not_used": unused(self.points, self.workload),
        }

    def lines(self) -> Iterator[str]:
        """Return the plan as text that fits a terminal of 80 columns."""
        yield from _wrapped(str(self.workload))
        front = {(choice.key, choice.priority) for choice in self.front}
        known = [one for one in self.choices if one.images_per_s is not None]
        heads = [*_HEADS[:4], f"cost, {self.currency}", _HEADS[5]]
        yield ""
        yield table(heads, [self._row(one, (one.key, one.priority) in front)
                            for one in sorted(known, key=by_money)])  # fmt: skip
        yield from _wrapped(
            "middle (low - high), from submission to end. * no other choice is both faster and"
            " cheaper; ! never recommended, see below"
        )
        yield ""
        for sentence in self.advised():
            yield from _wrapped(sentence)
        for sentence in (*self.about(), *self.footer()):
            yield from _wrapped(sentence)

    def _row(self, choice: Choice, marked: bool) -> list[str]:  # noqa: FBT001
        against = "!" if choice.advised_against else "*" if marked else " "
        batch = f"{choice.global_batch:,}" if choice.global_batch else UNKNOWN
        pays = "spot" if choice.priority == "LowPriority" else "ded."
        cost = _short(choice.money)
        if choice.money is None and choice.money_at_most is not None:
            cost = f"at most {choice.money_at_most:,.0f}"
        name = f"{choice.key.replace('_A100_v4', '').replace('_H100', '')}{against}"
        return [name, pays, batch, _short(choice.hours), cost, choice.basis]

    def about(self) -> Iterator[str]:
        """What a reader has to know of the choice that would be taken."""
        chosen = self.chosen
        if chosen is None:
            yield "nothing can be recommended: no choice has a price, an end and a tested range"
            return
        yield f"{chosen.key} {chosen.priority}: {chosen.steps:,} steps, {chosen.epochs:.4g} epochs;"
        yield f"risk: {chosen.risk}; a range is no bound"
        if self.knowing is not None:
            yield str(self.knowing)
        if not self.campaign.single:
            cost = words(self.campaign.money(chosen), self.currency)
            yield f"campaign: {self.campaign}: {cost}, {words(self.campaign.hours(chosen), 'h')}"
            yield months(self.campaign.by_month(chosen, self.begin), self.currency)

    def footer(self) -> Iterator[str]:
        """Return what the figures rest on, and what was left out."""
        yield from self._left_out()
        assumed, choices = self.assumptions, self.choices
        spot = any(choice.priority == "LowPriority" for choice in choices)
        if spot:
            yield (
                f"assumed: {assumed.hours_between_losses:g} h between losses of a Spot node;"
                f" {LOSSES_SOURCE}"
            )
        yield (
            f"{assumed.start_source}: {assumed.start_minutes:.3g} minutes until the first step;"
            f" assumed: {assumed.account_gbits:g} Gbit/s from the storage account"
        )
        for risk in dict.fromkeys(one.risk for one in choices if one.images_per_s is not None):
            yield f"ranges: {risk}"
        missing = _names(one for one in choices if one.images_per_s and not one.price)
        if missing:
            yield (
                f"?: no price in {self.where}: {missing}; `python -m jobs prices --region REGION`"
                " asks Azure's public list"
            )
        for source in dict.fromkeys(one.price.source for one in choices if one.price):
            yield f"prices: {self.where}: {source.title}, {source.date}: {source.url}"
        if spot:
            yield (
                "prices: low priority is Spot: low and middle are by its price at that date, and"
                " high is by the pay-as-you-go price, which it may reach"
            )

    def _left_out(self) -> Iterator[str]:
        """What is not known, not recommended or not used, and why."""
        choices = self.choices
        for reason in dict.fromkeys(one.reason for one in choices if one.images_per_s is None):
            yield f"?: {reason}: {_names(one for one in choices if one.reason == reason)}"
        for against in dict.fromkeys(one.advised_against for one in choices):
            if against is not None:
                told = (one.key for one in choices if one.advised_against == against)
                yield f"!: {against}: {', '.join(dict.fromkeys(told))}"
        for note in dict.fromkeys(note for one in choices for note in one.notes):
            yield f"note: {_names(one for one in choices if note in one.notes)}: {note}"
        for reason in unused(self.points, self.workload):
            yield f"measured, but not used: {reason}"


def _wrapped(text: str) -> list[str]:
    return [line for part in text.splitlines()
            for line in wrap(part, WIDTH, subsequent_indent="  ", break_long_words=False,
                             break_on_hyphens=False)]  # fmt: skip


def by_money(choice: Choice) -> tuple[bool, float, str]:
    known = choice.money
    return known is None, known.middle if known else 0.0, choice.key


def _names(choices: Iterator[Choice]) -> str:
    names = (choice.size.name.removeprefix("Standard_") for choice in choices)
    return ", ".join(dict.fromkeys(names))


def _short(span: Span | None) -> str:
    """Format a range with two digits at its ends, so that a table fits a terminal."""
    if span is None:
        return UNKNOWN
    low, high = (_two_digits(end) for end in (span.low, span.high))
    middle, ends = in_parts(span)
    return f"{middle} ({low}-{high})" if ends else middle


def _two_digits(value: float) -> str:
    return (
        "never"
        if value == inf
        else f"{float(f'{value:.2g}'):,g}"
        if value < 1e6
        else f"{value:.2g}"
    )


def explanation(choice: Choice) -> str:
    """Return every number of a choice with its formula and source."""
    found = [
        ", ".join(filter(None, (f"{choice.key}, {choice.priority}: {choice.basis}", choice.reason)))
    ]
    for ground in choice.grounds:
        formula = f"  = {ground.formula}" if ground.formula else ""
        found.append(f"  {ground.name}: {ground.value}{formula}")
        if ground.source:
            found.append(f"      from {ground.source}")
    if choice.images_per_s is not None:
        found.append(f"  risk: {choice.risk}")
    if choice.advised_against:
        found.append(f"  never recommended: {choice.advised_against}")
    return "\n".join([*found, *(f"  note: {note}" for note in choice.notes)])
