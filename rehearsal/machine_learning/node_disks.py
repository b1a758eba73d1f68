"""The disks of a job's nodes: its code, its folders and what its processes are told."""

import shutil
import time
from pathlib import Path

from common.containers import Mount
from rehearsal.blob_storage.azurite import free_port
from rehearsal.errors import AzureError
from rehearsal.machine_learning import job_spec, job_variables
from rehearsal.machine_learning.folders import Mirror
from rehearsal.machine_learning.job_spec import JobSpec
from rehearsal.machine_learning.job_variables import Service
from rehearsal.machine_learning.ranks import Program
from rehearsal.machine_learning.world import World
from rehearsal.resources import references
from rehearsal.resources.references import Place
from rehearsal.resources.workspaces import ARTIFACTS

_TOKEN_SECONDS = 8 * 24 * 3600
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Stage:
    """Everything of one start of a job that is on disk."""

    def __init__(self, world: World, spec: JobSpec, folder: Path, launch: str) -> None:
        """Bring inputs, outputs and code.

        Args:
            world: what there is.
            spec: the job.
            folder: of this start alone.
            launch: a name that no other start has.

        Raises:
            AzureError: something that the job refers to is not there any more.
            AccessDeniedError: what the job acts as may not open a folder.
        """
        self._world = world
        self._spec = spec
        self._folder = folder
        self._launch = launch
        self.outputs: list[Mirror] = []
        """Write the job's outputs back."""
        self._inputs = self._bring_inputs()
        self._output_folders = self._bring_outputs()
        self._code = self._bring_code()

    def artifacts(self) -> list[Mirror]:
        """What of each node's working folder is uploaded while the job runs."""
        return [
            Mirror(self._world.blobs, self._artifacts(name), self._work(node) / name, removes=False)
            for node in range(self._spec.nodes)
            for name in ("outputs", "logs")
        ]

    def logs(self) -> Mirror:
        """The output of all ranks."""
        place = self._artifacts("user_logs")
        return Mirror(self._world.blobs, place, self._folder / "user_logs", removes=False)

    def programs(self) -> list[Program]:
        """The processes, each node's in a working folder that holds the code."""
        spec, service = self._spec, self._service()
        in_image = self._world.runtime is not None
        command = job_spec.command_line(spec.command, self._inputs, self._output_folders)
        shared = {
            **({} if in_image else {"PATH": _path(self._world.options.program_folder)}),
            "LANG": "C.UTF-8",
            **job_variables.of_run(spec, service),
            **job_variables.of_folders(self._inputs, self._output_folders),
            **spec.variables,
        }
        programs = []
        for node in range(spec.nodes):
            work, temporary = self._make_work(node), self._folder / f"node{node}" / "tmp"
            temporary.mkdir()
            for local_rank in range(spec.processes):
                own = job_variables.of_rank(spec, service, node, local_rank)
                if not in_image:
                    own |= job_variables.of_mpirun(spec, service, node, local_rank)
                environment = {**shared, "HOME": str(work), "TMPDIR": str(temporary), **own}
                rank = node * spec.processes + local_rank
                log = self._folder / "user_logs" / job_spec.log_name(spec, rank)
                programs.append(Program(command, work, environment, log))
        return programs

    def mounts(self) -> list[Mount]:
        """What of this machine a container must see, each at its own path."""
        inputs = [path for path in self._inputs.values() if isinstance(path, Path)]
        seen = dict.fromkeys([*inputs, self._world.trusted])
        own = Mount(self._folder, str(self._folder), writable=True)
        return [own, *(Mount(path, str(path)) for path in seen)]

    def _bring_inputs(self) -> dict[str, Path | str]:
        spec, world = self._spec, self._world
        found: dict[str, Path | str] = {}
        for name, given in spec.inputs.items():
            if given.get("jobInputType") == "literal":
                found[name] = str(given.get("value"))
                continue
            family = "models" if "model" in given.get("jobInputType", "") else "data"
            place = references.place(world.resources, spec.workspace, given["uri"], family)
            world.roles.require_of_job(spec, f"input {name}", place, "read")
            found[name] = world.cache.materialize(place)
        return found

    def _bring_outputs(self) -> dict[str, Path]:
        spec, world = self._spec, self._world
        found: dict[str, Path] = {}
        for name, given in spec.outputs.items():
            default = f"azureml://datastores/workspaceblobstore/paths/azureml/{spec.name}/{name}"
            uri = (given or {}).get("uri") or default
            place = references.place(world.resources, spec.workspace, uri)
            world.roles.require_of_job(spec, f"output {name}", place, "write")
            found[name] = self._folder / "outputs" / name
            mirror = Mirror(world.blobs, place, found[name])
            mirror.fill()
            self.outputs.append(mirror)
        return found

    def _bring_code(self) -> Path | None:
        spec, world = self._spec, self._world
        if spec.code is None:
            return None
        identifier = references.asset(world.resources, spec.workspace, spec.code, "codes")
        document = world.resources.get(identifier)
        if document is None:
            raise AzureError(404, "UserError", f"Code {identifier} was not found.")
        return world.cache.materialize(world.blobs.place(document["properties"]["codeUri"]))

    def _make_work(self, node: int) -> Path:
        work = self._work(node)
        if self._code is None:
            work.mkdir(parents=True)
            return work
        shutil.copytree(self._code, work, copy_function=shutil.copyfile)
        for folder in [work, *(path for path in work.rglob("*") if path.is_dir())]:
            folder.chmod(0o755)
        return work

    def _service(self) -> Service:
        world, spec = self._world, self._spec
        workspace = world.resources.get(spec.workspace) or {"properties": {}}
        return Service(
            url=world.url,
            trusted=world.trusted,
            token=world.identity.token(spec.identity or "run", world.url, _TOKEN_SECONDS),
            expires=int(time.time()) + _TOKEN_SECONDS,
            workspace_id=workspace["properties"].get("workspaceId", ""),
            port=free_port(),
            launch=self._launch,
        )

    def _artifacts(self, name: str) -> Place:
        spec = self._spec
        uri = f"azureml://datastores/{ARTIFACTS}/paths/ExperimentRun/dcid.{spec.name}/{name}"
        return references.place(self._world.resources, spec.workspace, uri)

    def _work(self, node: int) -> Path:
        return self._folder / f"node{node}" / "wd"


def _path(program_folder: Path | None) -> str:
    return _SYSTEM_PATH if program_folder is None else f"{program_folder}:{_SYSTEM_PATH}"
