"""Compute clusters of a workspace: their nodes, and the cores that a subscription has left.

Azure ML has quotas of its own: one for all cores of Spot (tier `low_priority`) of a region, and one
per VM family for dedicated cores (Azure Machine Learning, "Manage and increase quotas").
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from common.prices import NodePrices, money
from common.text import plural
from infra.outputs import Cluster
from jobs.azure.costs import known_prices
from jobs.azure.job_records import Job, parse_time
from jobs.azure.requests import segment, well_formed
from jobs.azure.resource_manager import ResourceManager
from jobs.errors import RequestError

_PROVIDER: Final = "microsoft.machinelearningservices/"
_POOL: Final = "totallowpriority"
_TOTAL: Final = "totaldedicated"
_GPU_SERIES: Final = re.compile(r"(standardn[a-z])s(v\d+family)")
"""Families whose quota may be spelled without their S: the example Usage/list of Azure Machine
Learning's REST definitions has "Standard NDv2 Family Cluster Dedicated vCPUs"."""


@dataclass(frozen=True)
class ClusterNodes:
    """Current nodes of a cluster, or the machine of a compute instance. All allocated nodes cost
    money, including idle ones.
    """

    cluster: str
    size: str
    priority: str
    allocated: int
    target: int
    """Number of nodes that Azure is scaling to."""
    max_nodes: int
    running: int = 0
    idle: int = 0
    preparing: int = 0
    leaving: int = 0
    unusable: int = 0
    preempted: int = 0
    """Pre-empted nodes cost nothing."""
    steady: bool = True
    """Whether Azure is neither adding nor removing nodes."""
    since: datetime | None = None
    """Time of the last change of the number of nodes, if known."""
    errors: tuple[str, ...] = field(default=())
    """Why Azure could not add nodes."""
    state: str = ""
    """State of a compute instance, such as Running; empty for a cluster."""

    @property
    def busy(self) -> int:
        """Number of nodes that no other job can use now."""
        return self.running + self.leaving


@dataclass(frozen=True)
class Size:
    """A VM size."""

    name: str
    family: str
    """VM family, such as standardNDSv2Family."""
    cores: int
    low_priority: bool = True
    """Whether the region has Spot nodes of this size."""


@dataclass(frozen=True)
class Quota:
    """A quota of cores."""

    name: str
    used: int
    limit: int
    """Maximum number of cores; -1 is unlimited."""

    def left(self, own: int) -> int | None:
        """Return the cores for a cluster that already uses `own` of them; None is unlimited."""
        return None if self.limit < 0 else max(self.limit - self.used, 0) + own


@well_formed("a cluster")
def read_nodes(data: Mapping[str, Any]) -> ClusterNodes:
    """Parse Resource Manager's response for a cluster or a compute instance."""
    own = data["properties"].get("properties") or {}
    state = own.get("state") or ""
    if state:
        machine = int(state != "Stopped")
        own = {
            "vmPriority": "Dedicated",
            "currentNodeCount": machine,
            "targetNodeCount": machine,
            **own,
        }
    counts = own.get("nodeStateCounts") or {}
    scale = own.get("scaleSettings") or {}
    errors = [*(own.get("errors") or []), *(data["properties"].get("provisioningErrors") or [])]

    def count(state: str) -> int:
        return int(counts.get(f"{state}NodeCount") or 0)

    return ClusterNodes(
        cluster=data["name"],
        size=own.get("vmSize") or "",
        priority=own.get("vmPriority") or "",
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
        state=state,
    )


def problems(cluster: Cluster, nodes: int, data: Mapping[str, Any]) -> list[str]:
    """Return why a cluster, as Resource Manager describes it, does not fit a job."""
    existing = read_nodes(data)
    state = data["properties"].get("provisioningState")
    again = "deploy the stack again, or read its outputs again if it was deployed since"
    differences = []
    # Azure does not state all of a cluster that it is still creating.
    if existing.size and existing.size.lower() != cluster.size.lower():
        differences.append(
            f"cluster {cluster.name}: has {existing.size}, not {cluster.size}; {again}"
        )
    if existing.priority and existing.priority.lower() != cluster.priority.lower():
        differences.append(
            f"cluster {cluster.name}: is {existing.priority}, not {cluster.priority}; {again}"
        )
    if existing.max_nodes < nodes:
        differences.append(
            f"--nodes: {nodes}, but cluster {cluster.name} has at most {existing.max_nodes};"
            " request fewer, or raise its maximum in the stack"
        )
    if state not in (None, "Succeeded"):
        differences.append(
            f"cluster {cluster.name}: its state is {state}; wait until it is Succeeded, or deploy"
            " the stack again"
        )
    return differences


def queue_reasons(manager: ResourceManager, job: Job) -> list[str]:
    """Look up why a job may still be queued: the state of its cluster, and quotas.

    Raises:
        RequestError: The request for the cluster failed.
    """
    nodes = read_nodes(manager.get(f"computes/{segment(job.cluster)}"))
    reasons = explain_queue(job.nodes, nodes, missing_cores(manager, nodes, job.nodes) or [])
    if not 0 < nodes.idle < job.nodes:
        return reasons
    cost = idle_cost(nodes, known_prices(manager))
    part = (
        f"{nodes.idle} of the {job.nodes} nodes have come and wait for the others"
        f"{cost}; cancel the run to release them, or submit it on fewer nodes"
    )
    return [*reasons, part]


