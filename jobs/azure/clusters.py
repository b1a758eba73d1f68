"""Compute clusters of a workspace: their nodes, and the cores that a subscription may still use.

Azure ML counts cores on its own: all low-priority cores of a region in one pool, dedicated ones by
family of sizes (Azure Machine Learning, "Manage and increase quotas").
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from common.text import plural
from infra.outputs import Cluster
from jobs.azure.job_records import Job, parse_time
from jobs.azure.requests import segment
from jobs.azure.resource_manager import ResourceManager
from jobs.errors import RequestError

_POOL: Final = "totallowpriority"


@dataclass(frozen=True)
class ClusterNodes:
    """Nodes of a cluster now. All that are allocated cost money, idle ones as well."""

    cluster: str
    size: str
    priority: str
    allocated: int
    target: int
    """That Azure is about to have."""
    max_nodes: int
    running: int = 0
    idle: int = 0
    preparing: int = 0
    leaving: int = 0
    unusable: int = 0
    preempted: int = 0
    """Pre-empted nodes cost nothing."""
    steady: bool = True
    """Whether Azure is neither adding nor removing any."""
    since: datetime | None = None
    """When they became as many, if they stay so."""
    errors: tuple[str, ...] = field(default=())
    """Why Azure could not add some."""

    @property
    def busy(self) -> int:
        """Nodes that no other job can have now."""
        return self.running + self.leaving


@dataclass(frozen=True)
class Size:
    """A size of virtual machines."""

    name: str
    family: str
    """Such as standardNDSv2Family."""
    cores: int


@dataclass(frozen=True)
class Quota:
    """One limit of cores."""

    name: str
    used: int
    limit: int
    """-1 if there is none."""

    def left(self, own: int) -> int | None:
        """Cores for a cluster that already uses `own` of them; None for any number."""
        return None if self.limit < 0 else max(self.limit - self.used, 0) + own


def read_nodes(data: Mapping[str, Any]) -> ClusterNodes:
    """The nodes in Resource Manager's answer for a cluster."""
    own = data["properties"].get("properties") or {}
    counts = own.get("nodeStateCounts") or {}
    scale = own.get("scaleSettings") or {}
    errors = [*(own.get("errors") or []), *(data["properties"].get("provisioningErrors") or [])]

    def count(state: str) -> int:
        return int(counts.get(f"{state}NodeCount") or 0)

    return ClusterNodes(
        cluster=data["name"],
        size=own.get("vmSize", ""),
        priority=own.get("vmPriority", ""),
        allocated=int(own.get("currentNodeCount") or 0),
        target=int(own.get("targetNodeCount") or 0),
        max_nodes=int(scale.get("maxNodeCount") or 0),
        running=count("running"),
        idle=count("idle"),
        preparing=count("preparing"),
        leaving=count("leaving"),
        unusable=count("unusable"),
        preempted=count("preempted"),
        steady=own.get("allocationState") != "Resizing",
        since=parse_time(own.get("allocationStateTransitionTime")),
        errors=tuple(_message(error) for error in errors),
    )


def problems(cluster: Cluster, nodes: int, data: Mapping[str, Any]) -> list[str]:
    """What a cluster, as Resource Manager describes it, differs in from what a job counts on."""
    there = read_nodes(data)
    state = data["properties"].get("provisioningState")
    again = "deploy the stack again, or read its outputs again if it was deployed"
    differences = []
    if there.size.lower() != cluster.size.lower():
        differences.append(f"cluster {cluster.name}: has {there.size}, not {cluster.size}; {again}")
    if there.priority.lower() != cluster.priority.lower():
        differences.append(
            f"cluster {cluster.name}: is {there.priority}, not {cluster.priority}; {again}"
        )
    if there.max_nodes < nodes:
        differences.append(
            f"--nodes: {nodes}, but the cluster {cluster.name} has {there.max_nodes} at most; ask"
            " for fewer, or raise its maximum in the stack"
        )
    if state not in (None, "Succeeded"):
        differences.append(
            f"cluster {cluster.name}: its state is {state}; wait until it is Succeeded, or deploy"
            " the stack again"
        )
    return differences


def queue_reasons(manager: ResourceManager, job: Job) -> list[str]:
    """Why a job may still be queued, by what Azure tells of its cluster and of cores.

    Raises:
        RequestError: the cluster cannot be looked at.
    """
    nodes = read_nodes(manager.get(f"computes/{segment(job.cluster)}"))
    return explain_queue(job.nodes, nodes, missing_cores(manager, nodes, job.nodes) or [])


