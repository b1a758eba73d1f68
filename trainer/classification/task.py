"""Classification: one class per image."""

from pathlib import Path
from typing import Any, ClassVar, Final

import tensorflow as tf
import tf_keras as keras

from trainer.classification.files import write_predictions
from trainer.classification.leaf import CLASSIFICATION
from trainer.classification.serving import serving_module
from trainer.task_descriptions import TaskDescription
from trainer.tasks.task import Array, Evaluation, HeldOut, Predictions, Serving, Signature, Task

COLUMNS: Final = ("label", "predicted", "probability", "probability_of_label")
"""Columns of the predictions: the true class and the most probable one, int32, and the
probabilities of both, float32."""


class Classification(Task):
    """Predicts the class of an image. Logits are [b, classes], targets int32 [b]."""

    description: ClassVar[TaskDescription] = CLASSIFICATION

    def training(
        self, logits: tf.Tensor, target: tf.Tensor, smoothing: float = 0.0
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """See `Task.training`: the cross-entropy, and top-1."""
        hits = tf.cast(tf.argmax(logits, 1, tf.int32) == target, tf.float32)
        return cross_entropy(logits, target, smoothing), hits

    def evaluated(
        self, logits: tf.Tensor, target: tf.Tensor
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        """See `Task.evaluated`. Counts whether the class is the first, and among five; the loss;
        and 1. The columns are `COLUMNS`.
        """
        best = tf.math.top_k(logits, min(5, logits.shape[-1])).indices
        hits = tf.cast(best == target[:, None], tf.float32)
        loss = cross_entropy(logits, target)
        counts = tf.stack([hits[:, 0], tf.reduce_sum(hits, 1), loss, tf.ones_like(loss)], 1)
        predicted, probabilities = best[:, 0], tf.nn.softmax(logits)
        of_predicted, of_label = (
            tf.gather(probabilities, classes, batch_dims=1) for classes in (predicted, target)
        )
        columns = (target, predicted, of_predicted, of_label)
        return counts, dict(zip(COLUMNS, columns, strict=True))

    def evaluation(self, counted: Array) -> Evaluation:
        """See `Task.evaluation`."""
        top1, top5, loss, count = self.sums(counted)
        metrics = {"top1": top1 / count, "top5": top5 / count}
        return Evaluation(metrics, loss / count, round(count))

    def write_predictions(
        self, folder: Path, predictions: Predictions, held_out: HeldOut
    ) -> dict[str, Any]:
        """See `Task.write_predictions`: predictions.csv and thumbnails of mistakes."""
        read = held_out.image if held_out.shown else None
        return write_predictions(folder, predictions, held_out.class_names, read)

    def serving_module(
        self, model: keras.Model, serving: Serving
    ) -> tuple[tf.Module, dict[str, Signature]]:
        """See `trainer.classification.serving.serving_module`."""
        return serving_module(model, serving)


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
