"""Runs jobs: a queue per cluster, nodes that come and go, and pre-emption."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from rehearsal.control_plane.azure_formats import duration_seconds, run_error
from rehearsal.control_plane.resource_manager import ResourceManager
from rehearsal.control_plane.store import Document
from rehearsal.errors import user_error
from rehearsal.machine_learning import job_spec
from rehearsal.machine_learning.execution import JobExecution
from rehearsal.machine_learning.job_spec import JOB, JobSpec
from rehearsal.machine_learning.nodes import Nodes, ScaleSettings
from rehearsal.machine_learning.preemption_policy import (
    run_after_preemption,
    seconds_until_preemption,
)
from rehearsal.machine_learning.run_history import ENDED, Runs
from rehearsal.options import Options, PreemptionManner
from rehearsal.resources.computes import clusters, is_low_priority

NewExecution: TypeAlias = Callable[[JobSpec], JobExecution]

_TICK_SECONDS = 0.05
_AZURE_IDLE = "PT120S"


@dataclass
class Scheduler:
    """Queues jobs, assigns nodes to them and executes them. Nothing runs before `start`."""

    resources: ResourceManager
    runs: Runs
    nodes: Nodes
    options: Options
    new_execution: NewExecution
    """Creates the execution of a job that has its nodes."""

    def __post_init__(self) -> None:
        self._queue: list[str] = []
        self._executions: dict[str, JobExecution] = {}
        self._preempted: dict[str, tuple[PreemptionManner, str | None]] = {}
        """Jobs that were pre-empted, until their execution has ended, and what to say of it."""
        self._preemption_times: dict[str, float] = {}
        """Times of the random pre-emptions, by job."""
        self._starts: Counter[str] = Counter()
        """Number of starts, by job."""
        self._threads: list[threading.Thread] = []
        self._lock = threading.RLock()
        self._stop = threading.Event()
        self._ticker = threading.Thread(target=self._run, name="scheduler", daemon=True)

    def start(self) -> None:
        """Start, with the jobs that had not ended when this Azure was last stopped."""
        for document in self.resources.of_kind(JOB):
            status = self.runs.get(document["id"])["status"]
            if status == "CancelRequested":
                self.runs.change(document["id"], status="Canceled")
            elif status not in ENDED:
                self._enqueue(document["id"])
        self._ticker.start()

    def submit(self, job: str) -> None:
        """Accept a job."""
        self.runs.change(job, status="Starting")
        self._enqueue(job)

    def cancel(self, job: str) -> None:
        """Cancel a job."""
        with self._lock:
            execution = self._executions.get(job.lower())
            if execution is None:
                self._queue = [other for other in self._queue if other.lower() != job.lower()]
                self.runs.change(job, status="CancelRequested")
                self.runs.change(job, status="Canceled")
                return
        self.runs.change(job, status="CancelRequested")
        self._start_thread("cancel", execution.end, "canceled")

    def preempt(
        self,
        job: str | None,
        cluster: str | None,
        manner: PreemptionManner,
        notice_seconds: float = 0.0,
        message: str | None = None,
    ) -> int:
        """Pre-empt the nodes of a job or of a cluster, perhaps after a notice to the nodes of jobs;
        return how many jobs lose theirs. The processes that are then left get no signal but
        SIGKILL. A job that fails says `message` instead of Azure's usual words.
        """
        with self._lock:
            executions = [
                execution
                for execution in self._executions.values()
                if (job and execution.spec.id.lower() == job.lower())
                or (cluster and execution.spec.cluster.lower() == cluster.lower())
            ]
            if notice_seconds:
                for execution in executions:
                    self.nodes.condemn(execution.spec.cluster, execution.spec.id)
        if not notice_seconds:
            self._take(executions, cluster, manner, message)
            return len(executions)
        for execution in executions:
            execution.announce(notice_seconds)
        timer = threading.Timer(notice_seconds, self._take, (executions, cluster, manner, message))
        timer.daemon = True
        timer.start()
        return len(executions)

    def _take(
        self,
        executions: Sequence[JobExecution],
        cluster: str | None,
        manner: PreemptionManner,
        message: str | None,
    ) -> None:
        """Take the nodes of executions that have not ended, and all of a cluster."""
        with self._lock:
            executions = [
                running
                for running in executions
                if self._executions.get(running.spec.id.lower()) is running
            ]
            for execution in executions:
                self.nodes.preempt(execution.spec.cluster, execution.spec.id)
            if cluster is not None:
                self.nodes.preempt(cluster)
        for execution in executions:
            self._preempted[execution.spec.id] = (manner, message)
            execution.abandon("preempted")

    def take_node(self, job: str, node: int) -> None:
        """Take one node of a running job, which stays Running: only its own ranks are killed.

        Raises:
            AzureError: the job does not run, or has no such node.
        """
        with self._lock:
            execution = self._executions.get(job.lower())
        if execution is None:
            raise user_error(f"Job {job.rpartition('/')[2]} has no running node {node}.")
        execution.lose(node)
        self.nodes.preempt_one(execution.spec.cluster, execution.spec.id, node)

    def close(self) -> None:
        """Kill all jobs, and wait until they have ended."""
        self._stop.set()
        if self._ticker.is_alive():
            self._ticker.join()
        with self._lock:
            executions = list(self._executions.values())
        for execution in executions:
            execution.abandon("closed")
        for thread in self._threads:
            thread.join()

    def _enqueue(self, job: str) -> None:
        with self._lock:
            self._queue.append(job)

    def _run(self) -> None:
        while not self._stop.wait(_TICK_SECONDS):
            for cluster in clusters(self.resources):
                self._serve(cluster)
            self._preempt_by_chance()
            self._end_orphans()

    def _preempt_by_chance(self) -> None:
        with self._lock:
            due = [job for job, at in self._preemption_times.items() if at <= time.monotonic()]
            for job in due:
                del self._preemption_times[job]
        for job in due:
            options = self.options
            self.preempt(job, None, options.preemption, options.notice_seconds)

    def _end_orphans(self) -> None:
        """Fail jobs that run or wait on a cluster that was deleted."""
        for gone in [name for name in self.nodes.clusters() if not self.resources.get(name)]:
            self.nodes.forget(gone)
        with self._lock:
            for execution in self._executions.values():
                if not execution.ending and not self.resources.get(execution.spec.cluster):
                    self._start_thread("orphan", execution.end, "canceled")
            for job in list(self._queue):
                document = self.resources.get(job)
                if not document or not self.resources.get(document["properties"]["computeId"]):
                    self._queue.remove(job)
                    error = run_error("SystemError", "No such compute.")
                    self.runs.change(job, status="Failed", error=error)

    def _serve(self, cluster: Document) -> None:
        """Advance the jobs of a cluster, in order of submission."""
        with self._lock:
            specs = self._queued_on(cluster)
            for spec in specs:
                if self.runs.get(spec.id)["status"] != "Queued":
                    self._prepare(spec.id)
            ready = [spec for spec in specs if self.runs.get(spec.id)["status"] == "Queued"]
            queued_nodes = sum(spec.nodes for spec in ready)
            self.nodes.scale(cluster["id"], _scale_settings(cluster, self.options), queued_nodes)
            for spec in ready:
                if not self.nodes.assign(cluster["id"], spec.id, spec.nodes):
                    break
                self._queue.remove(spec.id)
                self._execute(spec, low_priority=is_low_priority(cluster))

    def _queued_on(self, cluster: Document) -> list[JobSpec]:
        specs = []
        for job in self._queue:
            document = self.resources.get(job)
            if document and document["properties"]["computeId"].lower() == cluster["id"].lower():
                specs.append(job_spec.read(document, self.options.max_processes_per_node))
        return specs

    def _prepare(self, job: str) -> None:
        """Take a job from Starting through Preparing to Queued."""
        status = self.runs.get(job)["status"]
        if status == "Starting":
            self.runs.change(job, status="Preparing")
        elif (
            status != "Preparing"
            or self.runs.seconds_in_state(job) >= self.options.preparation_seconds
        ):
            self.runs.change(job, status="Queued")

    def _execute(self, spec: JobSpec, *, low_priority: bool) -> None:
        job, options = spec.id.lower(), self.options
        execution = self.new_execution(spec)
        self._executions[job] = execution
        if options.mean_node_seconds is not None and low_priority:
            self._preemption_times[job] = time.monotonic() + seconds_until_preemption(
                options.seed, spec.name, self._starts[job], spec.nodes, options.mean_node_seconds
            )
        self._starts[job] += 1
        self._start_thread(spec.name, self._finish, execution)

    def _finish(self, execution: JobExecution) -> None:
        """Run a job to its end, and release its nodes."""
        spec, lost_by = execution.spec, None
        try:
            lost_by = execution.run()
        finally:
            with self._lock:
                self._executions.pop(spec.id.lower(), None)
                self._preemption_times.pop(spec.id.lower(), None)
                self.nodes.release(spec.cluster, spec.id)
            if lost_by is None:
                # Changes nothing if the execution has recorded an end.
                error = run_error("SystemError", "The execution stopped unexpectedly.")
                self.runs.change(spec.id, status="Failed", error=error)
        if lost_by == "preempted":
            manner, message = self._preempted.pop(spec.id)
            self.runs.change(spec.id, **run_after_preemption(manner, message))
            if manner == "restart":
                self._enqueue(spec.id)

    def _start_thread(self, name: str, function: Callable[..., Any], *arguments: Any) -> None:
        thread = threading.Thread(target=function, args=arguments, name=name, daemon=True)
        self._threads = [other for other in self._threads if other.is_alive()]
        self._threads.append(thread)
        thread.start()


def _scale_settings(cluster: Document, options: Options) -> ScaleSettings:
    settings = cluster["properties"]["properties"]["scaleSettings"]
    idle = duration_seconds(settings.get("nodeIdleTimeBeforeScaleDown") or _AZURE_IDLE)
    cap = options.max_idle_seconds
    return ScaleSettings(
        min_nodes=int(settings.get("minNodeCount") or 0),
        max_nodes=int(settings["maxNodeCount"]),
        idle_seconds=idle if cap is None else min(idle, cap),
        allocation_seconds=options.allocation_seconds,
    )
