"""A plan as a table, sentences, JSON and the content of its page. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from common.page import plots
from common.prices import UNKNOWN, money
from jobs.console import table
from jobs.planning import page as pages
from jobs.planning import recommendation
from jobs.planning.back_test import CLASSES, scores
from jobs.planning.forecast import LOSSES_SOURCE, Assumptions, Choice
from jobs.planning.points import Point
from jobs.planning.recommendation import ENDS, Advice
from jobs.planning.throughput import MEASURE_TWO
from jobs.planning.values import in_parts, words
from jobs.planning.workload import Workload


@dataclass(frozen=True)
class Plan:
    """All choices for one training."""

    workload: Workload
    choices: tuple[Choice, ...]
    advice: tuple[Advice, ...]
    """Empty if nothing was wished for."""
    wish: str
    """Such as within 2 h; empty if nothing was wished for."""
    assumptions: Assumptions
    points: tuple[Point, ...]

    @property
    def front(self) -> list[Choice]:
        """Choices that no other beats in hours and money, by the middle."""
        return recommendation.pareto(self.choices, "middle")

    def document(self) -> dict[str, Any]:
        """Return the plan for JSON output."""
        return {
            "model": self.workload.model,
            "images": self.workload.images,
            "epochs": self.workload.epochs,
            "assumptions": {
                "start_minutes": self.assumptions.start_minutes,
                "hours_between_losses": self.assumptions.hours_between_losses,
                "account_gbits": self.assumptions.account_gbits,
            },
            "choices": [choice.document() for choice in self.choices],
            "pareto_front": [[choice.key, choice.priority] for choice in self.front],
            "wish": self.wish or None,
            "recommended": [
                {
                    "holds": ENDS[each.end],
                    "possible": each.possible,
                    "choice": each.choice.key if each.choice else None,
                    "priority": each.choice.priority if each.choice else None,
                }
                for each in self.advice
            ],
        }


def explanation(choice: Choice) -> str:
    """Return every number of a choice with its formula and source."""
    head = f"{choice.key}, {choice.priority}: {choice.basis}"
    if choice.reason:
        head += f", {choice.reason}"
    found = [head]
    for ground in choice.grounds:
        formula = f"  = {ground.formula}" if ground.formula else ""
        found.append(f"  {ground.name}: {ground.value}{formula}")
        if ground.source:
            found.append(f"      from {ground.source}")
    return "\n".join([*found, *(f"  note: {note}" for note in choice.notes)])


def training(workload: Workload) -> str:
    """Return the training in a line."""
    return (
        f"{workload.model}, {workload.precision}, {workload.software}:"
        f" {workload.images:,} images ({workload.gigabytes:g} GB), {workload.epochs:g} epochs,"
        f" {workload.batch_per_gpu} images a GPU"
    )


def lines(plan: Plan) -> Iterator[str]:
    """Return the plan as text."""
    yield training(plan.workload)
    front = {(choice.key, choice.priority) for choice in plan.front}
    rows = [row(choice, marked=(choice.key, choice.priority) in front) for choice in plan.choices]
    yield table(HEADS, rows)
    yield "middle (low - high); * no other choice is both faster and cheaper, by the middle"
    yield ""
    for advice in plan.advice:
        yield " ".join(advised(advice, plan.wish))
    yield from footer(plan)


HEADS: Final = (
    *("", "nodes", "priority", "images/s", "efficiency", "hours", "cost", "lost", "binds", "basis"),
)


def row(choice: Choice, *, marked: bool) -> tuple[str, ...]:
    """Return the texts of a choice in the table."""
    return tuple(
        f"{main} ({remark})" if main and remark else main or remark
        for main, remark in cells(choice, marked=marked)
    )


def cells(choice: Choice, *, marked: bool) -> tuple[tuple[str, str], ...]:
    """Return the cells of a choice, each with what stands in brackets behind it."""
    name = f"{choice.size.name.removeprefix('Standard_')}{' *' if marked else ''}"
    first = (name, ""), (str(choice.nodes), ""), (choice.priority, "")
    if choice.images_per_s is None:
        short = choice.reason if choice.reason == MEASURE_TWO else "not known"
        return (*first, (UNKNOWN, ""), *((("", ""),) * 4), (short, ""), (choice.basis, ""))
    lost = choice.lost
    return (
        *first,
        in_parts(choice.images_per_s),
        (UNKNOWN if choice.efficiency is None else f"{choice.efficiency:.0%}", ""),
        in_parts(choice.hours),
        cost(choice),
        ("-" if lost is None or not lost.high else f"{lost.low:.0%} - {lost.high:.0%}", ""),
        (choice.binds, ""),
        (choice.basis, ""),
    )


def cost(choice: Choice) -> tuple[str, str]:
    """Return the cost of a choice in words, and its range; a lower bound is called one."""
    if choice.money is not None and choice.price is not None:
        middle, ends = in_parts(choice.money)
        return f"{middle} {choice.price.currency}", ends
    if choice.money_at_least is not None:
        return UNKNOWN, f"at least {choice.money_at_least:,.2f}"
    return UNKNOWN, ""


def advised(advice: Advice, wish: str) -> tuple[str, str]:
    """Return a wish, with the end of the ranges for which it is to hold, and what to take."""
    choice, wished = advice.choice, f"{wish}, {ENDS[advice.end]}:"
    if choice is None:
        return wished, "nothing is known of any choice"
    hours = recommendation.hours_of(choice, advice.end)
    amount = recommendation.money_of(choice, advice.end)
    currency = choice.price.currency if choice.price else UNKNOWN
    nearest = "" if advice.possible else "not possible; nearest is "
    takes = f"{hours:.2f} h, {money(amount, currency)}"
    return wished, f"{nearest}{choice.key} {choice.priority}, {takes}"


def page_of(plan: Plan) -> pages.PlanPage:
    """Return the content of the plan's page. Pure."""
    shown, costs = (
        pages.throughput_series(plan.choices, plan.points),
        pages.cost_series(plan.choices),
    )
    colours = [series.name for series in shown]
    currency = next((choice.price.currency for choice in plan.choices if choice.price), "")
    drawn = [
        plots.plot("Throughput", "images/s, middle and range", "nodes", shown, colours),
        plots.plot(
            "Cost of the training", f"{currency}, middle and range", "nodes", costs, colours
        ),
    ]
    front = {(choice.key, choice.priority) for choice in plan.front}
    return pages.PlanPage(
        title=f"Plan of {plan.workload.model}",
        heading=f"What {plan.workload.model} would take",
        above="Nothing has been rented",
        lead=training(plan.workload),
        advice=[advised(advice, plan.wish) for advice in plan.advice],
        plots=[plot for plot in drawn if plot is not None],
        heads=("size", *HEADS[1:]),
        rows=[
            dict(
                zip(
                    ("size", *HEADS[1:]),
                    cells(choice, marked=(choice.key, choice.priority) in front),
                    strict=True,
                )
            )
            for choice in plan.choices
        ],
        footer=list(map(str.strip, footer(plan))),
    )


