"""Azure Machine Learning: composes the scheduler, run history and MLflow."""

import datetime as dt
import time
from dataclasses import KW_ONLY, dataclass
from functools import partial
from pathlib import Path

from rehearsal.blob_storage.azurite import free_port
from rehearsal.blob_storage.blobs import Blobs
from rehearsal.blob_storage.folder_sync import InputCache
from rehearsal.control_plane.azure_formats import new_id
from rehearsal.control_plane.http_messages import Request, Response
from rehearsal.control_plane.identity import Identity
from rehearsal.control_plane.resource_manager import ResourceManager
from rehearsal.lifetime import Reaper
from rehearsal.machine_learning.container import ContainerProcesses, JobImage
from rehearsal.machine_learning.execution import JobExecution
from rehearsal.machine_learning.job_access import principal_of
from rehearsal.machine_learning.job_spec import JOB, JobSpec, RunContext
from rehearsal.machine_learning.jobs import CommandJob
from rehearsal.machine_learning.metadata import Metadata
from rehearsal.machine_learning.mlflow import Mlflow
from rehearsal.machine_learning.node_disks import NodeDisks
from rehearsal.machine_learning.nodes import Nodes
from rehearsal.machine_learning.processes import JobProcesses, LocalProcesses
from rehearsal.machine_learning.run_history import RunHistory, Runs
from rehearsal.machine_learning.scheduler import Scheduler
from rehearsal.options import Options
from rehearsal.resources.roles import Roles

_TOKEN_SECONDS = 8 * 24 * 3600
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass
class MachineLearning:
    """Runs the jobs that Resource Manager holds, and serves their history and metrics.

    No job runs before `scheduler.start`.
    """

    options: Options
    image: JobImage | None
    """Image for jobs; None for jobs as processes of this machine."""
    folder: Path
    """Folder for the nodes' disks and the cached inputs."""
    url: str
    """Address of this Azure."""
    trusted: Path
    """File of certificates to trust."""
    _: KW_ONLY
    resources: ResourceManager
    blobs: Blobs
    identity: Identity
    """Issuer of the jobs' tokens."""
    roles: Roles
    reaper: Reaper

    def __post_init__(self) -> None:
        self._cache = InputCache(self.blobs, self.folder / "cache")
        self.nodes, self.metadata = Nodes(), Metadata()
        self.runs = Runs(self.resources.store)
        self.scheduler = Scheduler(
            self.resources, self.runs, self.nodes, self.options, self._execution
        )
        self.run_history = RunHistory(self.resources, self.runs, self.blobs, self._new_token)
        self.mlflow = Mlflow(self.resources, self.runs, self.resources.store)
        self.resources.register({JOB: CommandJob(self.resources, self.runs, self.scheduler)})

    def discover(self, request: Request) -> Response:  # noqa: ARG002
        """Respond to a request for the services' addresses."""
        services = ("api", "history", "experimentation")
        return Response(body=dict.fromkeys(services, self.url))

    def _execution(self, spec: JobSpec) -> JobExecution:
        execution_id = new_id()
        folder = self.folder / "nodes" / f"{spec.name}-{execution_id[:8]}"
        disks = NodeDisks(
            spec,
            folder,
            self.resources,
            self.roles,
            self.blobs,
            self._cache,
            self.options.mount_seconds,
        )
        return JobExecution(
            spec,
            disks,
            lambda: self._start_processes(spec, disks, execution_id),
            self.runs,
            sync_seconds=self.options.sync_seconds,
            grace_seconds=self.options.grace_seconds,
            setup_seconds=self.options.setup_seconds,
            finalizing_seconds=self.options.finalizing_seconds,
            announce=partial(
                self.metadata.announce, execution_id, "Preempt", nodes=range(spec.nodes)
            ),
        )

    def _start_processes(self, spec: JobSpec, disks: NodeDisks, execution_id: str) -> JobProcesses:
        context, part = self._context(spec, execution_id), f"{execution_id}/"
        if self.image is None:
            programs = disks.programs(context, _search_path(self.options.program_folder))
            return LocalProcesses(programs, self.reaper, part)
        programs = disks.programs(context, None)
        mounts = disks.mounts(self.trusted)
        return ContainerProcesses(self.image, spec, programs, mounts, self.reaper, part)

    def _new_token(self, job: str) -> tuple[str, dt.datetime]:
        document = self.resources.get(job) or {"properties": {}}
        identity = (document["properties"].get("identity") or {}).get("clientId")
        expiry = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=_TOKEN_SECONDS)
        return self.identity.token(identity or "run", self.url, _TOKEN_SECONDS), expiry

    def _context(self, spec: JobSpec, execution_id: str) -> RunContext:
        workspace = self.resources.get(spec.workspace) or {"properties": {}}
        own = None if spec.as_submitter else principal_of(self.resources, spec)
        return RunContext(
            url=self.url,
            trusted=self.trusted,
            token=self.identity.token(spec.identity or "run", self.url, _TOKEN_SECONDS),
            expires=int(time.time()) + _TOKEN_SECONDS,
            workspace_id=workspace["properties"].get("workspaceId", ""),
            port=free_port(),
            execution_id=execution_id,
            metadata=self.metadata.address(execution_id),
            secret=None
            if own is None
            else self.identity.token(own.object_id, self.url, _TOKEN_SECONDS),
        )


def _search_path(program_folder: Path | None) -> str:
    return _SYSTEM_PATH if program_folder is None else f"{program_folder}:{_SYSTEM_PATH}"
