"""The loss and its gradients on one rank."""

from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import tensorflow as tf
import tf_keras as keras

from trainer.config import TrainConfig
from trainer.data.images import flip_and_normalize
from trainer.data.manifest import Normalization
from trainer.diagnostics.device import stage_devices
from trainer.divided.pipeline import ColocatedTape, pipelined
from trainer.divided.stages import after_inputs
from trainer.model.randomness import randomness
from trainer.tasks.task import Task


class LocalGradients:
    """The forward and backward pass over one rank's batch, in one or several micro-batches."""

    def __init__(
        self,
        task: Task,
        model: keras.Model,
        normalization: Normalization,
        config: TrainConfig,
        global_batch: int,
        rank: int = 0,
    ) -> None:
        self._task, self._model, self._normalization = task, model, normalization
        self._weights = model.trainable_variables
        self._seed, self._rank = config.seed, rank
        self._optimizer, self._global_batch = config.optimizer, global_batch
        self._scaled = config.compute.precision == "mixed_float16"
        self._unscale_after = config.exchange.compression == "fp16"
        stages = config.model.stages
        self._devices = stage_devices(stages) if stages > 1 else None

    def __call__(
        self, batch: dict[str, tf.Tensor], scale: tf.Tensor, step: tf.Tensor | None = None
    ) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        """Differentiate this rank's part of the loss.

        Args:
            batch: image uint8 [b, size, size, 3]; target; weight float32 and flip bool [b].
            scale: Factor of the loss that keeps small gradients from vanishing in float16.
            step: Steps done, int64 scalar, from which dropout follows; None if nothing is random.

        Returns:
            The gradients of (sum of the images' losses) / (global batch), one per trainable
            variable, whose sum over ranks is the mean gradient; and float32 scalars: that loss, the
            sum of the training metric, the sum of the weights, and 1 if a gradient overflowed, else
            0.

            If float16 gradients are sent, they are returned with the scale, because they need it on
            the wire; overflow is then checked after the all-reduce, which may also cause it.
        """
        with self._placed():
            gradients, sums = self._scaled_gradients(batch, scale, step)
            overflow = tf.constant(0.0)
            if self._scaled and not self._unscale_after:
                # XLA can fuse this into the backward pass here, but not after the all-reduce.
                gradients, overflow = unscale(gradients, scale)
        return gradients, [*sums, overflow]

    def _placed(self) -> AbstractContextManager[None]:
        return nullcontext() if self._devices is None else after_inputs(self._devices)

    def _tape(self) -> tf.GradientTape | ColocatedTape:
        if self._devices is None:
            return tf.GradientTape(watch_accessed_variables=False)
        return ColocatedTape()

    def _scaled_gradients(
        self, batch: dict[str, tf.Tensor], scale: tf.Tensor, step: tf.Tensor | None
    ) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        pieces = self._optimizer.accumulation
        compute = partial(self._micro_batch, scale)
        if self._devices is not None:
            return pipelined(compute, batch, step, pieces, self._devices)
        if pieces == 1:
            return compute(batch, step, 0)
        split = {
            key: tf.reshape(value, [pieces, -1, *value.shape[1:]]) for key, value in batch.items()
        }

        def body(
            number: tf.Tensor, gradients: list[tf.Tensor], sums: list[tf.Tensor]
        ) -> tuple[Any, ...]:
            piece = {key: value[number] for key, value in split.items()}
            more, added = compute(piece, step, number)
            return number + 1, _add(gradients, more), _add(sums, added)

        start = (tf.constant(0), [tf.zeros_like(w) for w in self._weights], [tf.constant(0.0)] * 3)
        _, gradients, sums = tf.while_loop(
            lambda number, *_: number < pieces, body, start, parallel_iterations=1
        )
        return gradients, sums

    def _micro_batch(
        self,
        scale: tf.Tensor,
        batch: dict[str, tf.Tensor],
        step: tf.Tensor | None,
        number: tf.Tensor | int,
    ) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        image = flip_and_normalize(batch["image"], batch["flip"], self._normalization)
        target, weight = self._task.mirrored(batch["target"], batch["flip"]), batch["weight"]
        draws = randomness(self._model, self._seed, step, self._rank, number)
        with draws, self._tape() as tape:
            tape.watch(self._weights)
            logits = self._model(image, training=True)
            losses, scores = self._task.training(logits, target, self._optimizer.label_smoothing)
            loss = tf.reduce_sum(losses * weight) / self._global_batch
            scaled = loss * scale
        # Whole tensors, because that of an embedding has rows only, which Horovod would not add.
        gradients = [tf.convert_to_tensor(one) for one in tape.gradient(scaled, self._weights)]
        return gradients, [loss, tf.reduce_sum(scores * weight), tf.reduce_sum(weight)]


def unscale(gradients: list[tf.Tensor], scale: tf.Tensor) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Divide gradients by the loss scale; also return 1.0 if one of them overflowed, else 0.0."""
    finite = tf.math.is_finite(tf.linalg.global_norm(gradients))
    return [gradient / scale for gradient in gradients], 1.0 - tf.cast(finite, tf.float32)


def _add(left: list[tf.Tensor], right: list[tf.Tensor]) -> list[tf.Tensor]:
    return [a + b for a, b in zip(left, right, strict=True)]
