"""A plan as a table, sentences, JSON and the content of its page. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from common.page.parts import Page
from common.page.plots import Plot, Series, plot
from common.prices import UNKNOWN
from jobs.console import table
from jobs.estimate.advice import ENDS, Advice, pareto
from jobs.estimate.back_test import CLASSES, scores
from jobs.estimate.forecast import LOSSES_SOURCE, Assumptions, Choice
from jobs.estimate.rates import MEASURE_TWO
from jobs.estimate.workload import Workload
from jobs.throughput import Point, Span, in_parts, words

HEADS: Final = (
    *("size", "nodes", "priority", "images/s", "efficiency", "hours", "cost", "lost", "binds"),
    "basis",
)


@dataclass(frozen=True, kw_only=True)
class PlanPage(Page):
    """The content of the page."""

    plots: Sequence[Plot]
    advice: Sequence[tuple[str, str]]
    """Wishes, each with its answer."""
    heads: Sequence[str]
    rows: Sequence[Mapping[str, tuple[str, str]]]
    """Cells by column, each with its remark."""
    footer: Sequence[str]


@dataclass(frozen=True)
class Plan:
    """All choices for one run."""

    workload: Workload
    choices: tuple[Choice, ...]
    advice: tuple[Advice, ...]
    """Empty if nothing was wished for."""
    assumptions: Assumptions
    points: tuple[Point, ...]
    """Measured points."""

    @property
    def front(self) -> list[Choice]:
        """Choices that no other beats in hours and money, by the middle."""
        return pareto(self.choices, "middle")

    def document(self) -> dict[str, Any]:
        """Return the plan for JSON output."""
        assumed = asdict(self.assumptions)
        del assumed["other_hours_between_losses"]
        return {
            "model": self.workload.model,
            "images": self.workload.images,
            "epochs": float(self.workload.config.epochs),
            "assumptions": assumed,
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
        }

    def lines(self) -> Iterator[str]:
        """Return the plan as text."""
        yield str(self.workload)
        rows = [
            [f"{main} ({remark})" if main and remark else main or remark for main, remark in row]
            for row in self._rows()
        ]
        yield table(("", *HEADS[1:]), rows)
        yield "middle (low - high); * no other choice is both faster and cheaper, by the middle"
        yield ""
        for advice in self.advice:
            yield " ".join(advice.words)
        yield from footer(self)

    def page(self) -> PlanPage:
        """Return the content of the plan's page."""
        rates = self._series([(one, one.size.name, one.images_per_s) for one in self.choices])
        costs = self._series(
            [
                (one, f"{one.size.name}{_spare(one.priority)}", one.money)
                for one in self.choices
                if one.recommendable
            ],
            measured=False,
        )
        colours = [series.name for series in rates]
        currency = next((choice.price.currency for choice in self.choices if choice.price), "")
        drawn = [
            plot("Throughput", "images/s, middle and range", "nodes", rates, colours),
            plot("Cost of the training", f"{currency}, middle and range", "nodes", costs, colours),
        ]
        return PlanPage(
            title=f"Plan of {self.workload.model}",
            heading=f"What {self.workload.model} would take",
            above="Nothing has been rented",
            lead=str(self.workload),
            advice=[advice.words for advice in self.advice],
            plots=[one for one in drawn if one is not None],
            heads=HEADS,
            rows=[dict(zip(HEADS, row, strict=True)) for row in self._rows()],
            footer=[line.strip() for line in footer(self)],
        )

    def _rows(self) -> list[tuple[tuple[str, str], ...]]:
        front = {(choice.key, choice.priority) for choice in self.front}
        return [
            cells(choice, marked=(choice.key, choice.priority) in front) for choice in self.choices
        ]

    def _series(
        self, values: Sequence[tuple[Choice, str, Span | None]], *, measured: bool = True
    ) -> list[Series]:
        """Return values over nodes by name, with the measured points of their VM size."""
        found: dict[str, dict[int, Span]] = {}
        for choice, name, span in values:
            if span is not None:
                found.setdefault(name, {})[choice.nodes] = span
        return [
            Series(
                name.removeprefix("Standard_"),
                [(nodes, one.values) for nodes, one in sorted(spans.items())],
                [
                    (point.nodes, point.middle)
                    for point in self.points
                    if measured and point.usable and point.size.lower() == name.lower()
                ],
            )
            for name, spans in found.items()
        ]


def _spare(priority: str) -> str:
    return "" if priority == "Dedicated" else f", {priority}"


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
    return "\n".join([*found, *(f"  note: {note}" for note in choice.notes)])


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
        _cost(choice),
        ("-" if lost is None or not lost.high else f"{lost.low:.0%} - {lost.high:.0%}", ""),
        (choice.binds, ""),
        (choice.basis, ""),
    )


def _cost(choice: Choice) -> tuple[str, str]:
    """Return the cost of a choice in words, and its range; an upper bound is called one."""
    if choice.money is not None and choice.price is not None:
        middle, ends = in_parts(choice.money)
        return f"{middle} {choice.price.currency}", ends
    most = choice.money_at_most
    return UNKNOWN, "" if most is None else f"at most {most:,.2f}"


def footer(plan: Plan) -> Iterator[str]:
    """Return what the figures rest on, and what would narrow them."""
    assumed = plan.assumptions
    if any(choice.priority == "LowPriority" for choice in plan.choices):
        yield f"assumed: {assumed.hours_between_losses:g} h between losses of a Spot node;"
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
    notes = [
        f"note: {choice.size.name.removeprefix('Standard_')}: {note}"
        for choice in plan.choices
        for note in choice.notes
    ]
    yield from dict.fromkeys(notes)
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
    if any(choice.priority == "LowPriority" for choice in plan.choices):
        yield (
            "prices: LowPriority is Spot: low and middle are by its price at that date, and high is"
            " by the pay-as-you-go price, which it may reach; --prices live asks for today's"
        )
    yield (
        "to narrow a range: measure images/s on one and two nodes (docs/plan.md, Measure it); a"
        " plan of that stack then uses the points"
    )
