"""One start of a job on its nodes, from the code's snapshot to the last file written back."""

import shutil
import threading
from collections.abc import Sequence
from typing import Any, Literal

from azure.core.exceptions import AzureError as StorageError

from rehearsal.blob_storage.folder_sync import Writer
from rehearsal.control_plane.resource_kind import new_id
from rehearsal.errors import AzureError
from rehearsal.machine_learning import job_spec
from rehearsal.machine_learning.container import Contained
from rehearsal.machine_learning.job_spec import JobSpec
from rehearsal.machine_learning.node_disks import Stage
from rehearsal.machine_learning.processes import Ended, Program, Ranks
from rehearsal.machine_learning.world import World
from rehearsal.resources.roles import AccessDeniedError

PREEMPTED = (
    "PreemptionError: Nodes of this job got pre-empted. Check if the run has failed or restarted."
    " Reason: Received pre-emption warning signal"
)


class Attempt:
    """A job that has its nodes."""

    def __init__(self, world: World, spec: JobSpec) -> None:
        """Do nothing yet.

        Args:
            world: what there is.
            spec: the job.
        """
        self.spec = spec
        self._world = world
        self._launch = new_id()
        self._folder = world.folder / f"{spec.name}-{self._launch[:8]}"
        self._ranks: Ranks | Contained | None = None
        self._writer: Writer | None = None
        self._why: Literal["canceled", "timeout", "preempted", "closed"] | None = None
        self._lock = threading.Lock()

    @property
    def ending(self) -> bool:
        """Whether something asked for the end."""
        return self._why is not None

    def run(self) -> str | None:
        """Run to the end, writing the record; what took the nodes away, if something did."""
        runs, job = self._world.runs, self.spec.id
        try:
            ended = self._run()
        except (AzureError, StorageError, OSError) as error:
            self._abandon()
            if not self._gone:
                self._end("Failed", _broken_by(error))
            return self._why
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)
        if self._gone:
            return self._why
        if self._why is not None:
            warnings = [] if self._why == "canceled" else [self._timed_out()]
            runs.change(job, warnings=warnings)
            self._end("Canceled", None)
        elif ended.status:
            self._end("Failed", _error("UserError", self._failure(ended)))
        else:
            self._end("Completed", None)
        return None

    def end(self, why: Literal["canceled", "timeout"]) -> None:
        """Ask the processes to end."""
        with self._lock:
            if self._why is not None:
                return
            self._why = why
            ranks = self._ranks
        if ranks is not None:
            ranks.end(self._world.options.grace_seconds)

    def lose(self, why: Literal["preempted", "closed"]) -> None:
        """Kill the processes at once; nothing more is written back."""
        with self._lock:
            self._why = why
        self._abandon()

    def _run(self) -> Ended:
        spec, world = self.spec, self._world
        stage = Stage(world, spec, self._folder, self._launch)
        programs = stage.programs()
        logs = stage.logs()
        # Logs go last, so that whoever has read of a file finds it.
        mirrors = [*stage.outputs, *stage.artifacts(), logs]

        def tell() -> None:
            world.runs.change(spec.id, logFiles=[f"user_logs/{name}" for name in logs.sent])

        with self._lock:
            if self.ending:
                return Ended(0)
            self._ranks = ranks = self._start(stage, programs)
            world.runs.change(spec.id, status="Running")
            self._writer = writer = Writer(mirrors, world.options.sync_seconds, tell)
        timer = self._timer()
        ended = ranks.wait()
        timer.cancel()
        if self._gone:
            return ended
        if not self.ending:
            world.runs.change(spec.id, status="Finalizing")
        writer.finish()
        return ended

    def _start(self, stage: Stage, programs: Sequence[Program]) -> Ranks | Contained:
        world, part = self._world, f"{self._launch}/"
        if world.runtime is None:
            return Ranks(programs, world.guard, part)
        mounts = stage.mounts()
        return Contained(world.runtime, self.spec, programs, mounts, world.guard, part)

    def _timer(self) -> threading.Timer:
        seconds = self.spec.timeout_seconds or threading.TIMEOUT_MAX
        timer = threading.Timer(min(seconds, threading.TIMEOUT_MAX), self.end, ["timeout"])
        timer.daemon = True
        timer.start()
        return timer

    def _abandon(self) -> None:
        with self._lock:
            ranks, writer = self._ranks, self._writer
        if writer is not None:
            # Before anything ends: a folder that goes away is not one that the job has emptied.
            writer.lose()
        if ranks is not None:
            ranks.kill()
        if writer is not None:
            writer.join()

    @property
    def _gone(self) -> bool:
        return self._why in {"preempted", "closed"}

    def _end(self, status: str, error: dict[str, Any] | None) -> None:
        self._world.runs.change(self.spec.id, status=status, error=error)

    def _failure(self, ended: Ended) -> str:
        name = job_spec.log_name(self.spec, ended.rank)
        return (
            f"Execution failed. User process '{job_spec.program(self.spec.command)}' exited with"
            f" status code {ended.status}. Please check log file 'user_logs/{name}' for error"
            f" details."
        )

    def _timed_out(self) -> dict[str, str]:
        seconds = self.spec.timeout_seconds
        return {"source": "Execution", "message": f"The job exceeded its time-out of {seconds} s."}


def _error(code: str, message: str) -> dict[str, Any]:
    """An error as run history writes it."""
    return {"error": {"code": code, "message": message, "details": []}}


def _broken_by(error: Exception) -> dict[str, Any]:
    """What kept an attempt from coming to its end."""
    if isinstance(error, AccessDeniedError):
        return _error("UserError", error.message)
    return system_error(f"{type(error).__name__}: {error}")


def system_error(message: str) -> dict[str, Any]:
    """The error of a job that Azure itself has failed."""
    return _error("SystemError", message)


def preemption_error() -> dict[str, Any]:
    """The error of a job whose nodes were taken."""
    return _error("UserError", PREEMPTED)
