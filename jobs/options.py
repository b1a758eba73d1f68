"""JobOptions: how a configuration is run on the platform, as plain data.

The fields follow the rules of `common.fields`, so a command line and a file are read in the same
way. Options of the training itself, such as `--profile.steps`, belong to TrainConfig.
"""

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Annotated, Literal

from common import fields
from common.annotations import Alone, Bounds, Formerly
from common.errors import ConfigError

NAME = r"[A-Za-z0-9][A-Za-z0-9_-]{0,254}"
"""Pattern of the names of jobs and other resources in a workspace, from the REST definitions of
Azure Machine Learning."""

ASSET = rf"{NAME}:[A-Za-z0-9][A-Za-z0-9._-]*"
FOLDER = r"(?!\.{1,2}(/|$))[\w.=+@-]+(/(?!\.{1,2}(/|$))[\w.=+@-]+)*"
"""Pattern of a folder in a container: names separated by slashes, none of them '.' or '..'."""

_SHM = re.compile(r"[1-9][0-9]*[bkmg]")
_SSH_KEY = re.compile(r"(ssh|ecdsa|sk-ssh|sk-ecdsa)-\S+ [A-Za-z0-9+/]+=*( .*)?")


class SelfChecked(ABC):
    """Options of a command that are valid or not, whatever the options after `--` are."""

    @abstractmethod
    def problems(self) -> list[str]:
        """Return why the options are invalid; empty if they are valid."""

    def check(self, program: tuple[str, ...]) -> None:  # noqa: ARG002
        """Check the options.

        Raises:
            ConfigError: They are invalid; lists all problems.
        """
        if problems := self.problems():
            raise ConfigError(problems)


@dataclass(frozen=True)
class DataOptions:
    """Where the training data is stored, and how a node reads it."""

    asset: str | None = None
    """NAME:VERSION of a registered data set, such as imagenet:3. A version never changes, so a run
    that names one can be repeated."""

    path: str | None = None
    """Folder in the container of prepared data, instead of a registered data set."""

    mode: Literal["ro_mount", "download"] = "ro_mount"
    """ro_mount: read through a mount that caches data on the node's disk; download: copy everything
    to the node's disk before the program starts, if it fits there."""

    cache: Literal["files", "blocks"] = "blocks"
    """The unit that a mount caches: whole files when they are opened, or only the blocks that are
    read, as Azure recommends for large files that are read in sequence."""

    cache_gb: Annotated[int | None, Bounds(at_least=1)] = None
    """Maximum size of a mount's cache on a node's disk, in GB; None is all free space."""

    read_threads: Annotated[int | None, Bounds(at_least=1)] = None
    """Threads of a mount's read-ahead, or of a download; None is Azure's default, 4 per core for a
    mount."""

    prefetch_blocks: Annotated[int | None, Bounds(at_least=0), Formerly("blocks_ahead")] = None
    """Blocks of 2 MB that a mount reads ahead; None is Azure's default, 32."""


@dataclass(frozen=True)
class ResubmitOptions:
    """When a run that was interrupted is submitted again; see `jobs.following.resubmit_policy`."""

    attempts: Annotated[int, Bounds(at_least=1, at_most=99)] = 5
    """Maximum number of attempts of a run since a user last submitted it, including that one.
    Attempts that a supervisor moved, or that stopped in time for their budget or lifetime, do not
    count."""

    backoff_seconds: Annotated[float, Bounds(at_least=0)] = 60.0
    """Pause before the second attempt, in seconds; it doubles with each further attempt."""

    longest_backoff_seconds: Annotated[float, Bounds(at_least=0)] = 1800.0
    """Maximum pause between attempts, in seconds."""

    canceled: bool = False
    """Also submit a run again that was cancelled without evidence of pre-emption. Azure cancels a
    job when it pre-empts all of its nodes; only a supervisor that sees the cluster within a minute
    can tell that from a user's cancel."""

    max_node_price: Annotated[float | None, Bounds(above=0)] = None
    """Highest price of a Spot node for an hour at which a run is submitted again, in the currency
    of Azure's prices for the region: a supervisor waits until the price is not above it. None is
    any."""


@dataclass(frozen=True)
class ServiceOptions:
    """Interactive access to a running job."""

    ssh_public_key: str | None = None
    """Text of a public key, such as the content of id_ed25519.pub, whose owner may log in to every
    node."""

    vs_code: bool = False
    """Let VS Code connect to the job; requires a workspace with a public address."""

    jupyter_lab: bool = False
    """Serve JupyterLab from every node while the job runs."""


