"""The option `--budget` of `submit`: the limits of an attempt within the budget of its run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from common.annotations import Bounds
from common.prices import Cost, NodePrices, Price, Total, total
from infra.outputs import Cluster
from jobs.azure.costs import JobCosts, read_prices
from jobs.azure.job_records import Job
from jobs.azure.workspace import Workspace
from jobs.errors import SpecError
from jobs.job_kinds import trains
from jobs.spec.budget_policy import LIMIT, Budget, limited
from jobs.spec.job_spec import JobSpec
from trainer.config import TrainConfig


@dataclass(frozen=True)
class BudgetOptions:
    """The limit of the cost of a run."""

    budget: Annotated[float | None, Bounds(above=0)] = None
    """What all attempts of the run may cost together, in the currency of Azure's prices for the
    region (the summary says it), estimated from the running times. Before it is used up, the run
    saves its state and stops. An attempt on Spot nodes ends when the budget would be used up at the
    pay-as-you-go price; the next one gets the remainder. None sets no limit."""

    budget_margin_minutes: Annotated[float, Bounds(above=0)] = 5.0
    """Part of each attempt's time that a budget keeps for its start and for saving its state."""


def within_budget(
    workspace: Workspace,
    clusters: Mapping[str, Cluster],
    spec: JobSpec,
    config: TrainConfig | None,
    options: BudgetOptions,
) -> JobSpec:
    """Return a job with the limits of the budget that the options give its run, if any.

    Raises:
        SpecError: The budget is too small or cannot be kept; says why and what to do.
        RequestError: Azure did not answer for prices or earlier attempts.
    """
    jobs, cluster = workspace.jobs, spec.cluster
    attempts = jobs.attempts(spec.run) if spec.tags.get("attempt") != "1" else ()
    if options.budget is None:
        before = attempts[-1].tags.get(LIMIT) if attempts else None
        if before is None:
            return spec
        note = f"--budget: earlier attempts had one of {before}; this attempt has none"
        return replace(spec, notes=(*spec.notes, note))
    if not trains(spec.kind):
        raise SpecError([f"--budget: a {spec.kind} does not stop by itself; pass --timeout-hours"])
    if config is not None and config.max_seconds is not None:
        raise SpecError(["--max-seconds: is set from --budget; omit one of them"])
    prices = read_prices(workspace.manager)
    price = prices.find(cluster.size, cluster.priority)
    instead = "omit it, and pass --timeout-hours and, some minutes shorter, -- --max-seconds"
    if price is None:
        raise SpecError(
            [
                f"--budget: Azure states no price of {cluster.priority} nodes of {cluster.size} in"
                f" this region, so how long it lasts is unknown; {instead}"
            ]
        )
    costs = JobCosts(jobs, workspace.manager, clusters).of(attempts)
    earlier, spent, currency = _earlier(attempts, costs, prices, clusters)
    if not earlier.complete or {*earlier.amounts, currency or price.currency} != {price.currency}:
        raise SpecError(
            [
                f"--budget: what earlier attempts of {spec.run} have cost is not known in"
                f" {price.currency} ({earlier}), so what is left is unknown; {instead}"
            ]
        )
    spent += earlier.amounts.get(price.currency, 0.0)
    margin = float(round(options.budget_margin_minutes * 60))
    budget = Budget(options.budget, price.currency, price.amount, spec.nodes, spent, margin)
    most = prices.highest(cluster.size, cluster.priority)
    return limited(spec, budget.priced(price, most))


def _earlier(
    attempts: Sequence[Job],
    costs: Mapping[str, Cost],
    prices: NodePrices,
    clusters: Mapping[str, Cluster],
) -> tuple[Total, float, str | None]:
    """Return the highest cost of the attempts of a run: those since the newest one with a
    budget, and the amount and currency that its tags have for those before it.
    """
    known = [Budget.of(job.tags, job.nodes) for job in attempts]
    since = max((index for index, budget in enumerate(known) if budget is not None), default=0)
    before = known[since] if known else None
    by_name = {cluster.name.lower(): cluster for cluster in clusters.values()}
    dearest = []
    for job, budget in zip(attempts[since:], known[since:], strict=True):
        cost, cluster = costs[job.name], by_name.get(job.cluster.lower())
        if budget is not None and cost.price is not None:
            price: Price | None = replace(cost.price, amount=budget.highest)
        else:
            most = prices.highest(cluster.size, cluster.priority) if cluster else None
            price = most or cost.price
        dearest.append(Cost(cost.node_seconds, price))
    return total(dearest), before.spent if before else 0.0, before.currency if before else None
