"""All tasks by name, and the metrics of their results. Standard library only."""

from collections.abc import Mapping
from typing import Any, Final

from trainer.leaves import LEAVES
from trainer.task_descriptions import EmbeddedDataSet, Metric, TaskDescription

TASKS: Final[Mapping[str, TaskDescription]] = {
    leaf.task.name: leaf.task for leaf in LEAVES if leaf.task
}
"""All tasks by name; the first one is the default."""

EMBEDDED: Final[Mapping[str, EmbeddedDataSet]] = {
    task.embedded.source: task.embedded for task in TASKS.values()
}
"""The embedded data sets by source."""


def metrics_in(values: Mapping[str, Any]) -> tuple[Metric, ...]:
    """Return the evaluation metrics of the task whose results these are; empty if there are none.

    Args:
        values: Content of result.json, a line of metrics.jsonl or a stored evaluation.
    """
    for task in TASKS.values():
        if task.evaluation[0].key in values:
            return task.evaluation
    return ()


def score_in(evaluation: Mapping[str, Any]) -> float:
    """Return the metric of a stored evaluation that decides which checkpoint is the best."""
    return float(evaluation[metrics_in(evaluation)[0].key])
