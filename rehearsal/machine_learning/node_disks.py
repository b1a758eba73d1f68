"""The disks of a job's nodes: its code and folders, and the programs of its processes."""

import shutil
from dataclasses import dataclass, field
from pathlib import Path

from common.containers import Mount
from rehearsal.blob_storage.blobs import BlobPath, Blobs, parse_address
from rehearsal.blob_storage.folder_sync import FolderMirror, InputCache
from rehearsal.blob_storage.role_policy import Access
from rehearsal.control_plane.resource_manager import ResourceManager
from rehearsal.errors import AzureError
from rehearsal.machine_learning import job_spec
from rehearsal.machine_learning.job_access import require_access
from rehearsal.machine_learning.job_spec import JobSpec, RunContext
from rehearsal.machine_learning.processes import RankProgram
from rehearsal.resources import assets
from rehearsal.resources.roles import Roles
from rehearsal.resources.workspaces import ARTIFACTS


@dataclass
class NodeDisks:
    """All files of one execution of a job."""

    spec: JobSpec
    folder: Path
    """Folder for this execution only."""
    resources: ResourceManager
    roles: Roles
    blobs: Blobs
    cache: InputCache
    mount_seconds: float
    """Seconds for which a mount of an output remembers a listing."""
    _inputs: dict[str, Path | str] = field(default_factory=dict, init=False)
    _output_folders: dict[str, Path] = field(default_factory=dict, init=False)
    outputs: list[FolderMirror] = field(default_factory=list, init=False)
    """Mirrors that write the job's outputs back."""

    def fill(self) -> None:
        """Download inputs, outputs and code, and create each node's working folder.

        Raises:
            AzureError: something that the job refers to no longer exists.
            AccessDeniedError: the job's identity may not access a folder.
        """
        self._inputs = self._bring_inputs()
        self._output_folders = self._bring_outputs()
        code = self._bring_code()
        for node in range(self.spec.nodes):
            self._make_work(node, code)
            self._temporary(node).mkdir()

    def remove(self) -> None:
        """Delete everything, as when nodes are released."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def artifacts(self) -> list[FolderMirror]:
        """Return mirrors of the folders in the working folders that are uploaded during the job."""
        return [
            FolderMirror(
                self.blobs, self._artifact_path(name), self._work(node) / name, removes=False
            )
            for node in range(self.spec.nodes)
            for name in ("outputs", "logs")
        ]

    def logs(self) -> FolderMirror:
        """Return a mirror of the folder with the output of all ranks."""
        path = self._artifact_path("user_logs")
        return FolderMirror(self.blobs, path, self.folder / "user_logs", removes=False)

    def programs(self, context: RunContext, search_path: str | None) -> list[RankProgram]:
        """Return the programs of all ranks, each in the working folder of its node.

        Args:
            context: Facts about Azure for the processes.
            search_path: PATH of the processes; None in an image, which has its own PATH and mpirun.
        """
        spec = self.spec
        command = job_spec.command_line(spec.command, self._inputs, self._output_folders)
        shared = {
            **({} if search_path is None else {"PATH": search_path}),
            "LANG": "C.UTF-8",
            **job_spec.run_variables(spec, context),
            **job_spec.folder_variables(self._inputs, self._output_folders),
            **spec.variables,
        }
        programs = []
        for node in range(spec.nodes):
            work = self._work(node)
            folders = {"HOME": str(work), "TMPDIR": str(self._temporary(node))}
            for local_rank in range(spec.processes):
                own = job_spec.rank_variables(spec, context, node, local_rank)
                if search_path is not None:
                    own |= job_spec.mpi_variables(spec, context, node, local_rank)
                rank = node * spec.processes + local_rank
                log = self.folder / "user_logs" / job_spec.log_name(spec, rank)
                programs.append(RankProgram(command, work, {**shared, **folders, **own}, log))
        return programs

    def mounts(self, trusted: Path) -> list[Mount]:
        """Return the local files and folders that a container must see, each at its own path.

        Args:
            trusted: File of certificates to trust.
        """
        inputs = [path for path in self._inputs.values() if isinstance(path, Path)]
        own = Mount(self.folder, str(self.folder), writable=True)
        return [own, *(Mount(path, str(path)) for path in dict.fromkeys([*inputs, trusted]))]

    def _bring_inputs(self) -> dict[str, Path | str]:
        inputs: dict[str, Path | str] = {}
        for name, given in self.spec.inputs.items():
            if given.get("jobInputType") == "literal":
                inputs[name] = str(given.get("value"))
                continue
            family = "models" if "model" in given.get("jobInputType", "") else "data"
            path = self._blob_path(given["uri"], family)
            self._require_access(f"input {name}", path, "read")
            inputs[name] = self.cache.materialize(path)
        return inputs

    def _bring_outputs(self) -> dict[str, Path]:
        spec = self.spec
        folders: dict[str, Path] = {}
        for name, given in spec.outputs.items():
            default = f"azureml://datastores/workspaceblobstore/paths/azureml/{spec.name}/{name}"
            path = self._blob_path((given or {}).get("uri") or default)
            self._require_access(f"output {name}", path, "write")
            folders[name] = self.folder / "outputs" / name
            mirror = FolderMirror(
                self.blobs, path, folders[name], listing_seconds=self.mount_seconds
            )
            mirror.fill()
            self.outputs.append(mirror)
        return folders

    def _bring_code(self) -> Path | None:
        spec = self.spec
        if spec.code is None:
            return None
        identifier = assets.asset_id(self.resources, spec.workspace, spec.code, "codes")
        document = self.resources.get(identifier)
        if document is None:
            raise AzureError(404, "UserError", f"Code {identifier} was not found.")
        return self.cache.materialize(parse_address(document["properties"]["codeUri"]))

    def _make_work(self, node: int, code: Path | None) -> None:
        work = self._work(node)
        if code is None:
            work.mkdir(parents=True)
            return
        shutil.copytree(code, work, copy_function=shutil.copyfile)
        for folder in [work, *(path for path in work.rglob("*") if path.is_dir())]:
            folder.chmod(0o755)

    def _require_access(self, folder: str, path: BlobPath, access: Access) -> None:
        require_access(self.resources, self.roles, self.spec, folder, path, access)

    def _blob_path(self, uri: str, family: str = "data") -> BlobPath:
        return assets.blob_path(self.resources, self.spec.workspace, uri, family)

    def _artifact_path(self, name: str) -> BlobPath:
        folder = f"ExperimentRun/dcid.{self.spec.name}/{name}"
        return self._blob_path(f"azureml://datastores/{ARTIFACTS}/paths/{folder}")

    def _work(self, node: int) -> Path:
        return self.folder / f"node{node}" / "wd"

    def _temporary(self, node: int) -> Path:
        return self.folder / f"node{node}" / "tmp"
