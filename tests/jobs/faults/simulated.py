"""The simulator without servers and threads: its jobs live by the clock of the command."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rehearsal.control_plane.azure_formats import run_error
from rehearsal.control_plane.http_messages import Response
from rehearsal.machine_learning.preemption_policy import PREEMPTED
from rehearsal.options import Options
from rehearsal.simulator import Simulator
from tests.jobs.faults.clock import Clock
from tests.jobs.faults.github import GitHub
from tests.jobs.support.live import Live, declare
from tests.jobs.support.platform import platform

LOG = "user_logs/std_log_process_00.txt"
LINES = b"first line\nlast line\n"


class InProcess(Simulator):
    """Azure whose services are called directly, and whose jobs follow a test's script."""

    clock: Clock
    """Clock of the present command."""
    pre_empted: Callable[[str], bool]
    """Tells by its name whether a job is pre-empted."""
    left: dict[str, bytes]
    """Files that a job of a run has written when it completes."""
    github: GitHub
    """GitHub, with the comments of the present command."""

    def reset(self) -> None:
        """Begin another command: forget the time, and the script of jobs."""
        self.clock, self.github = Clock(), GitHub()
        self.pre_empted = lambda _: False
        self.left = {"result.json": b'{"steps": 1}'}

    def _start(self, stack: Any) -> None:
        del stack
        self.scheduler.submit = self._submit  # type: ignore[method-assign]
        states: dict[str, str] = {}
        classes = {"classes": [{"class_id": 1, "class_name": "one", "probability": 1.0}]}

        def start(deployment: str) -> None:
            states[deployment] = "Creating"
            self.clock.after(40.0, lambda: states.update({deployment: "Succeeded"}))

        self.servers.start = start  # type: ignore[method-assign]
        self.servers.state = lambda deployment: states[deployment]  # type: ignore[method-assign]
        self.servers.ask = lambda *_: Response(200, classes)  # type: ignore[method-assign]

    def _submit(self, job: str) -> None:
        self.runs.change(job, status="Queued")
        self.clock.after(12.0, lambda: self._run(job))
        self.clock.after(40.0, lambda: self._end(job))

    def _run(self, job: str) -> None:
        self._write("ExperimentRun", job, LOG, LINES[:11])
        self.runs.change(job, status="Running", logFiles=[LOG])

    def _end(self, job: str) -> None:
        self._write("ExperimentRun", job, LOG, LINES)
        if self.pre_empted(job.rpartition("/")[2]):
            self.runs.change(job, status="Failed", error=run_error("UserError", PREEMPTED))
            return
        tags = (self.resources.get(job) or {"properties": {}})["properties"].get("tags") or {}
        if "run" in tags and not self.runs.get(job)["status"].startswith("Cancel"):
            run = tags["run"]
            for name, content in self.left.items():
                self._put(f"runs/{run}/{run}/{name}", content, "results")
        self.runs.change(job, status="Completed")

    def _write(self, folder: str, job: str, name: str, content: bytes) -> None:
        self._put(f"{folder}/dcid.{job.rpartition('/')[2]}/{name}", content, "azureml")

    def _put(self, name: str, content: bytes, container: str) -> None:
        self.blobs.container(self.account, container).upload_blob(name, content, overwrite=True)

    @property
    def account(self) -> str:
        """Name of the account with results and artifacts."""
        return platform().datastores.results.account


@contextmanager
def opened(folder: Path) -> Iterator[Live]:
    """Open a simulator with a platform."""
    azure = InProcess(folder / "azure", Options())
    with azure:
        azure.reset()
        live = declare(azure, folder)
        azure.blobs.container(azure.account, "results").exists()
        yield live
