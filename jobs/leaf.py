"""The interface of a leaf: a feature that a stack can do without, in a folder of its own.

`leaves.py` has a row for each leaf. Deleting the folder and the row removes the feature, as no
module of the trunk names it; an extra that needs another says so in its first line, and goes with
it. Its code is named as MODULE:NAME, and imported when it is used.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, runtime_checkable

from common.program import Command
from infra.outputs import Duty

CONTINUES: Final = "resumes from its newest checkpoint"


@dataclass(frozen=True)
class JobCommand(Command):
    """A command of `python -m jobs`. Its options are the class NAMEOptions next to what runs it."""

    program: bool = False
    """Whether options of the trainer may follow after `--`."""
    outputs: Literal["required", "optional", "named", "made"] = "required"
    """Whether the command needs the outputs of a stack. optional: it also works on a stack that no
    longer has outputs; named: it reads them only if the command line names a stack; made: it
    works on the stack itself."""
    data: bool = False
    """Whether the command moves data, for which it must be inside the network of a private
    stack."""

    def __post_init__(self) -> None:
        module, name = self.run.partition(":")[0], self.name.title().replace("-", "")
        object.__setattr__(self, "options", f"{module}:{name}Options")


@runtime_checkable
class Checked(Protocol):
    """Options that a command checks by themselves, before it asks Pulumi or Azure anything."""

    def check(self, program: tuple[str, ...]) -> None:
        """Check the options together with those that follow after `--`.

        Raises:
            ProblemsError: They are invalid; lists all problems.
        """


@dataclass(frozen=True)
class JobKind:
    """A kind of job, which is also a tag of its jobs and their default experiment."""

    name: str
    duty: Duty = "train"
    """Duty of the clusters that its jobs run on."""
    trains: bool = False
    """Whether its jobs train, so that the folder of the run has checkpoints and a result."""
    plain: bool = False
    """Whether its jobs prefer a cluster without GPUs."""
    hours: float | None = None
    """Time limit in hours of a short job, which hangs and wastes money if it takes longer; None is
    Azure's maximum."""
    continues: str | None = CONTINUES
    """How a job continues that is started again, as a clause; None if it begins anew."""
    unfollowed: str | None = None
    """The work that is not done while no command follows a job, as a clause."""
    completed: str | None = None
    """MODULE:FUNCTION called once a followed job has completed, with the workspace and the job;
    returns an `OutputEntry` for the end of the command's output."""


@dataclass(frozen=True)
class OutputEntry:
    """An entry of a command's output, as text and in its JSON document."""

    key: str
    """Key in the document."""
    value: Any
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Billed:
    """Resources of a workspace that cost money by the hour."""

    show: str
    """MODULE:FUNCTION(workspace, outputs) -> `OutputEntry`: those that exist now, for `status`."""
    delete: str
    """MODULE:FUNCTION(teardown): deletes them as the first step of a
    `jobs.pulumi.teardown_steps.Teardown`, and reports each deletion with `teardown.did`."""


MOVED: Final = "moved"
"""Tag of an attempt that a supervisor has ended so that the next one runs elsewhere: why."""
PLACED: Final = "placed"
"""Tag of an attempt that could run on several clusters or numbers of nodes: where it runs, and
why."""


@dataclass(frozen=True)
class Place:
    """Where the next attempt of a run goes."""

    cluster: str
    """Name of the cluster in Azure."""
    nodes: int
    processes: int
    """Processes per node."""
    batch_size: int
    """Images per rank and step."""
    tags: Mapping[str, str]


@dataclass(frozen=True)
class Placement:
    """Where the attempts of a run go, if they need not go where the first one went."""

    options: type
    """Frozen dataclass of options of `submit`."""
    offer: str
    """MODULE:FUNCTION(options, spec, config, key, build) -> a job with its choices as tags, and the
    jobs that it may continue as; `key` is the name of its cluster, and `build(key, nodes, config)`
    builds it elsewhere."""
    check: str
    """MODULE:FUNCTION(manager, spec, others, config) -> lines: checks all of them in the
    workspace."""
    moves: str
    """MODULE:CLASS that decides for supervisors: see `jobs.following.moves.Moves`."""


@dataclass(frozen=True)
class Leaf:
    """The parts that a feature adds to the jobs. Everything is optional."""

    commands: tuple[JobCommand, ...] = ()
    """Its commands."""
    kinds: tuple[JobKind, ...] = ()
    """Its kinds of job."""
    billed: Billed | None = None
    """Its resources that cost money by the hour."""
    about_run: str | None = None
    """MODULE:FUNCTION(run, outputs) -> line or None: its facts of a `ComparedRun`, for
    `compare`."""
    about_model: str | None = None
    """MODULE:FUNCTION(client, folder) -> properties of the model that is registered of a run, given
    the container of results and the run's folder in it."""
    placement: Placement | None = None
    """Where the attempts of a run go."""
