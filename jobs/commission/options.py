"""The options of a commissioning. Pure."""

import re
from dataclasses import dataclass
from typing import Annotated, Final

from common import fields
from common.annotations import Bounds
from common.errors import ConfigError
from jobs.options import ASSET
from jobs.throughput import name_problems
from trainer.presets import parse_train

FOLDER: Final = "commission"
RUNS: Final = ("smoke", "check", "train", "killed", "cancelled")
"""Ends of the keys of its runs; those that measure have a cluster, nodes and a hash instead."""
_BOUNDS: Final = (
    *("timeout-hours", "nodes", "attempts", "resubmit.attempts", "cluster", "series", "kind"),
    *("name", "yes", "follow", "folder"),
)
"""Options that decide what a step costs or is, which cannot be passed through."""


@dataclass(frozen=True)
class CommissionOptions:
    """Acceptance-test a new platform on Azure, the cheapest step first, and write a report: what
    was expected, what was found, and whether the guesses of the documents were right. The same
    command continues: it repeats only steps that were not as expected. Options of the trainer may
    follow after `--`.
    """

    name: str = "first"
    """Name of the commissioning, with which the keys of its runs begin."""

    preset: str = "imagenet-ndv2"
    """Preset of the trainer for all runs that measure or train."""

    data: str | None = None
    """NAME:VERSION of a registered data set. Without one, no step trains on data."""

    cluster: str | None = None
    """Cluster by its name in the stack's settings; None is the usual one. It needs two nodes."""

    steps: Annotated[int, Bounds(at_least=100)] = 2000
    """Steps of a run on the data set; one is cancelled in the middle."""

    timeout_hours: Annotated[float, Bounds(above=0)] = 0.5
    """Hours after which a job is cancelled that has not ended; they bound what a step costs."""

    attempts: Annotated[int, Bounds(at_least=2, at_most=99)] = 3
    """Maximum number of attempts of a run."""

    cap: Annotated[float | None, Bounds(above=0)] = None
    """Most that the whole commissioning may cost, in the currency of the prices: what its jobs have
    cost so far, with earlier calls, and what is due at most, with the starts of nodes and the time
    until they are released. Without it, nothing but the question limits the cost."""

    start_minutes: Annotated[float, Bounds(at_least=0)] = 15.0
    """Minutes of a job's nodes until its program starts, for `cap`: an assumption."""

    idle_minutes: Annotated[float, Bounds(at_least=0)] = 2.0
    """Minutes of a job's nodes after its end, for `cap`: `idle_seconds_before_scale_down` of the
    stack."""

    despite_check: bool = False
    """Run the more expensive steps even if the cluster check is not as expected, as in a rehearsal
    on nodes without InfiniBand."""

    training: tuple[str, ...] = ()
    """Further options of the trainer for the runs on the data set alone, each as NAME=VALUE:
    model.image-size=64."""

    submit: tuple[str, ...] = ()
    """Further options of every `submit`, each as NAME=VALUE: poll-seconds=1."""

    scaling: tuple[str, ...] = ()
    """Further options of `scaling`, each as NAME=VALUE: seconds=30."""

    wait_minutes: Annotated[float, Bounds(above=0)] = 60.0
    """Longest time, in minutes, to wait until the job that is to be cancelled trains; then it is
    cancelled anyway."""

    yes: bool = False
    """Do not ask."""

    teardown: bool = False
    """Delete the commissioning's files in storage: the folders of its runs, and the outputs
    of its jobs. The page and the measured points stay."""

    folder: str = FOLDER
    """Folder of all commissionings."""

    def __post_init__(self) -> None:
        problems = fields.problems(self) or name_problems(self.name)
        if self.data is not None and not re.fullmatch(ASSET, self.data):
            problems.append(f"--data: {self.data!r} must be NAME:VERSION, such as imagenet:3")
        further = (*self.training, *self.submit, *self.scaling)
        if not problems and not all("=" in text for text in further):
            problems.append(
                "--training, --submit, --scaling: each must be NAME=VALUE, such as poll-seconds=1"
            )
        for option, texts in (("submit", self.submit), ("scaling", self.scaling)):
            names = (text.partition("=")[0].lstrip("-").replace("_", "-") for text in texts)
            problems += [
                f"--{option}: {name} decides what a step costs; use the option of commission"
                for name in names
                if name.removeprefix("no-") in _BOUNDS
            ]
        if problems:
            raise ConfigError(problems)

    def check(self, program: tuple[str, ...]) -> None:
        """Check the preset together with the trainer's options.

        Raises:
            ConfigError: They are invalid.
        """
        parse_train(["--preset", self.preset, *program])

    @property
    def own_runs(self) -> str:
        """Regular expression of the keys of its runs. It fits those of no other commissioning, as
        the name of a cluster in a stack's settings has no '-'.
        """
        return rf"{self.name}-(({'|'.join(RUNS)})(-[0-9]+)?|[a-z0-9_]+-[0-9]+-[0-9a-f]{{8}})"

    @property
    def save_every(self) -> int:
        """Steps between two checkpoints of a run on the data set."""
        return max(self.steps // 20, 1)

    @property
    def killed_at(self) -> int:
        """Step after which a rank is killed: some checkpoints are in storage by then."""
        return 3 * self.save_every
