"""Nodes of the clusters: allocated when jobs need them, released when idle."""

import threading
import time
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from rehearsal.control_plane.azure_formats import new_id, timestamp

NodeState: TypeAlias = Literal["preparing", "idle", "running", "leaving", "preempted"]
_SHOWN_SECONDS = 2.0
"""Seconds that a node is still listed after it has left."""


@dataclass
class Node:
    """A virtual machine of a cluster."""

    number: int
    state: NodeState = "preparing"
    since: float = field(default_factory=time.monotonic)
    changed: str = field(default_factory=timestamp)
    job: str | None = None
    condemned: bool = False
    """Whether its pre-emption was announced."""
    id: str = field(default_factory=lambda: f"tvmps_{new_id().replace('-', '')}_d")

    def become(self, state: NodeState, job: str | None = None) -> None:
        """Change state."""
        self.state, self.job = state, job
        self.since, self.changed = time.monotonic(), timestamp()

    @property
    def seconds(self) -> float:
        """Return the seconds that it has been in its state."""
        return time.monotonic() - self.since


@dataclass(frozen=True)
class ScaleSettings:
    """Scale settings of a cluster."""

    min_nodes: int
    max_nodes: int
    idle_seconds: float
    """Seconds that an idle node stays."""
    allocation_seconds: float
    """Seconds from the request for a node until it is allocated."""


class Nodes:
    """Nodes of all clusters, by the cluster's id."""

    def __init__(self) -> None:
        """Start without any node."""
        self._nodes: dict[str, list[Node]] = {}
        self._capacity: dict[str, int] = {}
        self._number = 0
        self._lock = threading.RLock()

    def show(self, cluster: str) -> list[dict[str, Any]]:
        """Return the nodes as `listNodes` shows them."""
        with self._lock:
            return [
                {
                    "nodeId": node.id,
                    "nodeState": node.state,
                    "privateIpAddress": f"10.0.0.{node.number % 250 + 4}",
                    "publicIpAddress": None,
                    "port": 50_000 + node.number,
                    "runId": node.job and node.job.rsplit("/", 1)[1],
                    "since": node.changed,
                }
                for node in self._nodes.get(cluster.lower(), [])
            ]

    def running(self, cluster: str) -> dict[str, int]:
        """Return how many nodes the jobs of a cluster use, by the id of the job, oldest first."""
        with self._lock:
            used: dict[str, int] = {}
            for node in self._nodes.get(cluster.lower(), []):
                if node.job and node.state == "running":
                    used[node.job] = used.get(node.job, 0) + 1
            return used

    def limit(self, cluster: str, capacity: int | None) -> None:
        """Limit the machines that Azure has for a cluster; None removes the limit."""
        with self._lock:
            self._capacity.pop(cluster.lower(), None)
            if capacity is not None:
                self._capacity[cluster.lower()] = capacity

    def assign(self, cluster: str, job: str, count: int) -> bool:
        """Assign idle nodes to a job, all that it needs or none; return whether it has them now."""
        with self._lock:
            idle = [n for n in self._nodes.get(cluster.lower(), []) if n.state == "idle"]
            if len(idle) < count:
                return False
            for node in idle[:count]:
                node.become("running", job)
            return True

    def release(self, cluster: str, job: str) -> None:
        """Release the nodes of a job, except those that were pre-empted. Azure takes at once those
        whose pre-emption was announced.
        """
        with self._lock:
            for node in self._nodes.get(cluster.lower(), []):
                if node.job == job and node.state == "running":
                    node.become("preempted" if node.condemned else "idle")

    def condemn(self, cluster: str, job: str) -> None:
        """Note that the nodes of a job will be pre-empted, so that no other job gets them."""
        with self._lock:
            for node in self._nodes.get(cluster.lower(), []):
                node.condemned |= node.job == job and node.state == "running"

    def preempt(self, cluster: str, job: str | None = None) -> None:
        """Pre-empt the nodes of a job, or all of a cluster."""
        with self._lock:
            for node in self._nodes.get(cluster.lower(), []):
                if job is None or node.job == job:
                    node.become("preempted", node.job)

    def preempt_one(self, cluster: str, job: str, number: int) -> None:
        """Pre-empt one of the nodes that run a job, by its number in the job."""
        with self._lock:
            nodes = self._nodes.get(cluster.lower(), [])
            running = [node for node in nodes if node.job == job and node.state == "running"]
            running[min(number, len(running) - 1)].become("preempted", job)

    def forget(self, cluster: str) -> None:
        """Remove a cluster."""
        with self._lock:
            self._nodes.pop(cluster.lower(), None)
            self._capacity.pop(cluster.lower(), None)

    def clusters(self) -> list[str]:
        """Ids of clusters that have nodes."""
        with self._lock:
            return list(self._nodes)

    def scale(self, cluster: str, settings: ScaleSettings, queued_nodes: int) -> None:
        """Allocate nodes, make them ready, and release idle ones.

        Args:
            cluster: Id of the cluster.
            settings: Scale settings of the cluster.
            queued_nodes: Nodes that queued jobs need in addition to the busy ones.
        """
        with self._lock:
            nodes = self._nodes.setdefault(cluster.lower(), [])
            for node in nodes:
                if node.state == "preparing" and node.seconds >= settings.allocation_seconds:
                    node.become("idle")
            gone = [n for n in nodes if n.state in {"leaving", "preempted"}]
            nodes[:] = [n for n in nodes if n not in gone or n.seconds < _SHOWN_SECONDS]
            here = [node for node in nodes if node not in gone]
            running = sum(node.state == "running" for node in here)
            capacity = self._capacity.get(cluster.lower(), settings.max_nodes)
            target = max(running + queued_nodes, settings.min_nodes)
            target = min(target, settings.max_nodes, capacity)
            for _ in range(target - len(here)):
                self._number += 1
                nodes.append(Node(self._number))
            idle = [n for n in here if n.state == "idle" and n.seconds >= settings.idle_seconds]
            for node in idle[: max(len(here) - target, 0)]:
                node.become("leaving")
