"""Classification: one class per image."""

from pathlib import Path
from typing import Any, ClassVar, Final

import tensorflow as tf
import tf_keras as keras

from trainer.task_descriptions import TaskDescription
from trainer.tasks.by_class import ByClass
from trainer.tasks.classification.files import COLUMNS, PROBABILITIES, write_predictions
from trainer.tasks.classification.leaf import CLASSIFICATION
from trainer.tasks.classification.metrics import Classified
from trainer.tasks.classification.serving import serving_module
from trainer.tasks.task import Array, HeldOut, Predictions, Serving, Signature, Task

MOST_AREAS: Final = 100
"""Most classes of which all probabilities are kept, and areas under ROC curves computed."""


class Classification(Task):
    """Predicts the class of an image. Logits are [b, classes], targets int32 [b]."""

    description: ClassVar[TaskDescription] = CLASSIFICATION

    def training(
        self, logits: tf.Tensor, target: tf.Tensor, smoothing: float = 0.0
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """See `Task.training`: the cross-entropy, and top-1."""
        hits = tf.cast(tf.argmax(logits, 1, tf.int32) == target, tf.float32)
        loss = cross_entropy(logits, target, smoothing)
        return loss, hits, cross_entropy(logits, target) if smoothing else loss

    def evaluated(
        self, logits: tf.Tensor, target: tf.Tensor
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        """See `Task.evaluated`. Counts the class, the most probable one, and whether the class is
        among five, as `counted` does. The columns are `COLUMNS`, and `PROBABILITIES`.
        """
        best = tf.math.top_k(logits, min(5, logits.shape[-1])).indices
        predicted, probabilities = best[:, 0], tf.nn.softmax(logits)
        of_predicted, of_label = (
            tf.gather(probabilities, classes, batch_dims=1) for classes in (predicted, target)
        )
        columns = dict(zip(COLUMNS, (target, predicted, of_predicted, of_label), strict=True))
        if self.classes <= MOST_AREAS:
            columns[PROBABILITIES] = probabilities
        return counted(cross_entropy(logits, target), target, best), columns

    def counts(self, counted: Array) -> Classified:
        """See `Task.counts`."""
        labels, predicted, among_five = counted.T
        return Classified(labels.astype(int), predicted.astype(int), among_five > 0, self.classes)

    def baseline(self, counts: Classified) -> Classified:
        """See `Task.baseline`: the largest held-out class."""
        return counts.largest_class()

    def by_class(self, counts: Classified) -> ByClass:
        """See `Task.by_class`: images."""
        return counts.by_class

    def write_predictions(
        self, folder: Path, predictions: Predictions, held_out: HeldOut
    ) -> dict[str, Any]:
        """See `Task.write_predictions`: predictions.csv and thumbnails of mistakes."""
        read = held_out.image if held_out.shown else None
        names, groups = held_out.class_names, held_out.groups
        return write_predictions(folder, predictions, names, read, groups)

    def serving_module(
        self, model: keras.Model, serving: Serving
    ) -> tuple[tf.Module, dict[str, Signature]]:
        """See `trainer.tasks.classification.serving.serving_module`."""
        return serving_module(model, serving)


def counted(loss: tf.Tensor, target: tf.Tensor, best: tf.Tensor) -> tf.Tensor:
    """Return what `Classification` counts of each example, float32 [b, 5], which holds the numbers
    of up to 2^24 classes exactly.

    Args:
        loss: float32 [b].
        target: Class, int32 [b].
        best: The most probable classes in descending order, at most five, int32 [b, k].
    """
    among = tf.reduce_any(best == target[:, None], 1)
    columns = (loss, tf.ones_like(loss), target, best[:, 0], among)
    return tf.stack([tf.cast(column, tf.float32) for column in columns], 1)


def cross_entropy(logits: tf.Tensor, target: tf.Tensor, smoothing: float = 0.0) -> tf.Tensor:
    """Return the cross-entropy of each example, or of each pixel.

    Args:
        logits: float32 [..., classes].
        target: int32 [...].
        smoothing: Fraction of the target that is spread evenly over all classes.

    Returns:
        float32 [...].
    """
    classes = logits.shape[-1]
    spread = tf.one_hot(target, classes) * (1.0 - smoothing) + smoothing / classes
    return tf.nn.softmax_cross_entropy_with_logits(spread, logits)
