"""The page of a plan, which can be filed, signed and repeated. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final

from common.page.parts import Code, Page, Plots, Section, Stat, Table, Text
from common.page.plots import Series, plot
from common.prices import UNKNOWN, money
from jobs.extras.estimate.choosing.campaign import months
from jobs.extras.estimate.forecast import Choice
from jobs.extras.estimate.report.table import Plans, by_money
from jobs.throughput import Span, in_parts, words

_PAGE_HEADS: Final = (
    *("choice", "priority", "epochs", "to same accuracy", "global batch", "images/s", "hours"),
    *("cost", "lost", "binds", "basis"),
)


@dataclass(frozen=True)
class Filing:
    """What a page needs so that it can be filed, signed and repeated."""

    date: str
    commit: str
    command: str
    """The command line of the plan."""
    stack: str | None = None
    quota: Mapping[str, str] = field(default_factory=dict)
    """What is known of the quota of a size, by its name."""
    fared: tuple[str, ...] = ()
    """How earlier estimates of the stack fared, a line for each completed run."""


def page_of(plan: Plans, filing: Filing) -> Page:
    """Return the content of the plan's page."""
    chosen = plan.chosen
    return Page(
        title=f"Estimate of {plan.workload.model}",
        heading=f"What {plan.workload.model} would take",
        above=f"Nothing has been rented. {filing.date}",
        lead=str(plan.workload.data),
        notes=plan.advised(),
        stats=_stats(plan, chosen),
        sections=[
            Section("run", "What is trained", [_trained(plan, chosen)]),
            Section("choices", "Choices", [*_plots(plan), _choices(plan), *_against(plan)]),
            Section("risk", "Risk, and what it costs to know better",
                    [Text(one) for one in plan.about()]),
            Section("beside", "Everything beside nodes", [_beside(plan, chosen)]),
            Section("sizes", "Quota and retirement", [_sizes(plan, filing)]),
            Section("earlier", "How earlier estimates of the stack fared", [
                *[Text(line) for line in filing.fared or ("No completed run was compared.",)]
            ]),
            Section("grounds", "What the figures rest on", [
                *[Text(sentence) for sentence in plan.footer()],
                *([_grounds(chosen)] if chosen else []),
            ]),
            Section("repeat", "To reproduce it", [
                Text(f"Commit {filing.commit}, stack {filing.stack or 'none'},"
                     f" {filing.date}; prices: {plan.where or UNKNOWN}."),
                Code(filing.command),
                Text("Approved by (name, date, signature): ____________________", hint=True),
            ]),
        ],
        command="python -m jobs plan --page FILE",
    )  # fmt: skip


def _stats(plan: Plans, chosen: Choice | None) -> list[Stat]:
    if chosen is None:
        return [Stat("recommended", None, "nothing can be")]
    cost, ends = in_parts(plan.campaign.money(chosen))
    hours, range_ = in_parts(plan.campaign.hours(chosen))
    return [
        Stat("choice", chosen.key, chosen.priority),
        Stat("cost", f"{cost} {plan.currency}", f"{ends}, before tax and discounts"),
        Stat("hours", hours, range_),
        Stat("runs", str(plan.campaign.count), str(plan.campaign)),
    ]


def _trained(plan: Plans, chosen: Choice | None) -> Table:
    config, data = plan.workload.config, plan.workload.data
    rule = config.optimizer
    rows = [
        ("network", f"{plan.workload.model}, {config.compute.precision},"
                    f" {plan.workload.software}"),
        ("data set", str(data)),
        ("epochs", f"{config.epochs:g}" + (f", at most {config.max_steps:,} steps"
                                          if config.max_steps else "")),
        ("batch of a GPU", f"{config.batch_size:,} images,"
                           f" {plan.workload.micro_batch:,} at once"),
        ("optimizer", f"{rule.kind}, learning rate {rule.learning_rate:g} (scaling:"
                      f" {rule.rate_scaling}), {rule.schedule}"),
        ("preset", config.preset),
    ]  # fmt: skip
    if chosen is not None and chosen.steps is not None:
        rows.append(("steps", f"{chosen.steps:,} of {chosen.global_batch:,} images on"
                              f" {chosen.key}"))  # fmt: skip
    return Table("The run", ("", "as configured"), rows, "facts")


