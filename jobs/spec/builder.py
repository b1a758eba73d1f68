"""Builds the `JobSpec` of any kind of job, with what all kinds have in common. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from infra.outputs import Cluster, Datastore, PlatformOutputs
from jobs.errors import SpecError
from jobs.options import JobOptions
from jobs.spec import environment_variables
from jobs.spec.job_spec import LIFETIME_HOURS, Folder, JobSpec, Kind, Services, datastore_uri
from jobs.spec.run_key import RunAttempt

DATA_INPUT: Final = "data"

_PINNED_MEMORY: Final = "--ulimit memlock=-1"
"""InfiniBand's transfers need memory that stays in place, more than a container's default of it."""

_SHORT_HOURS: Final = {"smoke": 2.0, "check": 2.0}
"""What takes longer hangs, and would cost its nodes until someone looks."""


@dataclass(frozen=True)
class SoftwareVersions:
    """What a job's program is made of, by content."""

    gpu_environment: str
    """NAME:VERSION of the image for nodes with GPUs."""
    cpu_environment: str
    code: str
    """Digest of the code snapshot."""


@dataclass
class JobBuilder:
    """A job that is being put together, with everything that is wrong so far."""

    kind: Kind
    outputs: PlatformOutputs
    options: JobOptions
    attempt: RunAttempt
    software: SoftwareVersions
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    inputs: dict[str, Folder] = field(default_factory=dict)
    written: dict[str, Folder] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    """What this kind wants beyond what all processes get."""
    tags: dict[str, str] = field(default_factory=dict)
    cluster: Cluster = field(init=False)
    """Where it runs."""

    def __post_init__(self) -> None:
        self.cluster = find_cluster(self.outputs, self.options)

    @property
    def processes(self) -> int:
        """On a node: one a GPU."""
        return self.cluster.gpus_per_node or self.options.cpu_processes

    def read(self, datastore: Datastore) -> bool:
        """Let the job read the data set that the options name, and say whether they name one."""
        data = self.options.data
        if data.asset is not None:
            uri, name = f"azureml:{data.asset}", data.asset
        elif data.path is not None:
            uri, name = datastore_uri(datastore.name, data.path), data.path
            self.notes.append(
                f"--data.path: {data.path} is a folder that can change; a registered data set"
                " (--data.asset NAME:VERSION) cannot"
            )
        else:
            self.problems.append(
                "--data.asset: name the data set, as NAME:VERSION, or its folder by --data.path"
            )
            return False
        self.inputs[DATA_INPUT] = Folder(uri, data.mode)
        self.variables |= environment_variables.of_data(data)
        self.tags["data"] = name
        return True

    def build(self, command: str, processes: int | None) -> JobSpec:
        """The finished job.

        Args:
            command: what every process runs.
            processes: on a node; None for a program of one process without MPI.

        Raises:
            SpecError: with all problems, those of the finished spec included.
        """
        options, attempt, cluster = self.options, self.attempt, self.cluster
        self._check_platform()
        asked, problems = environment_variables.read(options.variables)
        self.problems += problems
        hours = options.timeout_hours
        if hours is None:
            hours = _SHORT_HOURS.get(self.kind, LIFETIME_HOURS[cluster.priority])
        gpus, software = cluster.gpus_per_node > 0, self.software
        description, tags = self._description(processes), self._tags()
        variables = {**environment_variables.of_processes(cluster), **self.variables, **asked}
        try:
            spec = JobSpec(
                kind=self.kind,
                name=attempt.name,
                run=attempt.run,
                display_name=attempt.display_name,
                experiment=options.experiment or self.kind,
                description=description,
                command=command,
                environment=software.gpu_environment if gpus else software.cpu_environment,
                cluster=cluster,
                nodes=options.nodes,
                processes_per_node=processes,
                timeout_seconds=round(hours * 3600),
                inputs=self.inputs,
                outputs=self.written,
                variables=variables,
                tags=tags,
                shm_size=options.shm_size if gpus else None,
                docker_args=_PINNED_MEMORY if cluster.infiniband else None,
                services=Services(options.services.ssh_public_key, options.services.vs_code),
                notes=tuple(self.notes),
            )
        except SpecError as error:
            raise SpecError([*self.problems, *error.problems]) from None
        if self.problems:
            raise SpecError(self.problems)
        return spec

    def _check_platform(self) -> None:
        options, cluster = self.options, self.cluster
        if getattr(self.outputs.clusters, options.cluster) is None:
            self.problems.append(
                f"--cluster: the stack {self.outputs.stack} has no {options.cluster}; declare it in"
                " the stack's configuration, or say gpu"
            )
        if options.services.vs_code and "workspace" not in self.outputs.access.public:
            self.problems.append(
                "--services.vs-code: a workspace that is reached by private endpoints only does not"
                " offer it (Azure Machine Learning); leave it out"
            )
        if options.nodes > 1 and cluster.gpus_per_node and not cluster.infiniband:
            self.notes.append(
                f"{cluster.size} has no InfiniBand, so gradients cross the nodes by Ethernet"
            )
        if cluster.priority == "LowPriority" and self.kind != "check":
            self.notes.append(
                "nodes of LowPriority may be pre-empted at any time, and a job lives 7 days at"
                " most; a run that is followed with --supervise goes on as a new attempt"
            )

    def _description(self, processes: int | None) -> str:
        cluster = self.cluster
        if processes is None:
            return f"{self.kind} on one {cluster.size}"
        unit = "GPUs" if cluster.gpus_per_node else "processes"
        return f"{self.kind} on {self.options.nodes} x {processes} {unit} of {cluster.size}"

    def _tags(self) -> Mapping[str, str]:
        return {
            **self.attempt.tags,
            "kind": self.kind,
            "stack": self.outputs.stack,
            "code": self.software.code,
            **self.tags,
        }


def find_cluster(outputs: PlatformOutputs, options: JobOptions) -> Cluster:
    """The cluster that the options name; the pre-emptible one in place of a dedicated one that is
    not there.
    """
    cluster: Cluster | None = getattr(outputs.clusters, options.cluster)
    return outputs.clusters.gpu if cluster is None else cluster


def on_preparation(options: JobOptions) -> JobOptions:
    """The same on the cluster of CPUs."""
    return replace(options, cluster="preparation")
