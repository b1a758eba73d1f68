"""Nodes of the clusters: they come when a job needs them, and leave when nobody does."""

import threading
import time
from dataclasses import dataclass, field
from typing import Any, Literal

from rehearsal.control_plane.resource_kind import new_id, now

State = Literal["preparing", "idle", "running", "leaving", "preempted"]
_SHOWN_SECONDS = 2.0


@dataclass
class Node:
    """A virtual machine of a cluster."""

    number: int
    state: State = "preparing"
    since: float = field(default_factory=time.monotonic)
    changed: str = field(default_factory=now)
    job: str | None = None
    id: str = field(default_factory=lambda: f"tvmps_{new_id().replace('-', '')}_d")

    def become(self, state: State, job: str | None = None) -> None:
        """Change state."""
        self.state, self.job = state, job
        self.since, self.changed = time.monotonic(), now()

    @property
    def seconds(self) -> float:
        """In its state."""
        return time.monotonic() - self.since


@dataclass(frozen=True)
class Scale:
    """Limits of a cluster."""

    least: int
    most: int
    idle_seconds: float
    allocation_seconds: float


class Nodes:
    """Nodes of all clusters, by the cluster's id."""

    def __init__(self) -> None:
        """Have none."""
        self._nodes: dict[str, list[Node]] = {}
        self._capacity: dict[str, int] = {}
        self._number = 0
        self._lock = threading.RLock()

    def show(self, cluster: str) -> list[dict[str, Any]]:
        """Nodes as `listNodes` shows them."""
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

    def limit(self, cluster: str, capacity: int | None) -> None:
        """Let Azure have so many machines for a cluster, however many it may have itself."""
        with self._lock:
            self._capacity.pop(cluster.lower(), None)
            if capacity is not None:
                self._capacity[cluster.lower()] = capacity

    def take(self, cluster: str, job: str, count: int) -> bool:
        """Give a job idle nodes, all that it needs or none."""
        with self._lock:
            idle = [n for n in self._nodes.get(cluster.lower(), []) if n.state == "idle"]
            if len(idle) < count:
                return False
            for node in idle[:count]:
                node.become("running", job)
            return True

    def release(self, cluster: str, job: str) -> None:
        """Have the nodes of a job back, but for those that are gone."""
        with self._lock:
            for node in self._nodes.get(cluster.lower(), []):
                if node.job == job and node.state == "running":
                    node.become("idle")

    def lose(self, cluster: str, job: str | None = None) -> bool:
        """Take nodes away: those of a job, or all. Whether none is left."""
        with self._lock:
            nodes = self._nodes.get(cluster.lower(), [])
            for node in nodes:
                if job is None or node.job == job:
                    node.become("preempted", node.job)
            return all(node.state == "preempted" for node in nodes)

    def forget(self, cluster: str) -> None:
        """Remove a cluster."""
        with self._lock:
            self._nodes.pop(cluster.lower(), None)
            self._capacity.pop(cluster.lower(), None)

    def clusters(self) -> list[str]:
        """Ids of clusters that have nodes."""
        with self._lock:
            return list(self._nodes)

    def adjust(self, cluster: str, scale: Scale, wanted: int) -> None:
        """Let nodes come, be ready, and leave.

        Args:
            cluster: which.
            scale: its limits.
            wanted: nodes that queued jobs need beside those that run.
        """
        with self._lock:
            nodes = self._nodes.setdefault(cluster.lower(), [])
            for node in nodes:
                if node.state == "preparing" and node.seconds >= scale.allocation_seconds:
                    node.become("idle")
            gone = [n for n in nodes if n.state in {"leaving", "preempted"}]
            nodes[:] = [n for n in nodes if n not in gone or n.seconds < _SHOWN_SECONDS]
            here = [node for node in nodes if node not in gone]
            running = sum(node.state == "running" for node in here)
            most = min(scale.most, self._capacity.get(cluster.lower(), scale.most))
            target = min(max(running + wanted, scale.least), most)
            for _ in range(target - len(here)):
                self._number += 1
                nodes.append(Node(self._number))
            idle = [n for n in here if n.state == "idle" and n.seconds >= scale.idle_seconds]
            for node in idle[: max(len(here) - target, 0)]:
                node.become("leaving")
