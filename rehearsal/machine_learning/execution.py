"""One execution of a job on its nodes, from the code snapshot to the last file written back."""

import threading
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal, TypeAlias

from azure.core.exceptions import AzureError as StorageError

from rehearsal.blob_storage.folder_sync import MirrorThread
from rehearsal.control_plane.azure_formats import run_error
from rehearsal.errors import AzureError, user_error
from rehearsal.machine_learning import job_spec
from rehearsal.machine_learning.job_access import AccessDeniedError
from rehearsal.machine_learning.job_spec import JobSpec
from rehearsal.machine_learning.node_disks import NodeDisks
from rehearsal.machine_learning.processes import ExitStatus, JobProcesses
from rehearsal.machine_learning.run_history import Runs

StartProcesses: TypeAlias = Callable[[], JobProcesses]
Loss: TypeAlias = Literal["preempted", "closed"]
"""Why the nodes were lost: a pre-emption, or this Azure was stopped."""


@dataclass
class JobExecution:
    """The execution of a job that has nodes."""

    spec: JobSpec
    disks: NodeDisks
    """Disks of its nodes, still empty."""
    start_processes: StartProcesses
    """Starts the job's processes once the disks are filled."""
    runs: Runs
    _: KW_ONLY
    sync_seconds: float
    """Seconds between two checks for new files of the job."""
    grace_seconds: float
    """Seconds from SIGTERM to SIGKILL when the job is ended."""
    setup_seconds: float
    """Seconds from the nodes to the start of the program."""
    finalizing_seconds: float
    """Seconds from the end of the program to that of the job."""
    announce: Callable[[float], None]
    """Announces to its nodes that they will be pre-empted after so many seconds."""
    _processes: JobProcesses | None = field(default=None, init=False)
    _mirrors: MirrorThread | None = field(default=None, init=False)
    _ended_by: Literal["canceled", "timeout"] | None = field(default=None, init=False)
    _loss: Loss | None = field(default=None, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _over: threading.Event = field(default_factory=threading.Event, init=False)
    """Set once the end was requested."""

    @property
    def ending(self) -> bool:
        """Whether the end was requested."""
        return self._ended_by is not None or self._loss is not None

    def run(self) -> Loss | None:
        """Run the job to its end and update its run; return why its nodes were lost, if so."""
        try:
            exit_status = self._run()
        except (AzureError, StorageError, OSError) as error:
            self._kill()
            if self._loss is None:
                self._change(status="Failed", error=_error_of(error))
            return self._loss
        finally:
            self.disks.remove()
        if self._loss is not None:
            return self._loss
        if self._ended_by is not None:
            warnings = [] if self._ended_by == "canceled" else [self._timeout_warning()]
            self._change(warnings=warnings)
            self._change(status="Canceled", error=None)
        elif exit_status.status:
            error_of_user = run_error("UserError", self._failure(exit_status))
            self._change(status="Failed", error=error_of_user)
        else:
            self._change(status="Completed", error=None)
        return None

    def end(self, reason: Literal["canceled", "timeout"]) -> None:
        """Ask the processes to end."""
        with self._lock:
            if self.ending:
                return
            self._ended_by = reason
            processes = self._processes
        self._over.set()
        if processes is not None:
            processes.end(self.grace_seconds)

    def abandon(self, reason: Loss) -> None:
        """Kill the processes immediately; nothing more is written back."""
        with self._lock:
            self._loss = reason
        self._over.set()
        self._kill()

    def lose(self, node: int) -> None:
        """Take a node away from the running program; its other nodes are not told.

        Raises:
            AzureError: the program does not run, or has no such node.
        """
        each = self.spec.processes
        if self._processes is None or self.ending or not 0 <= node < self.spec.nodes:
            raise user_error(f"Job {self.spec.name} has no running node {node}.")
        self._processes.lose(range(node * each, (node + 1) * each))

    def _run(self) -> ExitStatus:
        disks = self.disks
        if self.setup_seconds:
            self._change(status="Preparing")
            self._over.wait(self.setup_seconds)
        disks.fill()
        logs = disks.logs()
        # Logs go last, so that every file that they name can be read.
        mirrors = [*disks.outputs, *disks.artifacts(), logs]

        def list_logs() -> None:
            self._change(logFiles=[f"user_logs/{name}" for name in logs.sent])

        with self._lock:
            if self.ending:
                return ExitStatus(0)
            self._processes = processes = self.start_processes()
            self._change(status="Running")
            self._mirrors = mirror_thread = MirrorThread(mirrors, self.sync_seconds, list_logs)
        timer = self._start_timer()
        exit_status = processes.wait()
        timer.cancel()
        if self._loss is not None:
            return exit_status
        if not self.ending:
            self._change(status="Finalizing")
            self._over.wait(self.finalizing_seconds)
        mirror_thread.finish()
        return exit_status

    def _start_timer(self) -> threading.Timer:
        seconds = self.spec.timeout_seconds or threading.TIMEOUT_MAX
        timer = threading.Timer(min(seconds, threading.TIMEOUT_MAX), self.end, ["timeout"])
        timer.daemon = True
        timer.start()
        return timer

    def _kill(self) -> None:
        with self._lock:
            processes, mirrors = self._processes, self._mirrors
        if mirrors is not None:
            # Checked before the end: a folder that is deleted is not one that the job has emptied.
            mirrors.abandon()
        if processes is not None:
            processes.kill()
        if mirrors is not None:
            mirrors.join()

    def _change(self, **values: Any) -> None:
        self.runs.change(self.spec.id, **values)

    def _failure(self, exit_status: ExitStatus) -> str:
        name = job_spec.log_name(self.spec, exit_status.rank)
        program = job_spec.program_name(self.spec.command)
        return (
            f"Execution failed. User process '{program}' exited with status code"
            f" {exit_status.status}. Please check log file 'user_logs/{name}' for error details."
        )

    def _timeout_warning(self) -> dict[str, str]:
        seconds = self.spec.timeout_seconds
        return {"source": "Execution", "message": f"The job exceeded its time-out of {seconds} s."}


def _error_of(error: Exception) -> dict[str, Any]:
    """Return the error of a run whose execution failed."""
    if isinstance(error, AccessDeniedError):
        return run_error("UserError", error.message)
    return run_error("SystemError", f"{type(error).__name__}: {error}")
