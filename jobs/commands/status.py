"""`python -m jobs status`: what runs, and what costs money now."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Annotated, Any, Final

from common.fields import Bounds
from infra.outputs import PlatformOutputs
from jobs.azure import job_records
from jobs.azure.job_records import Job
from jobs.azure.workspace import Workspace, connect, segment
from jobs.commands.list import ago, document
from jobs.console import Console, table
from jobs.errors import MissingError
from jobs.following import job_states
from jobs.following.job_states import Nodes

LOOKED_AT: Final = 500
"""Jobs, the newest first, among which runs are looked for; the list comes page by page."""


@dataclass(frozen=True)
class StatusOptions:
    """Show the nodes that cost money now, and the runs with their attempts."""

    runs: Annotated[int, Bounds(at_least=1)] = 10
    """Runs to show, the newest first; of the newest 500 jobs, those that have not ended are always
    shown.
    """


@dataclass(frozen=True)
class Run:
    """A run with its attempts, the first one first."""

    key: str
    jobs: tuple[Job, ...]

    @property
    def last(self) -> Job:
        return self.jobs[-1]


def run(options: StatusOptions, outputs: PlatformOutputs, *, as_json: bool) -> int:
    """Show nodes and runs."""
    workspace = connect(outputs)
    workspace.check()
    nodes = [_nodes(workspace, name) for name in _clusters(outputs)]
    jobs = list(islice(job_records.listed(workspace), LOOKED_AT + 1))
    more = len(jobs) > LOOKED_AT
    runs = shown(grouped(jobs[:LOOKED_AT]), options.runs)
    there = [one for one in nodes if one is not None]
    lines = [*cost_lines(there, datetime.now(UTC)), "", *_run_lines(runs)]
    if more:
        lines.append(f"only the newest {LOOKED_AT} jobs were looked at; there are older ones")
    text = "\n".join(lines)
    Console(as_json=as_json).answer(
        {
            "clusters": [_cluster_document(one) for one in there],
            "runs": [
                {"run": one.key, "attempts": [document(job) for job in one.jobs]} for one in runs
            ],
            "older_jobs": more,
        },
        text,
    )
    return 0


def grouped(jobs: Iterable[Job]) -> list[Run]:
    """Jobs of this project by their runs, the run with the newest job first. Pure."""
    found: dict[str, list[Job]] = {}
    for job in jobs:
        if job.attempt is not None:
            found.setdefault(job.run, []).append(job)
    return [
        Run(key, tuple(sorted(own, key=lambda job: job.attempt.number if job.attempt else 0)))
        for key, own in found.items()
    ]


def shown(runs: Sequence[Run], most: int) -> list[Run]:
    """So many of the newest, and all that have not ended. Pure."""
    return [one for place, one in enumerate(runs) if place < most or not one.last.ended]


def cost_lines(clusters: Sequence[Nodes], now: datetime) -> list[str]:
    """What costs money now, in words. Pure."""
    costly = [one for one in clusters if one.allocated]
    if not costly:
        return ["no nodes are allocated, so no cluster costs anything now"]
    return ["nodes that cost money now:", *(f"  {_cost(one, now)}" for one in costly)]


def _cost(nodes: Nodes, now: datetime) -> str:
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
    if states:
        text += f": {', '.join(states)}"
    if not nodes.steady:
        text += f"; Azure is changing that to {nodes.target}"
    elif nodes.since is not None:
        text += f"; as many for {ago(nodes.since, now)}"
    if nodes.idle and not nodes.running:
        text += "; nothing runs there"
    return text


def _run_lines(runs: Sequence[Run]) -> list[str]:
    if not runs:
        return ["no runs; `python -m jobs submit --help` says how to begin one"]
    rows = [
        (
            one.key,
            one.last.kind,
            f"{one.last.status}{' (cancelled by us)' if one.last.canceled_by_us else ''}",
            ", ".join(job.status for job in one.jobs[:-1]) or "-",
            f"{one.last.nodes} on {one.last.cluster}",
            f"{ago(one.last.created)} ago",
        )
        for one in runs
    ]
    head = ("run", "kind", "newest attempt", "attempts before", "nodes", "submitted")
    return table(head, rows).splitlines()


def _clusters(outputs: PlatformOutputs) -> list[str]:
    clusters = outputs.clusters
    known = (clusters.gpu, clusters.gpu_dedicated, clusters.preparation, clusters.build)
    return [one.name for one in known if one is not None]


def _nodes(workspace: Workspace, name: str) -> Nodes | None:
    try:
        return job_states.read_nodes(workspace.arm("GET", f"computes/{segment(name)}"))
    except MissingError:
        return None


def _cluster_document(nodes: Nodes) -> dict[str, Any]:
    return {
        "cluster": nodes.cluster,
        "size": nodes.size,
        "priority": nodes.priority,
        "allocated": nodes.allocated,
        "target": nodes.target,
        "most": nodes.most,
        "busy": nodes.running,
        "idle": nodes.idle,
        "preparing": nodes.preparing,
        "leaving": nodes.leaving,
        "unusable": nodes.unusable,
        "steady": nodes.steady,
        "since": nodes.since.isoformat() if nodes.since else None,
        "errors": list(nodes.errors),
    }