def explain_queue(needed: int, nodes: ClusterNodes, quota: Sequence[str]) -> list[str]:
    """Why a job may still be queued. Pure.

    Args:
        needed: nodes that the job asks for.
        nodes: of its cluster.
        quota: what `cores_problems` says; empty if enough cores are left.
    """
    state = (
        f"{nodes.cluster} has {nodes.allocated} of {plural(nodes.max_nodes, 'node')}, {nodes.busy}"
        " of them busy"
    )
    reasons = [state + ("" if nodes.steady else f"; Azure is changing that to {nodes.target}")]
    reasons += [f"the cluster could not grow: {error}" for error in nodes.errors]
    reasons += [f"quota: {problem}" for problem in quota]
    left = nodes.max_nodes - nodes.busy
    if left < needed:
        reasons.append(
            f"{left} of {needed} nodes are left beside other jobs; it starts when they end"
            " (`python -m jobs status`)"
        )
    elif nodes.allocated - nodes.busy < needed and not quota and not nodes.errors:
        reasons.append(
            f"{nodes.size} nodes of {nodes.priority} are not there yet; a region may have none"
            " left for hours"
            + (
                ", of low priority before all: a dedicated cluster has its own"
                if nodes.priority == "LowPriority"
                else ""
            )
        )
    return reasons


def missing_cores(manager: ResourceManager, nodes: ClusterNodes, needed: int) -> list[str] | None:
    """Why the subscription's cores do not suffice for so many nodes of a cluster; empty if they do.

    Returns:
        None if Azure does not tell.
    """
    try:
        sizes = read_sizes(manager.get(f"{manager.location_id}/vmSizes"))
        usages = list(manager.items(f"{manager.location_id}/usages"))
    except RequestError:
        # A region whose list cannot be read is no reason why a job waits.
        return None
    size = sizes.get(nodes.size.lower())
    if size is None or not size.cores:
        return None
    quota = find_quota(usages, nodes.priority, size.family)
    return cores_problems(quota, size, needed, nodes.allocated, nodes.priority)


def read_sizes(data: Any) -> dict[str, Size]:
    """Sizes by name in lower case, of Azure's list of them for a region."""
    if isinstance(data, Mapping):
        data = data.get("value") or data.get("amlCompute") or []
    return {
        str(item["name"]).lower(): Size(
            str(item["name"]), str(item.get("family") or ""), int(item.get("vCPUs") or 0)
        )
        for item in data
    }


def find_quota(usages: Iterable[Mapping[str, Any]], priority: str, family: str) -> Quota | None:
    """The limit that nodes of a size count against; None if Azure lists none.

    Args:
        usages: Azure's list for the region.
        priority: of the nodes.
        family: of their size.
    """
    searched = _POOL if priority == "LowPriority" else _plain(family)
    for usage in usages:
        name = usage.get("name") or {}
        value, shown = str(name.get("value") or ""), str(name.get("localizedValue") or "")
        if searched and searched in (_plain(value), _plain(shown)):
            return Quota(shown or value, int(usage["currentValue"]), int(usage["limit"]))
    return None


def cores_problems(
    quota: Quota | None, size: Size, nodes: int, allocated: int, priority: str
) -> list[str]:
    """What keeps so many nodes from being allocated; empty if nothing does that Azure tells.

    Args:
        quota: what they count against.
        size: of a node.
        nodes: that are needed.
        allocated: that the cluster has already.
        priority: of the nodes.
    """
    needed = nodes * size.cores
    pool = "low-priority" if priority == "LowPriority" else size.family
    if quota is None:
        return [
            f"the region has no {pool} cores for this subscription, {needed} are needed; ask"
            " for them in the portal under Quotas, Machine Learning"
        ]
    left = quota.left(allocated * size.cores)
    if left is None or left >= needed:
        return []
    return [
        f"{nodes} x {size.name} need {needed} {pool} cores, {left} of {quota.limit} are left;"
        f" at most {left // size.cores} nodes fit, more need a request in the portal under Quotas,"
        " Machine Learning"
    ]


def _plain(text: str) -> str:
    """A name of a family without what its two spellings differ in."""
    words = re.sub(r"cluster|dedicated|vcpus|regional|[^a-z0-9]", "", text.lower())
    return words.removesuffix("cores")


def _message(error: Any) -> str:
    inner = error.get("error", error) if isinstance(error, Mapping) else {"message": error}
    return " ".join(str(inner.get("message") or inner.get("code") or inner).split())
