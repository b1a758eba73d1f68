"""A task whose losses are weighted by class."""

from pathlib import Path
from typing import Any

import tensorflow as tf
import tf_keras as keras

from trainer.config import TrainConfig
from trainer.data.data_set import DataSet
from trainer.data.imbalance.effective import factors
from trainer.data.imbalance.leaf import ImbalanceOptions
from trainer.tasks.by_class import ByClass
from trainer.tasks.task import Array, HeldOut, Predictions, Serving, Signature, Task


class WeightedTask(Task):
    """A task of which only the losses of training differ: each is multiplied by the factor of the
    class of its image.
    """

    def __init__(self, task: Task, weights: list[float]) -> None:
        """Args:
        task: The task; its targets are classes, int32 [b].
        weights: Factor of each class.
        """
        super().__init__(task.classes)
        self.description = task.description  # type: ignore[misc] # that of the task inside
        self._task, self._weights = task, weights

    def training(
        self, logits: tf.Tensor, target: tf.Tensor, smoothing: float = 0.0
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """See `Task.training`."""
        losses, scores, plain = self._task.training(logits, target, smoothing)
        return losses * tf.gather(tf.constant(self._weights, losses.dtype), target), scores, plain

    def evaluated(
        self, logits: tf.Tensor, target: tf.Tensor
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        """See `Task.evaluated`; an evaluation has no weights."""
        return self._task.evaluated(logits, target)

    def counts(self, counted: Array) -> Any:
        """See `Task.counts`."""
        return self._task.counts(counted)

    def baseline(self, counts: Any) -> Any:
        """See `Task.baseline`."""
        return self._task.baseline(counts)

    def by_class(self, counts: Any) -> ByClass | None:
        """See `Task.by_class`."""
        return self._task.by_class(counts)

    def write_predictions(
        self, folder: Path, predictions: Predictions, held_out: HeldOut
    ) -> dict[str, Any]:
        """See `Task.write_predictions`."""
        return self._task.write_predictions(folder, predictions, held_out)

    def serving_module(
        self, model: keras.Model, serving: Serving
    ) -> tuple[tf.Module, dict[str, Signature]]:
        """See `Task.serving_module`."""
        return self._task.serving_module(model, serving)


def weighted(task: Task, config: TrainConfig, data_set: DataSet) -> Task:
    """Return the task whose losses are weighted, if that is asked for."""
    options = config.of(ImbalanceOptions)
    if options.by != "weights" or data_set.manifest is None:
        return task
    counts = data_set.manifest.splits["train"].class_counts
    return WeightedTask(task, factors(counts, options.beta))
