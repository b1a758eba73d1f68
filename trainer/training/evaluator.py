"""Top-1 and top-5 over a whole split: all ranks take part and every example counts exactly once."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras

from trainer.data.images import flip_and_normalize
from trainer.data.manifest import Normalization
from trainer.distributed.horovod import Communicator
from trainer.training.gradients import cross_entropy
from trainer.training.predictions import Predictions


@dataclass(frozen=True)
class Evaluation:
    """The result of an evaluation."""

    top1: float
    """Part of the examples whose class is the most probable one, 0 to 1."""
    top5: float
    """Part of the examples whose class is among the five most probable, 0 to 1."""
    loss: float
    """Mean cross-entropy without label smoothing."""
    examples: int
    """Examples counted."""


class Evaluator:
    """A compiled forward pass and its counts."""

    def __init__(
        self,
        model: keras.Model,
        communicator: Communicator,
        normalization: Normalization,
        *,
        xla: bool,
    ) -> None:
        self._model, self._communicator, self._normalization = model, communicator, normalization
        self._graph = tf.function(self._counts, autograph=False, jit_compile=xla)
        self.predictions: Predictions | None = None
        """Of this rank's share in the last evaluation; `index` counts from its first example."""

    def run(self, batches: Iterable[dict[str, Any]]) -> Evaluation:
        """Evaluate this rank's batches and add up the counts of all ranks.

        Args:
            batches: this rank's share; what has weight 0 fills up a batch and is not counted.
        """
        sums, parts = np.zeros(4), []
        for batch in batches:
            counts, weight, *columns = (value.numpy() for value in self._graph(batch))
            sums += counts
            parts.append((weight, *columns))
        weight, *columns = (np.concatenate(column) for column in zip(*parts, strict=True))
        counted = np.flatnonzero(weight)
        self.predictions = Predictions.of([counted, *(column[counted] for column in columns)])
        top1, top5, loss, count = self._communicator.sum(sums)
        return Evaluation(top1 / count, top5 / count, loss / count, round(count))

    def _counts(self, batch: dict[str, tf.Tensor]) -> tuple[tf.Tensor, ...]:
        """The sums over a batch, then per example: weight, label, predicted class, and the
        probabilities of both, predicted first.
        """
        image = flip_and_normalize(batch["image"], batch["flip"], self._normalization)
        logits = self._model(image, training=False)
        label, weight = batch["label"], batch["weight"]
        places = tf.math.top_k(logits, min(5, logits.shape[-1])).indices
        hits = tf.cast(places == label[:, None], tf.float32)
        per_example = tf.stack(
            [
                hits[:, 0],
                tf.reduce_sum(hits, 1),
                cross_entropy(logits, label),
                tf.ones_like(weight),
            ],
            1,
        )
        # Multiplying would turn a filler's infinite loss into NaN.
        counted = tf.where(weight[:, None] > 0, per_example, 0.0)
        sums = tf.reduce_sum(tf.cast(counted, tf.float64), 0)
        probabilities = tf.nn.softmax(logits)
        predicted = places[:, 0]
        of_predicted, of_label = (
            tf.gather(probabilities, classes, batch_dims=1) for classes in (predicted, label)
        )
        return sums, weight, label, predicted, of_predicted, of_label
