"""The interface of a leaf: a feature that a run can do without, in a folder of its own.

`leaves.py` has a row for each leaf. Deleting the folder and the row removes the feature; nothing
else names it. Standard library only: what computes is named as MODULE:NAME, and imported when a run
uses it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from common.program import Command
from trainer.tasks.description import Network, TaskDescription


@dataclass(frozen=True)
class Feature:
    """What a configuration may ask for, and what it cannot be combined with."""

    name: str
    """Its name, such as head groups."""
    words: str
    """The option that asks for it, such as `--head.groups above 1`."""
    wanted: Callable[[Any], bool]
    """Whether a `TrainConfig` asks for it."""
    excludes: Mapping[tuple[str, ...], str] = field(default_factory=dict)
    """By the names of other features, why it cannot be combined with them."""


@dataclass(frozen=True)
class Expectation:
    """Expected result of a preset, and who measured it."""

    result: str
    source: str
    global_batch: int | None = None
    """Images per step that the preset is for; None if it fits every number of ranks."""


@dataclass(frozen=True)
class Preset:
    """A preset of a leaf."""

    config: Any
    """Its `TrainConfig`."""
    expectation: Expectation


@dataclass(frozen=True)
class Exporter:
    """Writes an exported model in one more format."""

    options: type
    """Frozen dataclass with one option, whether to write it."""
    write: str
    """MODULE:FUNCTION that writes it into the folder of an export, which has the SavedModel, and
    returns what to tell."""


@dataclass(frozen=True)
class Leaf:
    """What a feature adds to the trunk. Everything is optional."""

    key: str = ""
    """Name of its group of options in `TrainConfig`."""
    options: type | None = None
    """Frozen dataclass of its options."""
    former: Mapping[str, str] = field(default_factory=dict)
    """Its options by former keys, such as {"model.head_groups": "head.groups"}."""
    problems: Callable[[Any], list[str]] | None = None
    """Lists the contradictions of a `TrainConfig` that concern the feature."""
    features: tuple[Feature, ...] = ()
    """What it may be combined with."""
    step_rule: str | None = None
    """MODULE:NAME of a `StepRule`, used if a configuration asks for it."""
    division: str | None = None
    """MODULE:NAME of a `Division`, used if a configuration asks for it."""
    task: TaskDescription | None = None
    """A task, besides classification."""
    networks: Mapping[str, Network] = field(default_factory=dict)
    """Networks by name."""
    presets: Mapping[str, str] = field(default_factory=dict)
    """MODULE:NAME of a `Preset`, by name."""
    record_formats: Mapping[str, str] = field(default_factory=dict)
    """By the name of a format of files in manifests, MODULE:FUNCTION that makes the `RecordFormat`
    of a `Manifest`."""
    observer: str | None = None
    """MODULE:NAME of what follows a run: a logger, the profiler."""
    exporter: Exporter | None = None
    """Writes a model in one more format."""
    workers: Mapping[str, str] = field(default_factory=dict)
    """By a choice of the option `--with`, MODULE:NAME of a `Workers` that does the work of a
    preparation or of scoring in place of processes of this machine."""
    commands: tuple[Command, ...] = ()
    """Its commands."""