def idle_cost(nodes: ClusterNodes, prices: NodePrices) -> str:
    """Return the cost of the idle nodes of a cluster, as a clause; empty if it is unknown."""
    price = prices.find(nodes.size, nodes.priority)
    if not nodes.idle or price is None:
        return ""
    amount = money(nodes.idle * price.amount, price.currency)
    verb = "costs" if nodes.idle == 1 else "cost"
    return f"; {plural(nodes.idle, 'idle node')} {verb} {amount} an hour"


def explain_queue(needed: int, nodes: ClusterNodes, quota: Sequence[str]) -> list[str]:
    """Return why a job may still be queued. Pure.

    Args:
        needed: Number of nodes that the job requests.
        nodes: Nodes of its cluster.
        quota: Result of `cores_problems`; empty if enough cores are left.
    """
    state = (
        f"{nodes.cluster} has {nodes.allocated} of {plural(nodes.max_nodes, 'node')}, {nodes.busy}"
        " of them busy"
    )
    reasons = [state + ("" if nodes.steady else f"; Azure is scaling to {nodes.target}")]
    reasons += [f"the cluster could not grow: {error}" for error in nodes.errors]
    reasons += [f"quota: {problem}" for problem in quota]
    left = nodes.max_nodes - nodes.busy
    if left < needed:
        reasons.append(
            f"other jobs leave {left} of the {needed} nodes needed; it starts when they end"
            " (`python -m jobs status`)"
        )
    elif nodes.allocated - nodes.busy < needed and not quota and not nodes.errors:
        reasons.append(
            f"{nodes.priority} nodes of size {nodes.size} are not available yet; a region may have"
            " none for hours"
            + (
                ", especially of Spot: a dedicated cluster has its own capacity"
                if nodes.priority == "LowPriority"
                else ""
            )
        )
    return reasons


def missing_cores(manager: ResourceManager, nodes: ClusterNodes, needed: int) -> list[str] | None:
    """Check whether the subscription's cores suffice for a number of nodes of a cluster.

    Returns:
        Why they do not suffice; empty if they do, None if Azure does not report them.
    """
    try:
        sizes = read_sizes(manager.get(f"{manager.location_id}/vmSizes"))
        usages = list(manager.items(f"{manager.location_id}/usages"))
    except RequestError:
        # Missing data about a region does not explain why a job waits.
        return None
    size = sizes.get(nodes.size.lower())
    if size is None or not size.cores:
        return None
    quota = find_quota(usages, nodes.priority, size.family)
    return cores_problems(quota, size, needed, nodes.allocated, nodes.priority)


@well_formed("the VM sizes")
def read_sizes(data: Any) -> dict[str, Size]:
    """Parse Azure's list of VM sizes of a region; the keys are names in lower case."""
    if isinstance(data, Mapping):
        data = data.get("value") or data.get("amlCompute") or []
    return {
        str(item["name"]).lower(): Size(
            str(item["name"]),
            str(item.get("family") or ""),
            int(item.get("vCPUs") or 0),
            low_priority=item.get("lowPriorityCapable") is not False,
        )
        for item in data
    }


@well_formed("the quotas")
def find_quota(usages: Iterable[Mapping[str, Any]], priority: str, family: str) -> Quota | None:
    """Find the quota that nodes of a size count against; None if Azure lists none. Dedicated nodes
    count against that of their family and against that of all dedicated cores; the result is the
    one that leaves fewer.
    """
    quotas: dict[str, Quota] = {}
    for usage in usages:
        of = str(usage.get("type") or "").lower().removeprefix(_PROVIDER)
        if of.startswith("workspace"):
            # The share of one workspace or cluster has the same name as the quota.
            continue
        name, used, limit = usage.get("name") or {}, usage["currentValue"], usage["limit"]
        if used is None or limit is None:
            continue
        value, shown = str(name.get("value") or ""), str(name.get("localizedValue") or "")
        quota = Quota(shown or value, int(used), int(limit))
        for text in (value, shown):
            quotas.setdefault(_plain(text), quota)
    if priority == "LowPriority":
        return quotas.get(_POOL)
    if not family:
        return None
    plain = _plain(family)
    own = quotas.get(plain) or quotas.get(_GPU_SERIES.sub(r"\1\2", plain))
    total = quotas.get(_TOTAL)
    if own is None or total is None:
        return own
    return min(own, total, key=lambda quota: math.inf if (left := quota.left(0)) is None else left)


def cores_problems(
    quota: Quota | None, size: Size, nodes: int, allocated: int, priority: str
) -> list[str]:
    """Return why the quota does not allow a number of nodes; empty if it does."""
    needed = nodes * size.cores
    pool = "Spot (low-priority)" if priority == "LowPriority" else size.family
    if quota is None:
        return [
            f"this subscription has no {pool} cores in the region, {needed} are needed; request"
            " them in the portal under Quotas, Machine Learning"
        ]
    left = quota.left(allocated * size.cores)
    if left is None or left >= needed:
        return []
    return [
        f"{nodes} x {size.name} need {needed} {pool} cores, but {left} of {quota.limit} are left,"
        f" enough for {plural(left // size.cores, 'node')}; request more of {quota.name!r} in the"
        " portal under Quotas, Machine Learning"
    ]


def _plain(text: str) -> str:
    """Normalize the name of a VM family, whose spelling differs between Azure's lists."""
    words = re.sub(r"cluster|vcpus|regional|[^a-z0-9]", "", text.lower()).removesuffix("cores")
    return words if words == _TOTAL else words.removesuffix("dedicated")


def _message(error: Any) -> str:
    inner = (error.get("error") or error) if isinstance(error, Mapping) else {"message": error}
    return " ".join(str(inner.get("message") or inner.get("code") or inner).split())
