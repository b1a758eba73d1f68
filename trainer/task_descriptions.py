"""The tasks by name, with the names of their metrics. Standard library only.

A task is added here, and in a module of its own that `trainer.tasks.table` lists.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True)
class Metric:
    """A metric between 0 and 1, of which more is better."""

    key: str
    """Key in metrics.jsonl and result.json."""
    label: str
    """Label on the console and in reports."""


@dataclass(frozen=True)
class TaskDescription:
    """What is known of a task without its code."""

    training: Metric
    """Metric of the training batches."""
    evaluation: tuple[Metric, ...]
    """Metrics of an evaluation. The first one decides which checkpoint is the best."""
    about: str
    """Explanation of the metrics, in one line for the report."""
    report: str
    """MODULE:FUNCTION that returns the sections of a run's report about its predictions, given the
    `Run`."""
    dense: bool = False
    """Whether the network predicts a class for each pixel, instead of one for the image."""

    def words(self, values: Mapping[str, float]) -> list[str]:
        """Return the evaluation metrics in words, such as "top-1 97.50%"."""
        return [f"{metric.label} {values[metric.key]:.2%}" for metric in self.evaluation]


DESCRIPTIONS: Final[Mapping[str, TaskDescription]] = {
    "classification": TaskDescription(
        Metric("train_top1", "training top-1"),
        (Metric("top1", "top-1"), Metric("top5", "top-5")),
        "Fraction of images whose class is the most probable (top-1) or among five (top-5).",
        "trainer.report.predictions:sections",
    ),
    "segmentation": TaskDescription(
        Metric("train_pixel_accuracy", "training pixel accuracy"),
        (
            Metric("mean_iou", "mean IoU"),
            Metric("foreground_iou", "mean IoU without background"),
            Metric("pixel_accuracy", "pixel accuracy"),
        ),
        "Intersection over union, averaged over the classes, and fraction of correct pixels.",
        "trainer.report.segments:sections",
        dense=True,
    ),
}
"""All tasks by name."""


def metrics_in(values: Mapping[str, Any]) -> tuple[Metric, ...]:
    """Return the evaluation metrics of the task whose results these are; empty if there are none.

    Args:
        values: Content of result.json, a line of metrics.jsonl or a stored evaluation.
    """
    for task in DESCRIPTIONS.values():
        if task.evaluation[0].key in values:
            return task.evaluation
    return ()


def score_in(evaluation: Mapping[str, Any]) -> float:
    """Return the metric of a stored evaluation that decides which checkpoint is the best."""
    return float(evaluation[metrics_in(evaluation)[0].key])
