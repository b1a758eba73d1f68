"""The loss and its gradients on one rank."""

from dataclasses import dataclass
from typing import Any

import tensorflow as tf
import tf_keras as keras

from trainer.config import TrainConfig
from trainer.data.images import normalize


@dataclass(frozen=True)
class Statistics:
    """Pixel statistics that inputs are normalised with, red, green, blue, 0 to 255."""

    mean: tuple[float, float, float]
    deviation: tuple[float, float, float]


class LocalGradients:
    """The forward and backward pass over one rank's batch, in one or several micro-batches."""

    def __init__(
        self, model: keras.Model, statistics: Statistics, config: TrainConfig, global_batch: int
    ) -> None:
        self._model, self._statistics = model, statistics
        self._weights = model.trainable_variables
        self._optimizer, self._global_batch = config.optimizer, global_batch

    def __call__(
        self, batch: dict[str, tf.Tensor], scale: tf.Tensor
    ) -> tuple[list[tf.Tensor], tf.Tensor]:
        """Differentiate this rank's part of the loss.

        Args:
            batch: image uint8 [b, size, size, 3]; label int32, weight float32 and flip bool [b].
            scale: factor of the loss, so that small gradients survive in float16.

        Returns:
            The gradients of scale x (sum of the images' losses) / (global batch), one a trainable
            variable, whose sum over ranks is the scaled mean; and float32 [3]: that loss without
            the scale, the correct answers and the weights.
        """
        pieces = self._optimizer.accumulation
        if pieces == 1:
            return self._micro_batch(batch, scale)
        split = {
            key: tf.reshape(value, [pieces, -1, *value.shape[1:]]) for key, value in batch.items()
        }

        def body(number: tf.Tensor, gradients: list[tf.Tensor], sums: tf.Tensor) -> tuple[Any, ...]:
            piece = {key: value[number] for key, value in split.items()}
            more, added = self._micro_batch(piece, scale)
            return number + 1, [a + b for a, b in zip(gradients, more, strict=True)], sums + added

        start = (tf.constant(0), [tf.zeros_like(w) for w in self._weights], tf.zeros([3]))
        _, gradients, sums = tf.while_loop(
            lambda number, *_: number < pieces, body, start, parallel_iterations=1
        )
        return gradients, sums

    def _micro_batch(
        self, batch: dict[str, tf.Tensor], scale: tf.Tensor
    ) -> tuple[list[tf.Tensor], tf.Tensor]:
        mean, deviation = self._statistics.mean, self._statistics.deviation
        image = normalize(batch["image"], batch["flip"], tf.constant(mean), tf.constant(deviation))
        label, weight = batch["label"], batch["weight"]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(self._weights)
            logits = self._model(image, training=True)
            losses = cross_entropy(logits, label, self._optimizer.label_smoothing)
            loss = tf.reduce_sum(losses * weight) / self._global_batch
            scaled = loss * scale
        gradients = tape.gradient(scaled, self._weights)
        hits = tf.cast(tf.argmax(logits, 1, tf.int32) == label, tf.float32)
        return gradients, tf.stack([loss, tf.reduce_sum(hits * weight), tf.reduce_sum(weight)])


def cross_entropy(logits: tf.Tensor, label: tf.Tensor, smoothing: float = 0.0) -> tf.Tensor:
    """Cross-entropy of each example.

    Args:
        logits: float32 [b, classes].
        label: int32 [b].
        smoothing: part of the target that is spread over all classes.

    Returns:
        float32 [b].
    """
    classes = logits.shape[-1]
    target = tf.one_hot(label, classes) * (1.0 - smoothing) + smoothing / classes
    return tf.nn.softmax_cross_entropy_with_logits(target, logits)
