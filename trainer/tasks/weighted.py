"""A task whose losses are weighted by class."""

from collections.abc import Sequence
from copy import copy

import tensorflow as tf

from trainer.config import TrainConfig
from trainer.data.data_set import DataSet
from trainer.data.imbalance.effective import factors
from trainer.data.imbalance.leaf import ImbalanceOptions
from trainer.tasks.task import Task


def with_weights(task: Task, weights: Sequence[float]) -> Task:
    """Return a task of which only the losses of training differ: each is multiplied by the factor
    of the class of its image.

    Args:
        task: The task; its targets are classes, int32 [b].
        weights: Factor of each class.
    """
    changed, plain = copy(task), task.training

    def training(
        logits: tf.Tensor, target: tf.Tensor, smoothing: float = 0.0
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        losses, scores, unweighted = plain(logits, target, smoothing)
        factor = tf.gather(tf.constant(weights, losses.dtype), target)
        return losses * factor, scores, unweighted

    changed.training = training  # type: ignore[method-assign]
    return changed


def weighted(task: Task, config: TrainConfig, data_set: DataSet) -> Task:
    """Return the task whose losses are weighted, if that is asked for."""
    options = config.of(ImbalanceOptions)
    if options.by != "weights" or data_set.manifest is None:
        return task
    counts = data_set.manifest.splits["train"].class_counts
    return with_weights(task, factors(counts, options.beta))
