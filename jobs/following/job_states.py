"""What a job's states mean to the person who waits. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from jobs.azure.job_records import when

_WORDS: Final[Mapping[str, str]] = {
    "NotStarted": "accepted",
    "Queued": "queued, waits for {nodes} of {cluster}",
    "Provisioning": "nodes are made ready",
    "Preparing": "prepares: the image is pulled, or built if this is its first use",
    "Starting": "starts on {nodes} of {cluster}",
    "Running": "runs on {nodes} of {cluster}",
    "Finalizing": "has ended; what it wrote is put away",
    "CancelRequested": "is being cancelled",
    "NotResponding": "sends no sign of life; it may still train",
    "Paused": "is paused",
    "Completed": "completed",
    "Failed": "failed",
    "Canceled": "cancelled",
}

WAITING: Final = ("NotStarted", "Queued", "Provisioning", "Preparing", "Starting")
"""States before the program runs."""

_OLD: Final = ("Running", "Finalizing")

HINT_SECONDS: Final = (300.0, 1800.0, 7200.0)
"""In the queue until a reason is looked for; after the last of them every so often."""


@dataclass(frozen=True)
class Nodes:
    """Nodes of a cluster now. All that are allocated cost money, idle ones as well."""

    cluster: str
    size: str
    priority: str
    allocated: int
    target: int
    """That Azure is about to have."""
    most: int
    running: int = 0
    idle: int = 0
    preparing: int = 0
    leaving: int = 0
    unusable: int = 0
    preempted: int = 0
    """Taken back; these cost nothing."""
    steady: bool = True
    """Whether Azure is neither adding nor removing any."""
    since: datetime | None = None
    """When they became as many, if they stay so."""
    errors: tuple[str, ...] = field(default=())
    """Why Azure could not add some."""


def read_nodes(data: Mapping[str, Any]) -> Nodes:
    """Of Resource Manager's answer for a cluster."""
    own = data["properties"].get("properties") or {}
    counts = own.get("nodeStateCounts") or {}
    scale = own.get("scaleSettings") or {}
    errors = [*(own.get("errors") or []), *(data["properties"].get("provisioningErrors") or [])]

    def count(state: str) -> int:
        return int(counts.get(f"{state}NodeCount") or 0)

    return Nodes(
        cluster=data["name"],
        size=own.get("vmSize", ""),
        priority=own.get("vmPriority", ""),
        allocated=int(own.get("currentNodeCount") or 0),
        target=int(own.get("targetNodeCount") or 0),
        most=int(scale.get("maxNodeCount") or 0),
        running=count("running"),
        idle=count("idle"),
        preparing=count("preparing"),
        leaving=count("leaving"),
        unusable=count("unusable"),
        preempted=count("preempted"),
        steady=own.get("allocationState") != "Resizing",
        since=when(own.get("allocationStateTransitionTime")),
        errors=tuple(_message(error) for error in errors),
    )


def words(status: str, nodes: int, cluster: str) -> str:
    """A state in words.

    Args:
        status: Azure's word.
        nodes: that the job asks for.
        cluster: that it runs on.
    """
    count = "1 node" if nodes == 1 else f"{nodes} nodes"
    return _WORDS.get(status, status).format(nodes=count, cluster=cluster)


def restarted(before: str, now: str) -> bool:
    """Whether Azure has begun a job anew in its place, as it may with nodes that it took back."""
    return before in _OLD and now in WAITING


def hint_due(waited: float, given: int) -> bool:
    """Whether it is time to say why a job is still queued.

    Args:
        waited: seconds in the queue.
        given: hints until now.
    """
    last = HINT_SECONDS[-1]
    if given < len(HINT_SECONDS):
        return waited >= HINT_SECONDS[given]
    return waited >= last * (given - len(HINT_SECONDS) + 2)


def queue_hints(wanted: int, nodes: Nodes, quota: Sequence[str]) -> list[str]:
    """Why a job may still be queued.

    Args:
        wanted: nodes that the job asks for.
        nodes: of its cluster.
        quota: what `jobs.azure.clusters` says of cores that are missing; empty if enough are left.
    """
    busy = nodes.running + nodes.leaving
    state = f"{nodes.cluster} has {nodes.allocated} of {nodes.most} nodes, {busy} of them busy"
    found = [state + ("" if nodes.steady else f"; Azure is changing that to {nodes.target}")]
    found += [f"the cluster could not grow: {error}" for error in nodes.errors]
    found += [f"quota: {problem}" for problem in quota]
    if nodes.most - busy < wanted:
        found.append(
            f"{nodes.most - busy} of {wanted} nodes are left beside other jobs; it starts when they"
            " end (`python -m jobs status`)"
        )
    elif nodes.allocated - busy < wanted and not quota and not nodes.errors:
        found.append(
            f"{nodes.size} nodes of {nodes.priority} are not there yet; a region may have none"
            " left for hours"
            + (
                ", of low priority before all: a dedicated cluster has its own"
                if nodes.priority == "LowPriority"
                else ""
            )
        )
    return found


def _message(error: Any) -> str:
    inner = error.get("error", error) if isinstance(error, Mapping) else {"message": error}
    return " ".join(str(inner.get("message") or inner.get("code") or inner).split())