def footer(plan: Plan) -> Iterator[str]:
    """Return what the figures rest on, and what would narrow them."""
    assumed = plan.assumptions
    if any(choice.priority == "LowPriority" for choice in plan.choices):
        yield f"assumed: {assumed.hours_between_losses:g} h between losses of a low-priority node;"
        yield f"  {LOSSES_SOURCE}"
        for choice in plan.choices:
            if choice.hours_by_losses:
                others = "; ".join(
                    f"with {between:g} h: {words(hours, 'h')}"
                    for between, hours in choice.hours_by_losses.items()
                )
                yield f"  {choice.key}: {others}"
    yield (
        f"assumed: {assumed.start_minutes:g} minutes until the first step;"
        f" {assumed.account_gbits:g} Gbit/s from the storage account"
    )
    for reason in dict.fromkeys(c.reason for c in plan.choices if c.images_per_s is None):
        names = [c.size.name.removeprefix("Standard_") for c in plan.choices if c.reason == reason]
        yield f"?: {reason}: {', '.join(dict.fromkeys(names))}"
    for note in dict.fromkeys(
        f"{choice.size.name.removeprefix('Standard_')}: {note}"
        for choice in plan.choices
        for note in choice.notes
    ):
        yield f"note: {note}"
    for name in ("gpu", "node", "InfiniBand"):
        score = scores()[name]
        held = "?" if score.coverage is None else f"{score.coverage:.0%}"
        yield (
            f"ranges: {CLASSES[name][1]}: x {score.range.low:.2f} to {score.range.high:.2f} of the"
            f" middle, the 5th to 95th percentile of what was published; held {held} of the rows of"
            " publishers that were left out"
        )
    for source in dict.fromkeys(choice.price.source for choice in plan.choices if choice.price):
        yield f"prices: {source.title}, {source.date}: {source.url}"
    spare = next((c for c in plan.choices if c.money_at_least is not None), None)
    if spare is not None:
        yield (
            "prices: of LowPriority only a lower bound is known, so it is not recommended;"
            " --prices live asks Azure's price list. Spot is another market and does not replace it"
        )
    yield (
        "to narrow a range: measure images/s on one and two nodes (`python -m jobs scaling --stack"
        " STACK --nodes 1 2`); a plan of that stack then uses the points"
    )
