"""Costs of the jobs of a workspace, estimated from their times and the prices of their nodes.

The run history knows when a job's program started and ended. Azure bills allocated nodes, so the
estimate leaves out the time in which nodes are allocated, pull an image or are idle.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from common.files import write_atomically
from common.prices import Cost, NodePrices, Price, PriceSource, Total, read_vm_sizes, total
from common.text import duration
from infra.outputs import Cluster
from jobs.azure.job_records import Details, Job, Jobs, exit_status, listed_details
from jobs.azure.resource_manager import ResourceManager
from jobs.errors import RequestError
from jobs.evictions import is_evicted
from jobs.spec.budget_policy import AMOUNT, PRICE

LEFT_OUT: Final = (
    "estimated from running times and list prices of nodes, before tax and discounts; without"
    " allocation, image pulls, idle nodes, storage, network and registry, and on Spot without the"
    " time of nodes before their start or eviction"
)
"""The parts of an estimate, and the costs that it leaves out."""

FILE: Final = "cost.json"
"""File of a run's estimated cost in its folder, which the trainer's pages show."""

_THREADS: Final = 8


def read_prices(manager: ResourceManager) -> NodePrices:
    """Ask Azure for the prices of nodes in the stack's region.

    Raises:
        RequestError: Azure did not answer.
    """
    sizes = manager.get(f"{manager.location_id}/vmSizes")
    return NodePrices((read_vm_sizes(sizes, f"{datetime.now(UTC):%Y-%m-%d}"),))


def known_prices(manager: ResourceManager) -> NodePrices:
    """Ask Azure for the prices of nodes in the stack's region; none if it does not answer."""
    try:
        return read_prices(manager)
    except RequestError:
        return NodePrices()


def job_price(job: Job, clusters: Iterable[Cluster], prices: NodePrices) -> Price | None:
    """Return the price of a node of a job: the one that it was submitted with, or the current one.

    Returns:
        None if the stack has no such cluster any more, or no source states the price.
    """
    submitted = AMOUNT.fullmatch(job.tags.get(PRICE, ""))
    if submitted:
        date = f"{job.created:%Y-%m-%d}" if job.created else ""
        source = PriceSource(f"tag {PRICE} of job {job.name}", job.page or "", date)
        return Price(float(submitted[1]), submitted[2], "hour", source)
    own = (cluster for cluster in clusters if cluster.name.lower() == job.cluster.lower())
    cluster = next(own, None)
    return prices.find(cluster.size, cluster.priority) if cluster else None


@dataclass(frozen=True)
class JobCost(Cost):
    """Estimated cost of a job, and how often its nodes were started."""

    starts: int = 0
    """Nodes on which the job's program was started. Azure bills the start of each."""
    evicted: int = 0
    """Nodes of a job that lost some of them, at most: Azure does not say which. Azure bills them
    until they are gone, even if they were evicted before any work."""


def estimate(job: Job, details: Details | None, price: Price | None, now: datetime) -> JobCost:
    """Estimate the cost of a job until now. Pure.

    Args:
        job: The job.
        details: Its details; None if they could not be read.
        price: Price of one of its nodes.
        now: Current time, for a job that has not ended.
    """
    if details is None:
        return JobCost(None, price)
    evicted = job.nodes if _evicted(job, details) else 0
    if details.started is None:
        # A program that never started has used no node; one that has ended has both times.
        unused = 0.0 if details.ended or not job.ended else None
        return JobCost(unused, price, 0, evicted)
    if details.ended is None and job.ended:
        return JobCost(None, price, job.nodes, evicted)
    seconds = ((details.ended or now) - details.started).total_seconds()
    return JobCost(max(seconds, 0.0) * job.nodes, price, job.nodes, evicted)


def _evicted(job: Job, details: Details) -> bool:
    ended = job.ended and job.status != "Completed" and not job.canceled_by_us
    status = exit_status(job, details)
    return ended and is_evicted(details.messages, job.reported_status, status)


class JobCosts:
    """Looks up what jobs have cost."""

    def __init__(
        self, jobs: Jobs, manager: ResourceManager, clusters: Mapping[str, Cluster]
    ) -> None:
        self._jobs, self._manager, self._clusters = jobs, manager, clusters

    def of(self, jobs: Sequence[Job]) -> dict[str, JobCost]:
        """Return the cost of each job by its name; what Azure does not answer is unknown."""
        if not jobs:
            return {}
        prices, now = known_prices(self._manager), self._manager.now()
        # The run history has no request for the times of several jobs, so only those are asked for
        # that the list of jobs does not tell.
        with ThreadPoolExecutor(_THREADS) as pool:
            answers = list(pool.map(self._details, jobs))
        return {
            job.name: estimate(job, details, job_price(job, self._clusters.values(), prices), now)
            for job, details in zip(jobs, answers, strict=True)
        }

    def of_run(self, job: Job) -> list[Cost]:
        """Return the costs of the attempts of a job's run, or of the job if it belongs to none."""
        try:
            attempts = self._jobs.attempts(job.run) if job.attempt else (job,)
        except RequestError:
            return [Cost(None, None)]
        return list(self.of(attempts).values())

    def _details(self, job: Job) -> Details | None:
        try:
            return listed_details(job) or self._jobs.details(job.name)
        except RequestError:
            return None


def words(costs: Iterable[Cost]) -> tuple[str, str]:
    """Return node time and amount of costs in words."""
    summed = total(costs)
    known = duration(summed.node_seconds) if summed.node_seconds else "-"
    return known if summed.node_seconds or summed.complete else "?", str(summed)


def starts(costs: Iterable[JobCost]) -> dict[str, int]:
    """Return how many nodes jobs have started and lost."""
    counted = list(costs)
    return {
        "node_starts": sum(cost.starts for cost in counted),
        "evicted_nodes": sum(cost.evicted for cost in counted),
    }


def document(summed: Total) -> dict[str, Any]:
    """Return a sum of costs for JSON output; an unknown amount is null."""
    return {
        "node_seconds": round(summed.node_seconds, 1),
        "amounts": {key: round(value, 6) for key, value in summed.amounts.items()} or None,
        "complete": summed.complete,
    }


def write(folder: Path, summed: Total) -> None:
    """Write the cost of a run to its folder, if it is known completely and in one currency; an
    older one that is not known any more is removed.
    """
    if not summed.complete or len(summed.amounts) != 1:
        (folder / FILE).unlink(missing_ok=True)
    else:
        ((currency, amount),) = summed.amounts.items()
        write_atomically(folder / FILE, json.dumps({"amount": amount, "currency": currency}))