def _choices(plan: Plans) -> Table:
    front = {(choice.key, choice.priority) for choice in plan.front}
    rows = []
    for one in sorted(plan.choices, key=by_money):
        mark = "!" if one.advised_against else "*" if (one.key, one.priority) in front else ""
        same, lost = one.same_accuracy_epochs, one.lost
        batch = UNKNOWN if one.global_batch is None else f"{one.global_batch:,}"
        rows.append(
            (
                *(f"{one.key} {mark}".strip(), one.priority),
                UNKNOWN if one.epochs is None else f"{one.epochs:.4g}",
                *(UNKNOWN if same is None else f"{same:.0f}", batch),
                *(words(one.images_per_s), words(one.hours)),
                _cost(one),
                "-" if not lost or not lost.high else f"{lost.low:.0%} - {lost.high:.0%}",
                *(one.binds, one.basis),
            )
        )
    caption = (
        "Middle (low - high), the cheapest first. * no other choice is both faster and cheaper."
        " ! never recommended"
    )
    heads = [f"cost, {plan.currency}" if head == "cost" else head for head in _PAGE_HEADS]
    return Table(caption, heads, rows, "attempts")


def _against(plan: Plans) -> list[Text]:
    return [Text(line) for line in plan.footer() if line.startswith(("!:", "?:"))]


def _plots(plan: Plans) -> list[Plots]:
    rates = _series(plan, [(one, one.size.name, one.images_per_s) for one in plan.choices])
    costs = _series(
        plan,
        [
            (one, f"{one.size.name}{_spare(one.priority)}", one.money)
            for one in plan.choices
            if one.money is not None and one.money.high < inf
        ],
        measured=False,
    )
    colours = [series.name for series in rates]
    drawn = [
        plot("Throughput", "images/s, middle and range", "nodes", rates, colours),
        plot("Cost of a run", f"{plan.currency}, middle and range", "nodes", costs, colours),
    ]
    found = [one for one in drawn if one is not None]
    return [Plots(found)] if found else []


def _beside(plan: Plans, chosen: Choice | None) -> Table:
    campaign, data = plan.campaign, plan.workload.data
    month = campaign.platform_month
    rows: list[tuple[str, str, str]] = [
        ("platform while no job runs",
         f"{month:,.2f} {plan.currency} a month" if month else UNKNOWN,
         "docs/platform.md has the table; --platform-month counts it here"),
        ("storage of the data set", f"{data.gigabytes:,.4g} GB",
         f"not in the cost: its price in {plan.where or 'the region'} is not recorded"),
        ("tax, discounts, reservations", UNKNOWN, "not in the cost"),
    ]  # fmt: skip
    if chosen is not None:
        start, each = plan.assumptions.start_minutes / 60, chosen.price
        if each is not None:
            paid = start * chosen.nodes * each.amount * campaign.count
            rows.insert(1, ("starts of nodes", money(paid, each.currency),
                            f"in the cost: {plan.assumptions.start_minutes:.3g} minutes of each"
                            f" run, {plan.assumptions.start_source}"))  # fmt: skip
        tested = [one for one in chosen.grounds if one.name == "evaluations"]
        rows += [("evaluation", one.value, f"in the cost: {one.formula}") for one in tested]
        if not campaign.single:
            shown = months(campaign.by_month(chosen, plan.begin), plan.currency)
            rows.append(("by month", shown, str(campaign)))
    told = [(name, f"{amount}, {how}") for name, amount, how in rows]
    return Table("Costs that are not a run's time", ("", "amount"), told, "facts")


def _sizes(plan: Plans, filing: Filing) -> Table:
    rows = []
    for size in dict.fromkeys(one.size for one in plan.choices):
        state = size.status if size.since is None else f"{size.status} since {size.since}"
        quota = filing.quota.get(size.name, "not asked: name a stack with --stack")
        rows.append((size.name, f"{size.gpus} x {size.gpu}", state, quota))
    heads = ("size", "GPUs", "state in Azure's lists, November 2026", "quota")
    return Table("Whether the nodes can be had", heads, rows, "attempts")


def _series(
    plan: Plans, values: Sequence[tuple[Choice, str, Span | None]], *, measured: bool = True
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
                for point in plan.points
                if measured and point.usable and point.size.lower() == name.lower()
            ],
        )
        for name, spans in found.items()
    ]


def _spare(priority: str) -> str:
    return "" if priority == "Dedicated" else f", {priority}"


def _cost(choice: Choice) -> str:
    """Return the cost of a choice in words; an upper bound is called one."""
    if choice.money is not None and choice.price is not None:
        return words(choice.money)
    most = choice.money_at_most
    return UNKNOWN if most is None else f"? (at most {most:,.2f})"


def _grounds(choice: Choice) -> Table:
    rows = [(one.name, one.value, one.formula, one.source) for one in choice.grounds]
    heads = (choice.key, "value", "formula", "source")
    return Table(f"Every number of {choice.key} {choice.priority}", heads, rows)
