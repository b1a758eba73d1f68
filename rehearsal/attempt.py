"""One start of a job on its nodes, from the code's snapshot to the last file written back."""

import shutil
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from azure.core.exceptions import AzureError as StorageError

from rehearsal import job_spec, job_variables, references
from rehearsal.azurite import free_port
from rehearsal.blobs import Blobs
from rehearsal.errors import AzureError
from rehearsal.folders import Cache, Mirror, Writer
from rehearsal.identity import Identity
from rehearsal.job_spec import JobSpec
from rehearsal.job_variables import Service
from rehearsal.options import Options
from rehearsal.processes import Guard
from rehearsal.ranks import Ended, Program, Ranks
from rehearsal.references import Place
from rehearsal.resources import Resources, new_id
from rehearsal.runs import Runs
from rehearsal.workspaces import ARTIFACTS

_TOKEN_SECONDS = 8 * 24 * 3600
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

PREEMPTED = (
    "PreemptionError: Nodes of this job got pre-empted. Check if the run has failed or restarted."
    " Reason: Received pre-emption warning signal"
)


@dataclass(frozen=True)
class World:
    """What an attempt needs of this Azure."""

    resources: Resources
    runs: Runs
    blobs: Blobs
    cache: Cache
    guard: Guard
    identity: Identity
    options: Options
    folder: Path
    """Where nodes have their disks."""
    trusted: Path
    url: str


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
        self._ranks: Ranks | None = None
        self._writer: Writer | None = None
        self._why: Literal["canceled", "timeout", "preempted", "closed"] | None = None
        self._lock = threading.Lock()

    def run(self) -> str | None:
        """Run to the end, writing the record; what took the nodes away, if something did."""
        runs, job = self._world.runs, self.spec.id
        try:
            ended = self._run()
        except (AzureError, StorageError, OSError) as error:
            self._abandon()
            if not self._gone:
                self._end("Failed", system_error(f"{type(error).__name__}: {error}"))
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
        inputs, outputs, mirrors = self._folders()
        service = self._service()
        programs = self._programs(inputs, outputs, service)
        artifacts = references.place(
            world.resources,
            spec.workspace,
            f"azureml://datastores/{ARTIFACTS}/paths/ExperimentRun/dcid.{spec.name}",
        )
        logs = _below(artifacts, "user_logs")
        user_logs = Mirror(world.blobs, logs, self._folder / "user_logs", removes=False)
        for node in range(spec.nodes):
            mirrors += [
                Mirror(world.blobs, _below(artifacts, name), self._work(node) / name, removes=False)
                for name in ("outputs", "logs")
            ]

        def tell() -> None:
            world.runs.change(spec.id, logFiles=[f"user_logs/{name}" for name in user_logs.sent])

        with self._lock:
            if self._ended_early():
                return Ended(0)
            self._ranks = ranks = Ranks(programs, world.guard, f"{self._launch}/")
            world.runs.change(spec.id, status="Running")
            # Logs go last, so that whoever has read of a file finds it.
            self._writer = writer = Writer([*mirrors, user_logs], world.options.sync_seconds, tell)
        timer = self._timer()
        ended = ranks.wait()
        timer.cancel()
        if self._gone:
            return ended
        if not self._ended_early():
            world.runs.change(spec.id, status="Finalizing")
        writer.finish()
        return ended

    def _folders(self) -> tuple[dict[str, Path | str], dict[str, Path], list[Mirror]]:
        """Inputs, outputs, and what writes these back."""
        spec, world = self.spec, self._world
        inputs: dict[str, Path | str] = {}
        for name, given in spec.inputs.items():
            if given.get("jobInputType") == "literal":
                inputs[name] = str(given.get("value"))
                continue
            family = "models" if "model" in given.get("jobInputType", "") else "data"
            place = references.place(world.resources, spec.workspace, given["uri"], family)
            inputs[name] = world.cache.materialize(place)
        outputs: dict[str, Path] = {}
        mirrors = []
        for name, given in spec.outputs.items():
            default = f"azureml://datastores/workspaceblobstore/paths/azureml/{spec.name}/{name}"
            uri = (given or {}).get("uri") or default
            place = references.place(world.resources, spec.workspace, uri)
            outputs[name] = self._folder / "outputs" / name
            mirror = Mirror(world.blobs, place, outputs[name])
            mirror.fill()
            mirrors.append(mirror)
        return inputs, outputs, mirrors

    def _programs(
        self, inputs: dict[str, Path | str], outputs: dict[str, Path], service: Service
    ) -> list[Program]:
        spec, world = self.spec, self._world
        command = job_spec.command_line(spec.command, inputs, outputs)
        code = self._code()
        shared = {
            "PATH": _path(world.options.program_folder),
            "LANG": "C.UTF-8",
            **job_variables.of_run(spec, service),
            **job_variables.of_folders(inputs, outputs),
            **spec.variables,
        }
        programs = []
        for node in range(spec.nodes):
            work = self._work(node)
            if code is None:
                work.mkdir(parents=True)
            else:
                shutil.copytree(code, work, copy_function=shutil.copyfile)
                for folder in [work, *(path for path in work.rglob("*") if path.is_dir())]:
                    folder.chmod(0o755)
            temporary = self._folder / f"node{node}" / "tmp"
            temporary.mkdir()
            for local_rank in range(spec.processes):
                own = job_variables.of_rank(spec, service, node, local_rank)
                environment = {**shared, "HOME": str(work), "TMPDIR": str(temporary), **own}
                rank = node * spec.processes + local_rank
                log = self._folder / "user_logs" / job_spec.log_name(spec, rank)
                programs.append(Program(command, work, environment, log))
        return programs

    def _code(self) -> Path | None:
        spec, world = self.spec, self._world
        if spec.code is None:
            return None
        identifier = references.asset(world.resources, spec.workspace, spec.code, "codes")
        document = world.resources.get(identifier)
        if document is None:
            raise AzureError(404, "UserError", f"Code {identifier} was not found.")
        return world.cache.materialize(world.blobs.place(document["properties"]["codeUri"]))

    def _service(self) -> Service:
        world = self._world
        workspace = world.resources.get(self.spec.workspace) or {"properties": {}}
        return Service(
            url=world.url,
            trusted=world.trusted,
            token=world.identity.token(self.spec.identity or "run", world.url, _TOKEN_SECONDS),
            expires=int(time.time()) + _TOKEN_SECONDS,
            workspace_id=workspace["properties"].get("workspaceId", ""),
            port=free_port(),
            launch=self._launch,
        )

    def _work(self, node: int) -> Path:
        return self._folder / f"node{node}" / "wd"

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

    def _ended_early(self) -> bool:
        return self._why is not None

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


def system_error(message: str) -> dict[str, Any]:
    """The error of a job that Azure itself has failed."""
    return _error("SystemError", message)


def preemption_error() -> dict[str, Any]:
    """The error of a job whose nodes were taken."""
    return _error("UserError", PREEMPTED)


def _below(place: Place, name: str) -> Place:
    return Place(place.account, place.container, f"{place.path}/{name}")


def _path(program_folder: Path | None) -> str:
    return _SYSTEM_PATH if program_folder is None else f"{program_folder}:{_SYSTEM_PATH}"
