"""The leaves of the trainer, a row each, and the tables that they fill. Standard library only."""

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeAlias, TypeVar

from common.program import load
from trainer.leaf import Leaf
from trainer.task_descriptions import EmbeddedDataSet, Metric, TaskDescription

_ROWS: Final[tuple[str, ...]] = (
    "tasks.classification",
    "extras.head",
    "extras.stages",
    "extras.averaging",
    "early_stop",
    "extras.sharded",
    "extras.virtual_ranks",
    "extras.profiler",
    "extras.scheduled_events",
    "extras.mlflow",
    "extras.parquet",
    "extras.float16",
    "extras.onnx",
    "extras.segmentation",
    "extras.detection",
    "extras.multilabel",
    "extras.spark",
    "model.torchvision",
    "extras.evidence",
    "extras.calibration",
    "data.duplicates",
    "extras.slices",
    "data.imbalance",
    "fitting.own_images",
)

LEAVES: Final[tuple[Leaf, ...]] = tuple(
    importlib.import_module(f"trainer.{row}.leaf").LEAF for row in _ROWS
)

TASKS: Final[Mapping[str, TaskDescription]] = {
    leaf.task.name: leaf.task for leaf in LEAVES if leaf.task
}
"""All tasks by name; the first one is the default."""

EMBEDDED: Final[Mapping[str, EmbeddedDataSet]] = {
    task.embedded.source: task.embedded for task in TASKS.values()
}
"""The embedded data sets by source."""

_WORKERS: Final[Mapping[str, str]] = {
    "processes": "trainer.data.prepare.pool:of_this_machine",
    **{name: path for leaf in LEAVES for name, path in leaf.workers.items()},
}
"""MODULE:FUNCTION of each choice, which takes the options of a command and returns these, changed
if need be, and a function with the arguments of `trainer.data.prepare.pool.work_through`."""

if TYPE_CHECKING:
    WorkersName: TypeAlias = str
else:
    WorkersName = Literal[tuple(_WORKERS)]

_KEYS: Final[dict[type, str]] = {leaf.options: leaf.key for leaf in LEAVES if leaf.options}

T = TypeVar("T")


class WithLeaves:
    """Base of a dataclass that has the options of each leaf as a group of its own, after the fields
    that it declares.
    """

    def __init_subclass__(cls) -> None:
        for options, key in _KEYS.items():
            cls.__annotations__[key] = options
            setattr(cls, key, field(default_factory=options))

    def of(self, options: type[T]) -> T:
        """Return the options of a leaf, given their class."""
        group: T = getattr(self, _KEYS[options])
        return group

    def unobserved(self) -> Self:
        """Return the same run without the options of leaves that only observe it."""
        plain = {leaf.key: leaf.options() for leaf in LEAVES if leaf.options and leaf.observer}
        copy: Self = replace(self, **plain)  # type: ignore[type-var]
        return copy


def in_use(config: Any) -> Iterator[Leaf]:
    """Iterate over the leaves of which a `TrainConfig` asks for a feature."""
    return (leaf for leaf in LEAVES if leaf.used(config))


def metrics_in(values: Mapping[str, Any]) -> tuple[Metric, ...]:
    """Return the evaluation metrics that results have, the first one of their task first; empty if
    there are none.

    Args:
        values: Content of result.json, a line of metrics.jsonl or a stored evaluation.
    """
    for task in TASKS.values():
        if task.evaluation[0].key in values:
            return tuple(metric for metric in task.evaluation if metric.key in values)
    return ()


def score_in(meta: Mapping[str, Any], by: str | None = None) -> float | None:
    """Return the metric of a checkpoint's evaluation that decides which checkpoint is the best;
    None if it has none.

    Args:
        meta: Values that the checkpoint stores besides tensors.
        by: Key of the metric; None is the one that its run was started with.
    """
    evaluation = meta.get("evaluation")
    if not evaluation:
        return None
    value = evaluation.get(by or meta.get("decided_by") or metrics_in(evaluation)[0].key)
    return None if value is None else float(value)


def tell_rewritten(run: Path, *names: str) -> None:
    """Tell the leaves that a command has written files of a finished run anew; see
    `Leaf.rewritten`.
    """
    for leaf in LEAVES:
        if leaf.rewritten:
            load(leaf.rewritten)(run, names)


def with_workers(options: Any) -> tuple[Any, Any]:
    """Return the options of a command, and what does its units: see `_WORKERS`."""
    chosen: tuple[Any, Any] = load(_WORKERS[getattr(options, "with_", "processes")])(options)
    return chosen
