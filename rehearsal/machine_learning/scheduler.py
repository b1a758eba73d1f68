"""Runs jobs: a queue for each cluster, nodes that come and go, and what takes them away."""

import threading
import time
from collections import Counter
from typing import Any

from rehearsal.control_plane.resource_manager import Resources
from rehearsal.control_plane.store import Document
from rehearsal.machine_learning import job_spec
from rehearsal.machine_learning.execution import Attempt, preemption_error, system_error
from rehearsal.machine_learning.jobs import JOB
from rehearsal.machine_learning.nodes import Nodes, Scale
from rehearsal.machine_learning.preemption_policy import life_seconds
from rehearsal.machine_learning.run_history import ENDED, Runs
from rehearsal.machine_learning.world import World
from rehearsal.options import Manner
from rehearsal.resources.computes import COMPUTE, is_low_priority

_TICK_SECONDS = 0.05
_AZURE_IDLE = "PT120S"


class Engine:
    """Jobs and the nodes that they run on."""

    def __init__(self, resources: Resources, runs: Runs) -> None:
        """Run nothing before `start`.

        Args:
            resources: all of them.
            runs: what becomes of jobs.
        """
        self._resources = resources
        self._runs = runs
        self._nodes = Nodes()
        self._world: World | None = None
        self._waiting: list[str] = []
        self._attempts: dict[str, Attempt] = {}
        self._manners: dict[str, Manner] = {}
        self._ends: dict[str, float] = {}
        """When the nodes of a job are taken away by chance."""
        self._starts: Counter[str] = Counter()
        """How often each job was started."""
        self._threads: list[threading.Thread] = []
        self._lock = threading.RLock()
        self._stop = threading.Event()
        self._ticker = threading.Thread(target=self._run, name="engine", daemon=True)

    def start(self, world: World) -> None:
        """Begin, with the jobs that had not ended when this Azure was last stopped."""
        self._world = world
        for document in self._resources.of_kind(JOB):
            status = self._runs.get(document["id"])["status"]
            if status == "CancelRequested":
                self._runs.change(document["id"], status="Canceled")
            elif status not in ENDED:
                self._enqueue(document["id"])
        self._ticker.start()

    def submit(self, job: str) -> None:
        """Take a job up."""
        self._runs.change(job, status="Starting")
        self._enqueue(job)

    def cancel(self, job: str) -> None:
        """End a job."""
        with self._lock:
            attempt = self._attempts.get(job.lower())
            if attempt is None:
                self._waiting = [other for other in self._waiting if other.lower() != job.lower()]
                self._runs.change(job, status="CancelRequested")
                self._runs.change(job, status="Canceled")
                return
        self._runs.change(job, status="CancelRequested")
        self._start_thread("cancel", attempt.end, "canceled")

    def preempt(self, job: str | None, cluster: str | None, manner: Manner) -> int:
        """Take away the nodes of a job, or of a cluster; how many jobs lost theirs."""
        with self._lock:
            found = [
                attempt
                for attempt in self._attempts.values()
                if (job and attempt.spec.id.lower() == job.lower())
                or (cluster and attempt.spec.cluster.lower() == cluster.lower())
            ]
            for attempt in found:
                self._nodes.lose(attempt.spec.cluster, attempt.spec.id)
            if cluster is not None:
                self._nodes.lose(cluster)
        for attempt in found:
            self._manners[attempt.spec.id] = manner
            attempt.lose("preempted")
        return len(found)

    def limit(self, cluster: str, capacity: int | None) -> None:
        """Let Azure have so many machines for a cluster, or as many as it wants."""
        self._nodes.limit(cluster, capacity)

    def nodes(self, cluster: str) -> list[dict[str, Any]]:
        """Nodes of a cluster."""
        return self._nodes.show(cluster)

    def close(self) -> None:
        """Kill all, and wait until it is gone."""
        self._stop.set()
        if self._ticker.is_alive():
            self._ticker.join()
        with self._lock:
            attempts = list(self._attempts.values())
        for attempt in attempts:
            attempt.lose("closed")
        for thread in self._threads:
            thread.join()

    def _enqueue(self, job: str) -> None:
        with self._lock:
            self._waiting.append(job)

    def _run(self) -> None:
        while not self._stop.wait(_TICK_SECONDS):
            for cluster in self._resources.of_kind(COMPUTE):
                self._serve(cluster)
            self._take_by_chance()
            self._end_orphans()

    def _take_by_chance(self) -> None:
        with self._lock:
            due = [job for job, end in self._ends.items() if end <= time.monotonic()]
            for job in due:
                del self._ends[job]
        for job in due:
            if self._world is not None:
                self.preempt(job, None, self._world.options.preemption)

    def _end_orphans(self) -> None:
        """End what runs on, or waits for, a cluster that was deleted."""
        for gone in [name for name in self._nodes.clusters() if not self._resources.get(name)]:
            self._nodes.forget(gone)
        with self._lock:
            for attempt in self._attempts.values():
                if not attempt.ending and not self._resources.get(attempt.spec.cluster):
                    self._start_thread("orphan", attempt.end, "canceled")
            for job in list(self._waiting):
                document = self._resources.get(job)
                if not document or not self._resources.get(document["properties"]["computeId"]):
                    self._waiting.remove(job)
                    self._runs.change(job, status="Failed", error=system_error("No such compute."))

    def _serve(self, cluster: Document) -> None:
        """Move the jobs of a cluster on, the first that came first."""
        world = self._world
        if world is None:
            return
        with self._lock:
            queue = []
            for job in self._waiting:
                document = self._resources.get(job)
                wanted = document and document["properties"]["computeId"].lower()
                if document is not None and wanted == cluster["id"].lower():
                    queue.append(job_spec.read(document, world.options.most_processes_per_node))
            for spec in queue:
                if self._runs.get(spec.id)["status"] != "Queued":
                    self._prepare(spec.id)
            ready = [spec for spec in queue if self._runs.get(spec.id)["status"] == "Queued"]
            wanted_nodes = sum(spec.nodes for spec in ready)
            self._nodes.adjust(cluster["id"], _scale(cluster, world), wanted_nodes)
            for spec in ready:
                if not self._nodes.take(cluster["id"], spec.id, spec.nodes):
                    break
                self._waiting.remove(spec.id)
                attempt = Attempt(world, spec)
                self._attempts[spec.id.lower()] = attempt
                mean = world.options.mean_node_seconds
                if mean is not None and is_low_priority(cluster):
                    start = self._starts[spec.id.lower()]
                    life = life_seconds(world.options.seed, spec.name, start, spec.nodes, mean)
                    self._ends[spec.id.lower()] = time.monotonic() + life
                self._starts[spec.id.lower()] += 1
                self._start_thread(spec.name, self._attempt, attempt)

    def _prepare(self, job: str) -> None:
        """From Starting by way of Preparing to Queued."""
        record = self._runs.get(job)
        if record["status"] == "Starting":
            self._runs.change(job, status="Preparing")
        elif record["status"] != "Preparing":
            self._runs.change(job, status="Queued")
        elif self._world is not None:
            seconds = self._world.options.preparation_seconds
            if self._runs.seconds_in_state(job) >= seconds:
                self._runs.change(job, status="Queued")

    def _attempt(self, attempt: Attempt) -> None:
        spec, why = attempt.spec, None
        try:
            why = attempt.run()
        finally:
            with self._lock:
                self._attempts.pop(spec.id.lower(), None)
                self._ends.pop(spec.id.lower(), None)
                self._nodes.release(spec.cluster, spec.id)
            if why is None:
                # Changes nothing if the attempt came to its end, whatever that was.
                self._runs.change(spec.id, status="Failed", error=system_error("It broke off."))
        if why == "preempted":
            self._after_preemption(spec.id, self._manners.pop(spec.id))

    def _after_preemption(self, job: str, manner: Manner) -> None:
        if manner == "restart":
            self._runs.change(job, status="Queued")
            self._enqueue(job)
        elif manner == "cancel":
            self._runs.change(job, status="Canceled")
        else:
            self._runs.change(job, status="Failed", error=preemption_error())

    def _start_thread(self, name: str, function: Any, *arguments: Any) -> None:
        thread = threading.Thread(target=function, args=arguments, name=name, daemon=True)
        self._threads = [one for one in self._threads if one.is_alive()]
        self._threads.append(thread)
        thread.start()


def _scale(cluster: Document, world: World) -> Scale:
    settings = cluster["properties"]["properties"]["scaleSettings"]
    idle = job_spec.seconds(settings.get("nodeIdleTimeBeforeScaleDown") or _AZURE_IDLE)
    most = world.options.most_idle_seconds
    return Scale(
        least=int(settings.get("minNodeCount") or 0),
        most=int(settings["maxNodeCount"]),
        idle_seconds=idle if most is None else min(idle, most),
        allocation_seconds=world.options.allocation_seconds,
    )
