"""Reasons to doubt the network that an evaluation is of, in sentences. Pure."""

from collections.abc import Sequence
from typing import Final

from common.text import plural
from trainer.task_descriptions import Metric, TaskDescription
from trainer.tasks.task import Evaluation

OVERFITTED: Final = 0.1
"""Difference between the training metric and the held-out one from which it is named."""
_NAMED: Final = 10
"""Most classes that are named."""


def shortcomings(
    task: TaskDescription,
    metric: Metric,
    evaluation: Evaluation,
    class_names: Sequence[str],
    training: float | None = None,
) -> list[str]:
    """Return a sentence for each reason to doubt a network.

    Args:
        task: Task of the run.
        metric: Metric by which its evaluations are compared.
        evaluation: Its result.
        class_names: Names of the classes.
        training: Training metric of the same weights; None if it is not known.
    """
    sentences, value = [], evaluation.metrics.get(metric.key)
    baseline = evaluation.baseline.get(metric.key)
    if value is not None and baseline is not None and value <= baseline:
        sentences.append(
            f"The network has learned nothing that shows: its {metric.label} is {value:.2%}, and"
            f" that of the same answer for every image ({task.baseline}) is {baseline:.2%}."
        )
    never = evaluation.by_class.never_predicted if evaluation.by_class else []
    if never:
        names = ", ".join(class_names[number] for number in never[:_NAMED])
        more = ", ..." if len(never) > _NAMED else ""
        of = plural(len(class_names), "class", "classes")
        sentences.append(f"Never predicted, {len(never):,} of {of}: {names}{more}.")
    held_out = [evaluation.metrics[key] for key in task.comparable if key in evaluation.metrics]
    if training is not None and held_out and training - max(held_out) >= OVERFITTED:
        sentences.append(
            f"Overfitted by {100 * (training - max(held_out)):.0f} points: {task.training.label} is"
            f" {training:.2%}, held-out {max(held_out):.2%}."
        )
    return sentences
