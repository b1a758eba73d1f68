"""JobSpec: one job of Azure Machine Learning, as plain data that has been checked. Pure.

The service and its SDK accept much that only fails on a node, or worse, runs otherwise than meant:
an output that is not declared, a shared memory of "64 gigs", no process a GPU. All of it is
refused here, at once. `jobs.spec.kinds` makes specs, `jobs.azure.job_body` hands them to
Azure.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, Self

from infra.outputs import Cluster
from jobs.errors import SpecError
from jobs.options import ASSET, FOLDER, NAME
from jobs.spec.run_key import RunAttempt

Kind = Literal["train", "smoke", "benchmark", "prepare", "check"]

TENSORBOARD_DIR: Final = "outputs/tblogs"
"""Of the working directory. Azure uploads what is below outputs/ while the job runs."""

UPLOADED: Final = ("outputs/", "logs/")
"""Folders of the working directory that Azure uploads while the job runs."""

LIFETIME_HOURS: Final = {"LowPriority": 7 * 24, "Dedicated": 21 * 24}
"""Longest life of a job by its nodes' priority (Azure Machine Learning, "Manage and increase
quotas", 27 January 2026)."""

MAX_MPI_NODES: Final = 100
"""The same source's limit for a job of MPI."""

PLACEHOLDER = re.compile(r"\$\{\{(inputs|outputs)\.([a-z][a-z0-9_]*)\}\}")
_ANY_PLACEHOLDER = re.compile(r"\$\{\{.*?\}\}|\$\{\{")
_SHM = re.compile(r"[1-9][0-9]*[bkmg]")
_DATASTORE = re.compile(rf"azureml://datastores/\w+/paths/{FOLDER}")
_REGISTERED = re.compile(rf"azureml:{ASSET}")


@dataclass(frozen=True)
class Folder:
    """A folder that a job reads or writes."""

    uri: str
    """azureml://datastores/NAME/paths/FOLDER or, of an input, azureml:NAME:VERSION."""
    mode: Literal["ro_mount", "download", "rw_mount"]


@dataclass(frozen=True)
class Services:
    """Ways into the job while it runs, on all its nodes."""

    ssh_public_key: str | None = None
    vs_code: bool = False


@dataclass(frozen=True)
class JobSpec:
    """One attempt of a run.

    Raises:
        SpecError: with everything that would fail on the service, or run otherwise than meant.
    """

    kind: Kind
    name: str
    run: str
    """Key of the run that this is an attempt of."""
    display_name: str
    experiment: str
    description: str
    command: str
    """What every process runs; Azure ML calls mpirun itself."""
    environment: str
    """NAME:VERSION of the registered image."""
    cluster: Cluster
    nodes: int
    processes_per_node: int | None
    """None for a program of one process without MPI."""
    timeout_seconds: int
    inputs: Mapping[str, Folder] = field(default_factory=dict)
    outputs: Mapping[str, Folder] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    shm_size: str | None = None
    docker_args: str | None = None
    services: Services = field(default_factory=Services)
    notes: tuple[str, ...] = ()
    """What is allowed, but perhaps not expected; for the person who submits."""

    def __post_init__(self) -> None:
        problems = [*_names(self), *_shape(self), *_folders(self), *_references(self)]
        if problems:
            raise SpecError(problems)

    def for_attempt(self, attempt: RunAttempt) -> Self:
        """The same as another attempt of its run."""
        return replace(
            self,
            name=attempt.name,
            display_name=attempt.display_name,
            tags={**self.tags, **attempt.tags},
        )

    @property
    def ranks(self) -> int:
        """Processes of the whole job."""
        return self.nodes * (self.processes_per_node or 1)


def datastore_uri(datastore: str, folder: str) -> str:
    """Address of a folder in a datastore of the workspace."""
    return f"azureml://datastores/{datastore}/paths/{folder}"


def datastore_path(uri: str) -> str:
    """Datastore and folder of an address: Azure gives back a longer one than it was given."""
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
            f"--nodes: {spec.nodes}, but the cluster {cluster.name} has from 1 to"
            f" {cluster.max_nodes}; ask for fewer, or raise its maximum in the stack"
        )
    if processes is None and spec.nodes != 1:
        problems.append(f"--nodes: {spec.nodes}, but a {spec.kind} job is one process on one node")
    if processes is not None and spec.nodes > MAX_MPI_NODES:
        problems.append(f"--nodes: {spec.nodes}, but Azure runs MPI on at most {MAX_MPI_NODES}")
    if processes is not None and processes < 1:
        problems.append(f"processes: {processes} on a node must be at least 1")
    if cluster.gpus_per_node and processes != cluster.gpus_per_node:
        problems.append(
            f"processes: {processes} on a node, but {cluster.size} has {cluster.gpus_per_node} GPUs"
            " and each needs its own"
        )
    if spec.shm_size is not None and not _SHM.fullmatch(spec.shm_size):
        problems.append(f"--shm-size: {spec.shm_size!r} must be a whole number and b, k, m or g")
    longest = LIFETIME_HOURS[cluster.priority]
    if not 0 < spec.timeout_seconds <= longest * 3600:
        problems.append(
            f"--timeout-hours: {spec.timeout_seconds / 3600:g}, but a job on {cluster.priority}"
            f" nodes lives {longest} hours at most; a longer run goes on as a new attempt from its"
            " newest checkpoint, so leave the option out"
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
            problems.append(f"inputs.{name}: an input is never written; mount it by ro_mount")
    for name, folder in spec.outputs.items():
        if not _DATASTORE.fullmatch(folder.uri):
            problems.append(
                f"outputs.{name}: {folder.uri!r} must be azureml://datastores/NAME/paths/FOLDER"
            )
        if folder.mode != "rw_mount":
            problems.append(
                f"outputs.{name}: {folder.mode} would upload only at the end, and pre-emption comes"
                " before; use rw_mount"
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
