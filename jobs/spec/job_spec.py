"""JobSpec: one job of Azure Machine Learning as validated plain data. Pure.

The service and its SDK accept much that fails only on a node or, worse, runs differently than
intended: an undeclared output, a shared memory of "64 gigs", fewer processes than GPUs. This module
refuses all of it at once. `jobs.spec.kinds` creates specs, `jobs.azure.job_body` converts them for
Azure.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, Self

from infra.outputs import Cluster
from jobs.errors import SpecError
from jobs.options import ASSET, FOLDER, NAME, ServiceOptions
from jobs.spec.run_key import RunAttempt

TENSORBOARD_DIR: Final = "outputs/tblogs"
"""Folder of TensorBoard files in the working directory, uploaded while the job runs."""

UPLOADED: Final = ("outputs/", "logs/")
"""Folders of the working directory that Azure uploads while the job runs."""

LIFETIME_HOURS: Final = {"LowPriority": 7 * 24, "Dedicated": 21 * 24}
"""Maximum lifetime of a job in hours by the priority of its nodes (Azure Machine Learning, "Manage
and increase quotas", 27 January 2026)."""

MAX_MPI_NODES: Final = 100
"""Maximum nodes of an MPI job, from the same source."""

PLACEHOLDER = re.compile(r"\$\{\{(inputs|outputs)\.([a-z][a-z0-9_]*)\}\}")
_ANY_PLACEHOLDER = re.compile(r"\$\{\{.*?\}\}|\$\{\{")
_SHM = re.compile(r"[1-9][0-9]*[bkmg]")
_DATASTORE = re.compile(rf"azureml://datastores/\w+/paths/{FOLDER}")
_REGISTERED = re.compile(rf"azureml:{ASSET}")


@dataclass(frozen=True)
class Folder:
    """A folder that a job reads or writes."""

    uri: str
    """azureml://datastores/NAME/paths/FOLDER or, for an input, azureml:NAME:VERSION."""
    mode: Literal["ro_mount", "download", "rw_mount"]


@dataclass(frozen=True)
class JobSpec:
    """One attempt of a run.

    Raises:
        SpecError: The job would fail in Azure or run differently than intended; lists all reasons.
    """

    kind: str
    """Name of the kind of job, from `jobs.job_kinds`."""
    name: str
    run: str
    """Key of the run that the job is an attempt of."""
    display_name: str
    experiment: str
    description: str
    command: str
    """Command line of every process; Azure ML calls mpirun."""
    environment: str
    """NAME:VERSION of the registered image."""
    cluster: Cluster
    nodes: int
    processes_per_node: int | None
    """Processes per node; None for a single process without MPI."""
    timeout_seconds: int
    gpus_per_process: int = 1
    """GPUs that each process uses, if its node has any."""
    inputs: Mapping[str, Folder] = field(default_factory=dict)
    outputs: Mapping[str, Folder] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    shm_size: str | None = None
    docker_args: str | None = None
    services: ServiceOptions = field(default_factory=ServiceOptions)
    notes: tuple[str, ...] = ()
    """Notes for the user about valid but possibly unexpected settings."""

    def __post_init__(self) -> None:
        problems = [*_names(self), *_shape(self), *_folders(self), *_references(self)]
        if problems:
            raise SpecError(problems)

    def for_attempt(self, attempt: RunAttempt) -> Self:
        """Return the same job as another attempt of its run."""
        return replace(
            self,
            name=attempt.name,
            display_name=attempt.display_name,
            tags={**self.tags, **attempt.tags},
        )

    @property
    def ranks(self) -> int:
        """World size: number of processes of the job."""
        return self.nodes * (self.processes_per_node or 1)


def datastore_uri(datastore: str, folder: str) -> str:
    """Return the URI of a folder in a datastore of the workspace."""
    return f"azureml://datastores/{datastore}/paths/{folder}"


def datastore_path(uri: str) -> str:
    """Return the datastore and folder of a URI; Azure returns longer URIs than it was given."""
    return uri[uri.find("/datastores/") :].rstrip("/") if "/datastores/" in uri else uri


def _names(spec: JobSpec) -> list[str]:
    problems = [
        f"{what}: {text!r} must be letters, digits, '_' and '-', at most 255"
        for what, text in (("name", spec.name), ("experiment", spec.experiment))
        if not re.fullmatch(NAME, text)
    ]
    if not re.fullmatch(ASSET, spec.environment):
        problems.append(f"environment: {spec.environment!r} must be NAME:VERSION")
    return problems


def _shape(spec: JobSpec) -> list[str]:
    cluster, processes = spec.cluster, spec.processes_per_node
    problems = []
    if not 1 <= spec.nodes <= cluster.max_nodes:
        problems.append(
            f"--nodes: {spec.nodes}, but cluster {cluster.name} allows 1 to {cluster.max_nodes};"
            " request fewer, or raise its maximum in the stack"
        )
    if processes is None and spec.nodes != 1:
        problems.append(f"--nodes: {spec.nodes}, but a {spec.kind} job is one process on one node")
    if processes is not None and spec.nodes > MAX_MPI_NODES:
        problems.append(
            f"--nodes: {spec.nodes}, but Azure limits MPI jobs to {MAX_MPI_NODES} nodes"
        )
    if processes is not None and processes < 1:
        problems.append(f"processes: {processes} per node must be at least 1")
    gpus, each = cluster.gpus_per_node, spec.gpus_per_process
    if gpus and gpus % each:
        problems.append(
            f"GPUs per process: {each} does not divide the {gpus} GPUs of {cluster.size}; choose a"
            " number of devices per rank that does"
        )
    elif gpus and processes != gpus // each:
        need = "each needs its own process" if each == 1 else f"a process uses {each} of them"
        problems.append(
            f"processes: {processes} per node, but {cluster.size} has {gpus} GPUs and {need}"
        )
    if spec.shm_size is not None and not _SHM.fullmatch(spec.shm_size):
        problems.append(
            f"--shm-size: {spec.shm_size!r} must be a whole number followed by b, k, m or g"
        )
    longest = LIFETIME_HOURS[cluster.priority]
    if not 0 < spec.timeout_seconds <= longest * 3600:
        problems.append(
            f"--timeout-hours: {spec.timeout_seconds / 3600:g}, but Azure limits a job on"
            f" {cluster.priority} nodes to {longest} hours; omit it, as a longer run continues in"
            " a new attempt"
        )
    return problems


def _folders(spec: JobSpec) -> list[str]:
    problems = []
    for name, folder in spec.inputs.items():
        if not _DATASTORE.fullmatch(folder.uri) and not _REGISTERED.fullmatch(folder.uri):
            problems.append(
                f"inputs.{name}: {folder.uri!r} must be azureml:NAME:VERSION or"
                " azureml://datastores/NAME/paths/FOLDER"
            )
        if folder.mode == "rw_mount":
            problems.append(f"inputs.{name}: inputs are read-only; use ro_mount")
    for name, folder in spec.outputs.items():
        if not _DATASTORE.fullmatch(folder.uri):
            problems.append(
                f"outputs.{name}: {folder.uri!r} must be azureml://datastores/NAME/paths/FOLDER"
            )
        if folder.mode != "rw_mount":
            problems.append(
                f"outputs.{name}: {folder.mode} uploads only at the end, so pre-emption would lose"
                " everything; use rw_mount"
            )
    return problems


def _references(spec: JobSpec) -> list[str]:
    declared = {
        f"${{{{{side}.{name}}}}}"
        for side, folders in (("inputs", spec.inputs), ("outputs", spec.outputs))
        for name in folders
    }
    used = set(_ANY_PLACEHOLDER.findall(spec.command))
    problems = [
        f"command: {reference} is not among the job's inputs and outputs"
        for reference in sorted(used - declared)
    ]
    problems += [f"command: {reference} is never used" for reference in sorted(declared - used)]
    if not spec.command.strip():
        problems.append("command: is empty")
    return problems
