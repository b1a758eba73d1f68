"""`python -m jobs status`: what costs money now, runs, and jobs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from types import MappingProxyType
from typing import Annotated, Any, Final

from common.annotations import Bounds
from common.errors import ConfigError
from common.prices import Cost, NodePrices, total
from common.program import load
from infra.outputs import PlatformOutputs
from jobs.azure import costs
from jobs.azure.clusters import ClusterNodes, idle_cost, read_nodes
from jobs.azure.costs import JobCosts
from jobs.azure.job_records import Job, by_run
from jobs.azure.results import silent_seconds
from jobs.azure.workspace import Workspace, connect
from jobs.billed import BILLED
from jobs.console import Console, table
from jobs.following import job_states
from jobs.job_kinds import KINDS
from jobs.leaf import PLACED, OutputEntry

MAX_JOBS: Final = 500
"""Number of jobs, newest first, in which `status` looks for runs; Azure returns them in pages."""


@dataclass(frozen=True)
class StatusOptions:
    """Show what costs money now, and the runs with their attempts; or, with --jobs, list the jobs
    of the workspace, the newest first.
    """

    runs: Annotated[int, Bounds(at_least=1)] = 10
    """Number of runs to show, newest first. Runs among the newest 500 jobs that have not ended are
    always shown.
    """

    jobs: bool = False
    """List jobs instead."""

    limit: Annotated[int, Bounds(at_least=1)] = 30
    """Maximum number of jobs to list."""

    all: bool = False
    """Also list jobs that other programs submitted."""

    kind: str | None = None
    """List only jobs of this kind, such as train, prepare or score."""

    def __post_init__(self) -> None:
        if self.kind is not None and self.kind not in KINDS:
            known = ", ".join(KINDS)
            raise ConfigError([f"--kind: {self.kind!r} is not a kind of job; choose from {known}"])


@dataclass(frozen=True)
class Run:
    """A run with its attempts, oldest first."""

    key: str
    jobs: tuple[Job, ...]

    @property
    def last(self) -> Job:
        return self.jobs[-1]


def run(options: StatusOptions, outputs: PlatformOutputs, *, as_json: bool) -> int:
    """Show what costs money and the runs, or list jobs."""
    console, workspace = Console(as_json=as_json), connect(outputs)
    show = _list if options.jobs else _status
    show(options, outputs, workspace, console)
    return 0


def group_by_run(jobs: Iterable[Job]) -> list[Run]:
    """Group the jobs of this project by run, the run with the newest job first. Pure."""
    return [Run(key, tuple(own)) for key, own in by_run(jobs).items()]


def shown_runs(runs: Sequence[Run], limit: int) -> list[Run]:
    """Select the newest runs up to a limit, and all that have not ended. Pure."""
    return [run for index, run in enumerate(runs) if index < limit or not run.last.ended]


def cost_lines(
    clusters: Sequence[ClusterNodes], now: datetime, prices: NodePrices | None = None
) -> list[str]:
    """Describe the nodes that cost money now, one line per cluster, and why Azure could not add
    nodes, in its own words. Pure.
    """
    costly = [nodes for nodes in clusters if nodes.allocated]
    lines = ["no nodes are allocated, so no cluster costs anything now"]
    if costly:
        lines = ["nodes that cost money now:"]
        lines += [f"  {_cost(nodes, now, prices or NodePrices())}" for nodes in costly]
    errors = [
        f"{nodes.cluster} could not grow: {error}" for nodes in clusters for error in nodes.errors
    ]
    return [*lines, *errors]


def age(moment: datetime | None, now: datetime) -> str:
    """Format how long ago a time was, in its largest unit. Pure."""
    if moment is None:
        return ""
    seconds = max((now - moment).total_seconds(), 0.0)
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length or (unit != "min" and seconds >= length * 1.5):
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def nodes(workspace: Workspace, outputs: PlatformOutputs) -> OutputEntry:
    """List the clusters and compute instances of the workspace, and name the nodes that cost money
    now, and the jump machine; `make costs` has the rest of the platform.
    """
    manager = workspace.manager
    clusters = [
        read_nodes(compute)
        for compute in manager.items("computes")
        if compute["properties"].get("computeType") in ("AmlCompute", "ComputeInstance")
    ]
    prices = costs.known_prices(manager)
    lines = [*cost_lines(clusters, manager.now(), prices), *outputs.standing_costs]
    return OutputEntry(
        "clusters", [_cluster_document(cluster) for cluster in clusters], tuple(lines)
    )


def _list(
    options: StatusOptions, outputs: PlatformOutputs, workspace: Workspace, console: Console
) -> None:
    matching = (
        job
        for job in workspace.jobs.newest_first()
        if (options.all or job.attempt is not None) and options.kind in (None, job.kind)
    )
    jobs = list(islice(matching, options.limit))
    cost = JobCosts(workspace.jobs, workspace.manager, outputs.clusters).of(jobs)
    lines = _job_lines(jobs, cost, workspace.manager.now())
    console.answer([_job_document(job, cost[job.name]) for job in jobs], "\n".join(lines))


def _status(
    options: StatusOptions, outputs: PlatformOutputs, workspace: Workspace, console: Console
) -> None:
    workspace.manager.check_workspace()
    billed: list[OutputEntry] = [load(row.show)(workspace, outputs) for row in BILLED]
    jobs = list(islice(workspace.jobs.newest_first(), MAX_JOBS + 1))
    older = len(jobs) > MAX_JOBS
    runs = shown_runs(group_by_run(jobs[:MAX_JOBS]), options.runs)
    attempts = [job for run in runs for job in run.jobs]
    cost = JobCosts(workspace.jobs, workspace.manager, outputs.clusters).of(attempts)
    now = workspace.manager.now()
    lines = [line for entry in billed for line in entry.lines]
    waited = {
        run.key: silent_seconds(workspace.storage, run.key, now)
        for run in runs
        if run.last.status == job_states.FINALIZING
    }
    lines += ["", *_run_lines(runs, cost, now, waited)]
    if older:
        lines.append(f"shows only runs among the newest {MAX_JOBS} jobs; there are older jobs")
    document = {
        **{entry.key: entry.value for entry in billed},
        "runs": [
            {
                "run": run.key,
                "cost": costs.document(total(cost[job.name] for job in run.jobs)),
                "attempts": [_job_document(job, cost[job.name]) for job in run.jobs],
            }
            for run in runs
        ],
        "older_jobs": older,
    }
    console.answer(document, "\n".join(lines))


def _cost(nodes: ClusterNodes, now: datetime, prices: NodePrices) -> str:
    states = [
        f"{count} {word}"
        for word, count in (
            ("busy", nodes.running),
            ("idle", nodes.idle),
            ("being prepared", nodes.preparing),
            ("leaving", nodes.leaving),
            ("unusable", nodes.unusable),
        )
        if count
    ]
    text = f"{nodes.cluster}: {nodes.allocated} x {nodes.size} ({nodes.priority})"
    if nodes.state:
        text += f": compute instance, {nodes.state}"
    if states:
        text += f": {', '.join(states)}"
    if not nodes.steady:
        text += f"; Azure is scaling to {nodes.target}"
    elif nodes.since is not None:
        text += f"; unchanged for {age(nodes.since, now)}"
    if nodes.idle and not nodes.running:
        text += "; no job is running"
    return text + idle_cost(nodes, prices)


def _run_lines(
    runs: Sequence[Run],
    cost: Mapping[str, Cost],
    now: datetime,
    waited: Mapping[str, float | None] = MappingProxyType({}),
) -> list[str]:
    """Return the table of the runs, and what to know of some.

    Args:
        runs: The runs.
        cost: Costs by job.
        now: The time, by Azure's clock.
        waited: Seconds since the programs of finalizing runs ended, by run.
    """
    if not runs:
        return ["no runs; `python -m jobs submit --help` shows how to start one"]
    rows = [
        (
            run.key,
            run.last.kind,
            f"{run.last.status}{' (cancelled by us)' if run.last.canceled_by_us else ''}",
            ", ".join(job.status for job in run.jobs[:-1]) or "-",
            f"{run.last.nodes} on {run.last.cluster}",
            f"{age(run.last.created, now)} ago",
            *costs.words(cost[job.name] for job in run.jobs),
        )
        for run in runs
    ]
    head = ("run", "kind", "newest attempt", "earlier attempts", "nodes", "submitted")
    placed = [f"{run.key}: {run.last.tags[PLACED]}" for run in runs if PLACED in run.last.tags]
    shown = table((*head, "node time", "cost"), rows).splitlines()
    ending = [
        f"{run.key}: {job_states.finalizing(run.last, waited.get(run.key))}"
        for run in runs
        if run.last.status == job_states.FINALIZING
    ]
    return [*shown, *placed, *ending, f"cost: {costs.LEFT_OUT}"]


def _job_lines(jobs: Sequence[Job], cost: Mapping[str, Cost], now: datetime) -> list[str]:
    if not jobs:
        return ["no jobs; `python -m jobs submit --help` shows how to start one"]
    rows = [
        (
            *(job.name, job.kind, job.status, job.cluster, str(job.nodes)),
            f"{age(job.created, now)} ago",
            *costs.words([cost[job.name]]),
        )
        for job in jobs
    ]
    head = ("job", "kind", "status", "cluster", "nodes", "created", "node time", "cost")
    return [*table(head, rows).splitlines(), f"cost: {costs.LEFT_OUT}"]


def _job_document(job: Job, cost: Cost) -> dict[str, Any]:
    return {
        "job": job.name,
        "run": job.run,
        "attempt": job.attempt.number if job.attempt else None,
        "kind": job.kind or None,
        "status": job.status,
        "cluster": job.cluster,
        "nodes": job.nodes,
        "created": job.created.isoformat() if job.created else None,
        "page": job.page,
        "placed": job.tags.get(PLACED),
        "cost": costs.document(total([cost])),
    }


def _cluster_document(nodes: ClusterNodes) -> dict[str, Any]:
    return {
        "cluster": nodes.cluster,
        "size": nodes.size,
        "priority": nodes.priority,
        "allocated": nodes.allocated,
        "target": nodes.target,
        "most": nodes.max_nodes,
        "busy": nodes.running,
        "idle": nodes.idle,
        "preparing": nodes.preparing,
        "leaving": nodes.leaving,
        "unusable": nodes.unusable,
        "steady": nodes.steady,
        "since": nodes.since.isoformat() if nodes.since else None,
        "errors": list(nodes.errors),
        "state": nodes.state or None,
    }
