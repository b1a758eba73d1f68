"""Build the `JobSpec` of any kind of job: the part that all kinds share. Pure."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from infra.outputs import Cluster, Datastore, Duty, PlatformOutputs
from jobs.errors import SpecError
from jobs.job_kinds import KINDS
from jobs.leaf import JobKind
from jobs.options import JobOptions, ServiceOptions
from jobs.spec import environment_variables
from jobs.spec.job_spec import LIFETIME_HOURS, PLACEHOLDER, Folder, JobSpec, datastore_uri
from jobs.spec.run_key import RunAttempt
from jobs.spec.secret_texts import options_with_secrets

DATA_INPUT: Final = "data"

_PINNED_MEMORY: Final = "--ulimit memlock=-1"
"""Docker option that removes the limit on locked memory, which InfiniBand needs."""

_USUAL: Final[Mapping[Duty, str]] = {"train": "gpu", "prepare": "preparation"}
"""The cluster that jobs with a duty run on if none is named and the stack has it. Without it, the
only cluster with that duty is taken."""


@dataclass(frozen=True)
class SoftwareVersions:
    """Versions of the images and the code of a job."""

    gpu_environment: str
    """NAME:VERSION of the image for nodes with GPUs."""
    cpu_environment: str
    """NAME:VERSION of the image for nodes without GPUs."""
    code: str
    """Digest of the code snapshot."""


@dataclass
class JobBuilder:
    """A job under construction, with all problems found so far."""

    name: str
    """Name of the kind of job."""
    outputs: PlatformOutputs
    options: JobOptions
    attempt: RunAttempt
    software: SoftwareVersions
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    inputs: dict[str, Folder] = field(default_factory=dict)
    written: dict[str, Folder] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    """Environment variables of this kind of job, in addition to those of all jobs."""
    tags: dict[str, str] = field(default_factory=dict)
    gpus_per_process: int = 1
    """GPUs that each process uses, on a cluster with GPUs."""
    cluster: Cluster = field(init=False)
    """Cluster that the job runs on."""

    def __post_init__(self) -> None:
        cluster, needed = self.options.cluster, self.kind.duty
        if cluster is None and self.kind.plain:
            cluster = _without_gpus(self.outputs)
        self.cluster = find_cluster(self.outputs, cluster, needed)
        duty = self.cluster.duty
        if needed not in ("train", duty):
            self.problems.append(
                f"--cluster: jobs on {cluster} may not write prepared data, as its duty is to"
                f" {duty}; pass a cluster with the duty {needed}, or omit it"
            )

    @property
    def kind(self) -> JobKind:
        """Kind of the job."""
        return KINDS[self.name]

    @property
    def processes(self) -> int:
        """Processes per node: as many as its GPUs suffice for, at least one."""
        gpus = self.cluster.gpus_per_node
        return max(gpus // self.gpus_per_process, 1) if gpus else self.options.cpu_processes

    def read(self, datastore: Datastore) -> bool:
        """Add the data set of the options as an input; return whether the options name one."""
        data = self.options.data
        if data.asset is not None:
            uri, name = f"azureml:{data.asset}", data.asset
        elif data.path is not None:
            uri, name = datastore_uri(datastore.name, data.path), data.path
            self.notes.append(
                f"--data.path: the content of folder {data.path} may change; that of a registered"
                " data set (--data.asset NAME:VERSION) does not"
            )
        else:
            self.problems.append(
                "--data.asset: is missing; pass the data set as NAME:VERSION, or its folder as"
                " --data.path"
            )
            return False
        self.inputs[DATA_INPUT] = Folder(uri, data.mode)
        self.variables |= environment_variables.of_data(data)
        self.tags["data"] = name
        return True

    def build(self, words: Sequence[str], processes: int | None) -> JobSpec:
        """Build the job.

        Args:
            words: Command line of every process, after `python -m`.
            processes: Processes per node; None for a single process without MPI.

        Raises:
            SpecError: The job has problems; lists all of them, including those of the `JobSpec`.
        """
        options, attempt, cluster = self.options, self.attempt, self.cluster
        self._check_platform()
        services = self._services()
        asked, problems = environment_variables.read(options.variables)
        self.problems += problems
        self.problems += [
            f"{name}: looks like a secret, but everyone with access to the job can read its command"
            " line; let the job's identity read it from the key vault"
            for name in options_with_secrets(words)
        ]
        hours = options.timeout_hours
        if hours is None:
            hours = self.kind.hours or LIFETIME_HOURS[cluster.priority]
        if options.hold_on_failure and options.hold_on_failure >= hours * 60:
            self.problems.append(
                f"--hold-on-failure: {options.hold_on_failure:g} minutes, but Azure ends the job"
                f" after --timeout-hours {hours:g}; pass fewer minutes or more hours"
            )
        gpus, software = cluster.gpus_per_node > 0, self.software
        description, tags = self._description(processes), self._tags()
        variables = {**environment_variables.of_processes(cluster), **self.variables, **asked}
        try:
            spec = JobSpec(
                kind=self.name,
                name=attempt.name,
                run=attempt.run,
                display_name=attempt.display_name,
                experiment=options.experiment or self.name,
                description=description,
                command=line("python", "-m", *words),
                environment=software.gpu_environment if gpus else software.cpu_environment,
                cluster=cluster,
                nodes=options.nodes,
                processes_per_node=processes,
                timeout_seconds=round(hours * 3600),
                gpus_per_process=self.gpus_per_process,
                inputs=self.inputs,
                outputs=self.written,
                variables=variables,
                tags=tags,
                shm_size=options.shm_size if gpus else None,
                docker_args=_PINNED_MEMORY if cluster.infiniband else None,
                services=services,
                notes=tuple(self.notes),
            )
        except SpecError as error:
            raise SpecError([*self.problems, *error.problems]) from None
        if self.problems:
            raise SpecError(self.problems)
        return spec

    def _services(self) -> ServiceOptions:
        asked, all_of_them = self.options.services, self.options.debug != "no"
        if all_of_them and asked.ssh_public_key is None:
            self.notes.append(
                "--debug: no SSH, as there is no public key in ~/.ssh; pass the text of one as"
                " --services.ssh-public-key"
            )
        return ServiceOptions(
            asked.ssh_public_key,
            asked.vs_code or (all_of_them and "workspace" in self.outputs.access.public),
            asked.jupyter_lab or all_of_them,
        )

    def _check_platform(self) -> None:
        options, cluster = self.options, self.cluster
        if options.services.vs_code and "workspace" not in self.outputs.access.public:
            self.problems.append(
                "--services.vs-code: Azure Machine Learning does not offer this in a workspace with"
                " only private endpoints; omit it"
            )
        if options.nodes > 1 and cluster.gpus_per_node and not cluster.infiniband:
            self.notes.append(
                f"{cluster.size} has no InfiniBand, so gradients between nodes go over Ethernet"
            )
        if cluster.priority == "LowPriority" and self.kind.continues:
            self.notes.append(
                "Spot nodes may be pre-empted at any time, and a job is limited to 7 days; a"
                " supervisor resumes the run as a new attempt: `submit` until it ends, `follow"
                " --supervise` or `supervise`"
            )

    def _description(self, processes: int | None) -> str:
        cluster = self.cluster
        if processes is None:
            return f"{self.name} on one {cluster.size}"
        count, unit = processes, "processes"
        if cluster.gpus_per_node:
            count, unit = processes * self.gpus_per_process, "GPUs"
        return f"{self.name} on {self.options.nodes} x {count} {unit} of {cluster.size}"

    def _tags(self) -> Mapping[str, str]:
        return {
            **self.attempt.tags,
            "kind": self.name,
            "stack": self.outputs.stack,
            "code": self.software.code,
            **self.tags,
        }


def _without_gpus(outputs: PlatformOutputs) -> str | None:
    """Return the training cluster without GPUs, if there is one; None leaves the choice open."""
    plain = (
        key
        for key, cluster in sorted(outputs.clusters.items())
        if cluster.duty == "train" and not cluster.gpus_per_node
    )
    return next(plain, None)


def find_cluster(outputs: PlatformOutputs, name: str | None, duty: Duty) -> Cluster:
    """Return the cluster of a job.

    Args:
        outputs: Outputs of the stack.
        name: Name of the cluster in the stack's settings; None chooses one with the duty.
        duty: Duty of the cluster, if none is named.

    Raises:
        SpecError: The stack has no such cluster for jobs, or several of which none is named.
    """
    usable = {key: cluster for key, cluster in outputs.clusters.items() if cluster.duty != "build"}
    known = ", ".join(f"{key} ({cluster})" for key, cluster in sorted(usable.items())) or "none"
    stack = f"the stack {outputs.stack}"
    if name is None:
        fitting = [key for key, cluster in usable.items() if cluster.duty == duty]
        if not fitting:
            raise SpecError(
                [f"--cluster: {stack} has no cluster with the duty {duty}; it has {known}"]
            )
        name = _USUAL[duty] if _USUAL[duty] in fitting else fitting[0]
        if name != _USUAL[duty] and len(fitting) > 1:
            choices = ", ".join(f"{key} ({usable[key]})" for key in sorted(fitting))
            raise SpecError(
                [
                    f"--cluster: is missing, as {stack} has several clusters with the duty {duty};"
                    f" choose from {choices}"
                ]
            )
    if name not in usable:
        raise SpecError([f"--cluster: {stack} has no cluster {name} for jobs; choose from {known}"])
    return usable[name]


def line(*words: str) -> str:
    """Join words into a shell command line. References to inputs and outputs are not quoted, as
    Azure replaces them before or within the shell.
    """
    return " ".join(map(_quoted, words))


def _quoted(word: str) -> str:
    references = list(PLACEHOLDER.finditer(word))
    if not references:
        return shlex.quote(word)
    parts, end = [], 0
    for reference in references:
        parts += [word[end : reference.start()], reference[0]]
        end = reference.end()
    parts.append(word[end:])
    return "".join(
        part if PLACEHOLDER.fullmatch(part) else shlex.quote(part) for part in parts if part
    )
