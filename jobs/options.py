"""JobOptions: how a configuration is run on the platform, as plain data.

Typed and bounded by the rules of `common.fields`, so that a command line and a file are read the
same way for both. What decides the training itself, such as `--profile-steps`, is TrainConfig's.
"""

import re
from dataclasses import dataclass, field
from typing import Annotated, Literal

from common import fields
from common.errors import ConfigError
from common.fields import Bounds, Formerly

Role = Literal["gpu", "gpu_dedicated", "preparation"]
"""Clusters that jobs are sent to; the build cluster is the workspace's own."""

NAME = r"[A-Za-z0-9][A-Za-z0-9_-]{0,254}"
"""Of what is below a workspace, jobs for one (Azure's REST definitions of machine learning)."""

ASSET = rf"{NAME}:[A-Za-z0-9][A-Za-z0-9._-]*"
FOLDER = r"(?!\.{1,2}(/|$))[\w.=+@-]+(/(?!\.{1,2}(/|$))[\w.=+@-]+)*"
"""Below a container: names with a slash between them, none of them '.' or '..'."""

_SHM = re.compile(r"[1-9][0-9]*[bkmg]")
_SSH_KEY = re.compile(r"(ssh|ecdsa|sk-ssh|sk-ecdsa)-\S+ [A-Za-z0-9+/]+=*( .*)?")


@dataclass(frozen=True)
class DataOptions:
    """Where the training data come from, and how they get to a node."""

    asset: str | None = None
    """NAME:VERSION of a registered data set, such as imagenet:3. A version never changes, so a run
    that names one can be repeated."""

    path: str | None = None
    """Folder in the container of prepared data, instead of a registered data set."""

    mode: Literal["ro_mount", "download"] = "ro_mount"
    """ro_mount: read through a mount that keeps what was read on the node's disk; download: copy
    everything to the node's disk before the program starts, for what fits there."""

    cache: Literal["files", "blocks"] = "files"
    """What a mount keeps: a whole file when it is opened, or the blocks that are read."""

    cache_gb: Annotated[int | None, Bounds(at_least=1)] = None
    """Maximum of disk that a mount's cache takes on a node, in GB; None is all that is free."""

    read_threads: Annotated[int | None, Bounds(at_least=1)] = None
    """Threads that a mount reads ahead with, or a download copies with; None is Azure's choice, 4
    a core for a mount."""

    prefetch_blocks: Annotated[int | None, Bounds(at_least=0), Formerly("blocks_ahead")] = None
    """Blocks of 2 MB that a mount reads ahead; None is Azure's choice, 32."""


@dataclass(frozen=True)
class ResubmitOptions:
    """When a run that was interrupted is submitted again; see `jobs.following.resubmit_policy`."""

    attempts: Annotated[int, Bounds(at_least=1, at_most=99)] = 5
    """Jobs that a run may take, the first one included."""

    backoff_seconds: Annotated[float, Bounds(at_least=0)] = 60.0
    """Pause before the second attempt; it doubles with each further one."""

    longest_backoff_seconds: Annotated[float, Bounds(at_least=0)] = 1800.0
    """What the pause grows to at most."""

    canceled: bool = False
    """Submit again what was cancelled without evidence of pre-emption as well. Azure cancels a job
    when it pre-empts all of its nodes, and then this cannot be told from a person's doing."""


@dataclass(frozen=True)
class ServiceOptions:
    """Ways into a running job."""

    ssh_public_key: str | None = None
    """Text of a public key, such as that of id_ed25519.pub, whose owner may log in on every
    node."""

    vs_code: bool = False
    """Let VS Code connect to the job; only where the workspace has a public address."""


@dataclass(frozen=True)
class JobOptions:
    """How a job is run."""

    cluster: Role = "gpu"
    """gpu: the cluster to train on; gpu_dedicated: the same without pre-emption, if the stack has
    one; preparation: CPUs."""

    nodes: Annotated[int, Bounds(at_least=1)] = 1
    """Nodes to train on; each runs one process a GPU."""

    cpu_processes: Annotated[int, Bounds(at_least=1)] = 2
    """Processes on a node without GPUs."""

    experiment: str | None = None
    """What the workspace lists the run under; None is the kind of job."""

    timeout_hours: Annotated[float | None, Bounds(above=0)] = None
    """When Azure cancels an attempt that is still running; None is as long as it lets a job live (7
    days on LowPriority nodes, 21 on dedicated ones), and 2 hours for a smoke test or a check."""

    shm_size: str = "64g"
    """Shared memory of the container on a GPU node, through which processes of a node and NCCL
    exchange data: a number and b, k, m or g. Azure's default is 2g."""

    variables: tuple[str, ...] = ()
    """More environment variables for all processes, each as NAME=VALUE."""

    data: DataOptions = field(default_factory=DataOptions)
    resubmit: ResubmitOptions = field(default_factory=ResubmitOptions)
    services: ServiceOptions = field(default_factory=ServiceOptions)

    def __post_init__(self) -> None:
        problems = fields.problems(self) or _contradictions(self)
        if problems:
            raise ConfigError(problems)


@dataclass(frozen=True)
class PreparationOptions:
    """Folders that a preparation reads and writes."""

    raw: str = ""
    """Folder in the container of raw data; the options of the preparation name files below it."""

    prepared: str = ""
    """Folder in the container of prepared data that is written."""

    def __post_init__(self) -> None:
        problems = fields.problems(self) or [
            f"--{name}: {value!r} is not a folder in a container, such as ilsvrc2012"
            for name, value in (("raw", self.raw), ("prepared", self.prepared))
            if not re.fullmatch(FOLDER, value)
        ]
        if problems:
            raise ConfigError(problems)


def _contradictions(options: JobOptions) -> list[str]:
    data, resubmit, key = options.data, options.resubmit, options.services.ssh_public_key
    problems = []
    if options.experiment is not None and not re.fullmatch(NAME, options.experiment):
        problems.append(
            f"--experiment: {options.experiment!r} must be letters, digits, '_' and '-', the first"
            " a letter or digit"
        )
    if not _SHM.fullmatch(options.shm_size):
        problems.append(
            f"--shm-size: {options.shm_size!r} must be a whole number and b, k, m or g, such as 64g"
        )
    if data.asset is not None and data.path is not None:
        problems.append(
            f"--data.asset and --data.path: {data.asset!r} and {data.path!r} are two places; name"
            " one"
        )
    if data.asset is not None and not re.fullmatch(ASSET, data.asset):
        problems.append(f"--data.asset: {data.asset!r} must be NAME:VERSION, such as imagenet:3")
    if data.path is not None and not re.fullmatch(FOLDER, data.path):
        problems.append(
            f"--data.path: {data.path!r} is not a folder in a container, such as imagenet"
        )
    if data.mode == "download":
        problems += [
            f"--data.{name}: is for a mount; leave it out with --data.mode download"
            for name, given in (
                ("cache", data.cache != "files"),
                ("cache-gb", data.cache_gb is not None),
                ("prefetch-blocks", data.prefetch_blocks is not None),
            )
            if given
        ]
    if resubmit.longest_backoff_seconds < resubmit.backoff_seconds:
        problems.append(
            f"--resubmit.longest-backoff-seconds: {resubmit.longest_backoff_seconds:g} is less than"
            f" --resubmit.backoff-seconds {resubmit.backoff_seconds:g}"
        )
    if key is not None and not _SSH_KEY.fullmatch(key):
        # The text itself stays out of the message: it may be a private key.
        problems.append(
            "--services.ssh-public-key: is not the one line of a public key, such as the text of"
            " ~/.ssh/id_ed25519.pub"
        )
    return problems
