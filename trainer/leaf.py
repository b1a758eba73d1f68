"""The interface of a leaf: an extra, or a task or a group of options of the trunk.

`leaves.py` has a row for each leaf. Deleting the folder and the row of an extra removes it, as no
module of the trunk names it. Standard library only: code that computes is named as MODULE:NAME, and
imported when a run uses it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal

from common import fields
from common.program import Command
from trainer.task_descriptions import Network, TaskDescription

DIVIDED_NETWORK: Final = "divided network"
"""Kind of the features of strategies that divide the network over devices or ranks."""
DENSE_TASK: Final = "dense task"
"""Kind of the tasks whose target is more than one class per image."""


@dataclass(frozen=True)
class Feature:
    """A feature that a configuration may ask for, and its forbidden combinations."""

    name: str
    """Its name, a noun."""
    words: str
    """The option that asks for it, such as `--compute.xla True`."""
    wanted: Callable[[Any], bool]
    """Whether a `TrainConfig` asks for it."""
    excludes: Mapping[tuple[str, ...], str] = field(default_factory=dict)
    """By the names or kinds of other features, why it cannot be combined with all of them. Kinds
    are those above, so that no leaf names another."""
    same_steps: bool = False
    """Whether a step computes the same without it, so that no speed depends on it."""


@dataclass(frozen=True)
class StrategyDescription:
    """The facts about a `trainer.updates.strategy.Strategy`, which says how a run updates its
    weights, that need none of its code; by default, those of data parallel. A run has one. Pure, so
    that a run that was stopped continues as if it had not been.
    """

    config: Any
    """The `TrainConfig`."""

    code: ClassVar[str] = "trainer.updates.strategy:Strategy"
    """MODULE:NAME of what makes the `Strategy`."""
    divides_network: ClassVar[bool] = False
    """Whether a device or a rank has only a part of the network."""
    devices_key: ClassVar[str] = ""
    """Key of the option that says how many devices each rank has."""

    @property
    def devices(self) -> int:
        """Devices of each rank."""
        return int(fields.get(self.config, self.devices_key)) if self.devices_key else 1

    @property
    def neighbours(self) -> int:
        """Consecutive ranks that exchange tensors among themselves; 1 if none do."""
        return 1

    @property
    def threads(self) -> int:
        """Threads with which a rank computes on a CPU; 0 is its share of the cores."""
        return int(self.config.compute.threads)

    def batches(self, ranks: int) -> int:
        """Return how many batches of `batch_size` images a number of ranks takes per step."""
        return ranks

    def misfits(self, ranks: int, classes: int | None) -> list[str]:
        """List why a number of ranks, and of classes if that is known, does not fit."""
        del ranks, classes
        return []

    def equal_after(self, step: int, total: int) -> int:
        """Return the smallest number of steps, at least `step`, after which all ranks are equal, in
        a run of `total` steps.

        Only then are metrics known, requests answered, and weights evaluated or saved.
        """
        del total
        return step

    def facts(self, total: int) -> Mapping[str, str]:
        """Return what `--dry-run` prints about it, by name, of a run of `total` steps."""
        del total
        return {}


@dataclass(frozen=True)
class Expectation:
    """Expected result of a preset, and who measured it."""

    result: str
    source: str
    global_batch: int | None = None
    """Images per step that the preset is for; None if it fits every number of ranks."""
    needs: tuple[str, ...] = ()
    """Flags of options that the preset cannot give a value, and is not meant to be used without."""


@dataclass(frozen=True)
class Preset:
    """A preset of a leaf."""

    config: Any
    """Its `TrainConfig`."""
    expectation: Expectation


@dataclass(frozen=True)
class Exporter:
    """Contents of an export besides the network of the run, or instead of it."""

    options: type | None = None
    """Frozen dataclass of options of `export`, whose defaults write nothing."""
    write: str = ""
    """MODULE:FUNCTION that writes the model in the formats that they ask for, given a
    `trainer.export.exported.Exported`, and returns what to tell."""
    network: str = ""
    """MODULE:FUNCTION(run folder, step, network) that returns the model to export instead and facts
    for export.json, or None to export it as it is."""


@dataclass(frozen=True)
class Leaf:
    """The additions of a feature to the trunk. Everything is optional."""

    key: str = ""
    """Name of its group of options in `TrainConfig`."""
    options: type | None = None
    """Frozen dataclass of its options, whose defaults do not use the feature."""
    on_resume: Literal["refused", "changes the rest", "free", "unreported"] = "refused"
    """The effect of a change of its options when a run is continued. "refused": the run does not
    start. "changes the rest": the remaining steps differ, which is reported. "free": the result is
    the same, and the change is reported. "unreported": the result is the same."""
    features: tuple[Feature, ...] = ()
    """Features that a configuration may ask for with its options. The leaf is in use if it asks for
    one."""
    problems: Callable[[Any], list[str]] | None = None
    """Lists the contradictions of a `TrainConfig` that concern the feature."""
    strategy: type[StrategyDescription] | None = None
    """Describes how a run that uses the leaf updates its weights, if not as data parallel."""
    task: TaskDescription | None = None
    """A task; the first one is the default."""
    networks: Mapping[str, Network] = field(default_factory=dict)
    """Networks by name."""
    presets: Mapping[str, str] = field(default_factory=dict)
    """MODULE:NAME of a `Preset`, by name."""
    record_formats: Mapping[str, str] = field(default_factory=dict)
    """By the name of a format of files in manifests, MODULE:FUNCTION that makes the `RecordFormat`
    of a `Manifest`."""
    observer: str = ""
    """MODULE:NAME of what makes its `Observer` of an `Observed` run; used in every run."""
    predicted: str = ""
    """MODULE:FUNCTION that every rank of a run that uses the leaf calls with the
    `trainer.training.predicted.Predicted` of its final evaluation."""
    sections: str = ""
    """MODULE:FUNCTION that returns sections of the page of a `trainer.report.run_data.Run`."""
    exporter: Exporter | None = None
    """Its additions to an export."""
    rewritten: str = ""
    """MODULE:FUNCTION(run folder, names) called after a command has written files of a finished run
    anew: its export, or those of its result whose paths in the run folder are `names`."""
    workers: Mapping[str, str] = field(default_factory=dict)
    """By a choice of the option `--with`, MODULE:NAME of a `Workers` that does the work of a
    preparation or of scoring in place of processes of this machine."""
    commands: tuple[Command, ...] = ()
    """Its commands."""

    def used(self, config: Any) -> bool:
        """Return whether a `TrainConfig` asks for one of its features."""
        return any(feature.wanted(config) for feature in self.features)