@dataclass(frozen=True)
class AttemptOptions:
    """How a job is run on the platform, whatever its cluster and data."""

    experiment: str | None = None
    """Experiment under which the workspace lists the run; None is the kind of job."""

    timeout_hours: Annotated[float | None, Bounds(above=0)] = None
    """Hours after which Azure cancels an attempt that is still running; None is Azure's maximum (7
    days on Spot nodes, 21 on dedicated ones), or 2 hours for a smoke test or a check."""

    variables: tuple[str, ...] = ()
    """Additional environment variables of all processes, each as NAME=VALUE."""

    resubmit: ResubmitOptions = field(default_factory=ResubmitOptions)
    services: ServiceOptions = field(default_factory=ServiceOptions)

    def __post_init__(self) -> None:
        problems = fields.problems(self) or self._contradictions()
        if problems:
            raise ConfigError(problems)

    def _contradictions(self) -> list[str]:
        resubmit, key = self.resubmit, self.services.ssh_public_key
        problems = []
        if self.experiment is not None and not re.fullmatch(NAME, self.experiment):
            problems.append(
                f"--experiment: {self.experiment!r} must be letters, digits, '_' and '-', the first"
                " a letter or digit"
            )
        if resubmit.longest_backoff_seconds < resubmit.backoff_seconds:
            problems.append(
                f"--resubmit.longest-backoff-seconds: {resubmit.longest_backoff_seconds:g} is less"
                f" than --resubmit.backoff-seconds {resubmit.backoff_seconds:g}"
            )
        if key is not None and not _SSH_KEY.fullmatch(key):
            # The message omits the text: it may be a private key.
            problems.append(
                "--services.ssh-public-key: not a public key in one line, such as the content of"
                " ~/.ssh/id_ed25519.pub"
            )
        return problems


@dataclass(frozen=True)
class ResourceOptions:
    """Where a job is run, and on which data."""

    cluster: str | None = None
    """Cluster to run on, by its name in the stack's settings, such as gpu. None chooses by the kind
    of job: gpu for training, benchmark and check, preparation for a preparation,
    for a smoke test a training cluster without GPUs or else gpu; or the only cluster of that duty
    if the stack has none of that name."""

    nodes: Annotated[int, Bounds(at_least=1)] = 1
    """Number of nodes; each runs one process per GPU, or per as many GPUs as a rank has."""

    cpu_processes: Annotated[int, Bounds(at_least=1)] = 2
    """Processes per node without GPUs."""

    shm_size: str = "64g"
    """Shared memory of the container on a GPU node, through which the processes of a node and NCCL
    exchange data: a number followed by b, k, m or g. Azure's default is 2g."""

    data: DataOptions = field(default_factory=DataOptions)


@dataclass(frozen=True)
class JobOptions(AttemptOptions, ResourceOptions):
    """How a job is run on the platform."""

    hold_on_failure: Annotated[float | None, Bounds(at_least=1, at_most=1440)] = None
    """Minutes for which a run that fails keeps its nodes, at their price, so that you can look
    into it; None releases them at once. `debug NAME --release`, `cancel` and the timeout end it."""

    debug: Annotated[Literal["no", "services", "paused"], Alone("services")] = "no"
    """services, or --debug alone: offer SSH, JupyterLab and, in a workspace with a public address,
    VS Code; `python -m jobs debug NAME` says how to get in. paused: the same, and rank 0 waits
    before its first step until a debugger attaches."""

    def _contradictions(self) -> list[str]:
        return super()._contradictions() + _resource_contradictions(self)


@dataclass(frozen=True)
class PreparationOptions:
    """Folders that a data preparation reads and writes."""

    raw: str = ""
    """Folder to read in the container of raw data; options of the preparation name files in it."""

    prepared: str = ""
    """Folder to write in the container of prepared data."""

    def __post_init__(self) -> None:
        problems = fields.problems(self) or [
            f"--{name}: {value!r} is not a folder in a container, such as ilsvrc2012"
            for name, value in (("raw", self.raw), ("prepared", self.prepared))
            if not re.fullmatch(FOLDER, value)
        ]
        if problems:
            raise ConfigError(problems)


def _resource_contradictions(options: JobOptions) -> list[str]:
    data = options.data
    problems = []
    if not _SHM.fullmatch(options.shm_size):
        problems.append(
            f"--shm-size: {options.shm_size!r} must be a whole number followed by b, k, m or g,"
            " such as 64g"
        )
    if data.asset is not None and data.path is not None:
        problems.append(
            f"--data.asset and --data.path: {data.asset!r} and {data.path!r} exclude each other;"
            " pass only one"
        )
    if data.asset is not None and not re.fullmatch(ASSET, data.asset):
        problems.append(f"--data.asset: {data.asset!r} must be NAME:VERSION, such as imagenet:3")
    if data.path is not None and not re.fullmatch(FOLDER, data.path):
        problems.append(
            f"--data.path: {data.path!r} is not a folder in a container, such as imagenet"
        )
    if data.mode == "download":
        problems += [
            f"--data.{name}: applies only to a mount; omit it with --data.mode download"
            for name, given in (
                ("cache", data.cache != "blocks"),
                ("cache-gb", data.cache_gb is not None),
                ("prefetch-blocks", data.prefetch_blocks is not None),
            )
            if given
        ]
    return problems
