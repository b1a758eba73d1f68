"""The interface of a leaf: a feature that a run can do without, in a folder of its own.

`leaves.py` has a row for each leaf. Deleting the folder and the row removes the feature; nothing
else names it. Standard library only: what computes is named as MODULE:NAME, and imported when a run
uses it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from common.program import Command


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
    task: str | None = None
    """MODULE:NAME of a task."""
    record_formats: Mapping[str, str] = field(default_factory=dict)
    """By the name of a format of files in manifests, MODULE:FUNCTION that makes the `RecordFormat`
    of a `Manifest`."""
    observer: str | None = None
    """MODULE:NAME of what follows a run: a logger, the profiler."""
    exporter: str | None = None
    """MODULE:NAME of what writes a model in one more format."""
    commands: tuple[Command, ...] = ()
    """Its commands."""
