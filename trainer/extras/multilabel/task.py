"""Multi-label classification: loss, metrics and signatures."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf
import tf_keras as keras

from trainer.config import TrainConfig
from trainer.extras.multilabel.files import write_predictions
from trainer.extras.multilabel.leaf import MULTILABEL, MultilabelOptions
from trainer.extras.multilabel.metrics import ClassMetrics, class_metrics
from trainer.task_descriptions import TaskDescription
from trainer.tasks.by_class import ByClass
from trainer.tasks.serving import decoded, module_of, pixels_signature
from trainer.tasks.task import Array, HeldOut, Predictions, Serving, Signature, Task


class Multilabel(Task):
    """Predicts which classes an image has. Logits are [b, classes], targets uint8 [b, classes]."""

    description: ClassVar[TaskDescription] = MULTILABEL

    def __init__(self, classes: int, config: TrainConfig | None = None) -> None:
        """See `Task`; reads the threshold and the weight."""
        super().__init__(classes, config)
        self._options = config.of(MultilabelOptions) if config else MultilabelOptions()

    def training(
        self, logits: tf.Tensor, target: tf.Tensor, smoothing: float = 0.0
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """See `Task.training`: the weighted loss, whose smoothed targets are between 0 and 1, and
        the F1 of the image's classes, 1 if it has none and none are said.
        """
        true = tf.cast(target, tf.float32)
        said = tf.cast(self._said(tf.sigmoid(logits)), tf.float32)
        both, either = tf.reduce_sum(true * said, 1), tf.reduce_sum(true + said, 1)
        f1 = tf.where(either > 0, 2.0 * both / tf.maximum(either, 1.0), 1.0)
        trained = loss(logits, target, smoothing, self._options.positive_weight)
        changed = smoothing or self._options.positive_weight != 1.0
        return trained, f1, loss(logits, target) if changed else trained

    def evaluated(
        self, logits: tf.Tensor, target: tf.Tensor
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        """See `Task.evaluated`. Counts the probabilities, then the targets. The columns are
        `loss`, [b], and `probabilities` and `target`, [b, classes].
        """
        losses, probabilities = loss(logits, target), tf.sigmoid(logits)
        true = tf.cast(target, tf.float32)
        parts = [losses[:, None], tf.ones_like(losses)[:, None], probabilities, true]
        columns = {"loss": losses, "probabilities": probabilities, "target": target}
        return tf.concat(parts, 1), columns

    def counts(self, counted: Array) -> ClassMetrics:
        """See `Task.counts`."""
        probabilities, true = np.split(counted, 2, axis=1)
        return self.metrics(probabilities, true > 0)

    def baseline(self, counts: ClassMetrics) -> ClassMetrics:
        """See `Task.baseline`: every class of every image."""
        return counts.all_classes()

    def by_class(self, counts: ClassMetrics) -> ByClass:
        """See `Task.by_class`: images."""
        return ByClass(counts.images, counts.said, counts.right)

    def metrics(self, probabilities: Array, true: Array) -> ClassMetrics:
        """Return the metrics of all classes at the threshold of the run."""
        return class_metrics(probabilities, true, self._options.threshold)

    def write_predictions(
        self, folder: Path, predictions: Predictions, held_out: HeldOut
    ) -> dict[str, Any]:
        """See `Task.write_predictions`: predictions.csv, classes.csv, reliability.csv and
        thumbnails of the images with the largest loss.
        """
        metrics = self.metrics(predictions["probabilities"], predictions["target"] > 0)
        said = self._said(predictions["probabilities"]).numpy()
        return write_predictions(folder, predictions, said, metrics, held_out)

    def serving_module(
        self, model: keras.Model, serving: Serving
    ) -> tuple[tf.Module, dict[str, Signature]]:
        """Build the module to save.

        serving_default: images, string [b], each an encoded JPEG or PNG -> class_probabilities
        float32 [b, classes], each for itself; present bool [b, classes], whether it is at least the
        threshold of the run; and class_names string [classes].

        pixels: pixels, uint8 [b, size, size, 3], cropped already -> probabilities float32
        [b, classes].
        """

        def of_inputs(inputs: tf.Tensor) -> dict[str, tf.Tensor]:
            return {"probabilities": tf.sigmoid(model(inputs, training=False))}

        predict = pixels_signature(of_inputs, serving)

        def of_images(images: tf.Tensor) -> dict[str, tf.Tensor]:
            probabilities = predict(decoded(images, serving))["probabilities"]
            return {
                "class_probabilities": probabilities,
                "present": self._said(probabilities),
                "class_names": tf.constant(serving.class_names),
            }

        return module_of(model, of_images, predict)

    def _said(self, probabilities: tf.Tensor) -> tf.Tensor:
        return probabilities >= tf.constant(self._options.threshold, tf.float32)


def loss(
    logits: tf.Tensor, target: tf.Tensor, smoothing: float = 0.0, positive_weight: float = 1.0
) -> tf.Tensor:
    """Return the sigmoid cross-entropy of each example, as a mean over its classes, float32 [b].

    Args:
        logits: float32 [b, classes].
        target: 1 or 0, uint8 [b, classes].
        smoothing: Fraction of each target that becomes 1/2.
        positive_weight: Factor of the part of the loss that draws a probability to 1.
    """
    true = tf.cast(target, tf.float32) * (1.0 - smoothing) + smoothing / 2
    losses = tf.nn.weighted_cross_entropy_with_logits(true, logits, positive_weight)
    return tf.reduce_mean(losses, 1)


def read_answers(outputs: Mapping[str, tf.Tensor]) -> list[list[dict[str, Any]]]:
    """See `Answers.read`: all classes, each with whether it is `present` and its `probability`."""
    names = [name.decode() for name in outputs["class_names"].numpy()]
    rows = zip(outputs["class_probabilities"].numpy(), outputs["present"].numpy(), strict=True)
    return [
        [
            {
                "class_id": int(number),
                "class_name": names[number],
                "present": bool(present[number]),
                "probability": float(probabilities[number]),
            }
            for number in (-probabilities).argsort(kind="stable")
        ]
        for probabilities, present in rows
    ]
