"""Observations for the record of a cycle: the jobs of the run, and nodes over time."""

import datetime as dt
import threading
import time
from typing import Any, Final

from rehearsal.machine_learning import job_spec
from rehearsal.page.record import Attempt, NodePool
from rehearsal.resources.computes import clusters
from rehearsal.simulator import Simulator

_SAMPLE_SECONDS: Final = 0.1


def attempts(azure: Simulator) -> tuple[Attempt, ...]:
    """Return all jobs as attempts, the oldest first."""
    jobs = [_attempt(azure, document) for document in azure.resources.of_kind(job_spec.JOB)]
    return tuple(sorted(jobs, key=lambda attempt: attempt.began))


def allocated_nodes(azure: Simulator, cluster: str) -> int:
    """Return how many nodes a cluster has allocated and would be billed for."""
    return sum(node["nodeState"] != "preempted" for node in azure.nodes.show(cluster))


class NodeSampler:
    """Samples the number of nodes of all clusters, in a thread of its own.

    Args:
        azure: The simulator.
    """

    def __init__(self, azure: Simulator) -> None:
        self._azure = azure
        self._clusters: dict[str, tuple[str, str, list[tuple[float, int]]]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="node sampler", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop sampling."""
        self._stop.set()
        self._thread.join()

    def pools(self) -> tuple[NodePool, ...]:
        """Return the clusters that have had a node."""
        return tuple(
            NodePool(name, size, priority, tuple(samples))
            for name, (size, priority, samples) in sorted(self._clusters.items())
            if any(nodes for _, nodes in samples)
        )

    def _run(self) -> None:
        while not self._stop.wait(_SAMPLE_SECONDS):
            for document in clusters(self._azure.resources):
                self._sample(document)

    def _sample(self, document: dict[str, Any]) -> None:
        inner = document["properties"]["properties"]
        _, _, samples = self._clusters.setdefault(
            document["name"], (inner["vmSize"], inner.get("vmPriority", "Dedicated"), [])
        )
        nodes = allocated_nodes(self._azure, document["id"])
        if not samples or samples[-1][1] != nodes:
            samples.append((time.time(), nodes))


def _attempt(azure: Simulator, document: dict[str, Any]) -> Attempt:
    run = azure.runs.get(document["id"])
    spec = job_spec.read(document, azure.options.max_processes_per_node)
    return Attempt(
        job=spec.name,
        cluster=spec.cluster.rpartition("/")[2],
        nodes=spec.nodes,
        ranks=spec.nodes * spec.processes,
        began=_seconds(run.get("startTimeUtc") or run["createdUtc"]),
        ended=_seconds(run["endTimeUtc"]) if "endTimeUtc" in run else None,
        status=run["status"],
        reason=((run.get("error") or {}).get("error") or {}).get("message", ""),
    )


def _seconds(timestamp: str) -> float:
    """Convert a timestamp to seconds since the epoch."""
    return dt.datetime.fromisoformat(timestamp).timestamp()
