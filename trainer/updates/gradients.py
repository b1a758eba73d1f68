"""The loss and its gradients on one rank."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import tensorflow as tf
from tensorflow.python import pywrap_tfe
from tensorflow.python.eager import backprop
from tensorflow.python.framework import ops

from trainer.config import TrainConfig
from trainer.data.images import flip_and_normalize
from trainer.data.manifest import Normalization
from trainer.model.randomness import randomness
from trainer.tasks.task import Task
from trainer.updates.division import Division, Sums
from trainer.updates.loss_scale import LossScale
from trainer.updates.mixing import mixed_images, mixed_losses

_POOLING: Final = ("ksize", "strides", "padding", "explicit_paddings", "data_format")
"""Attributes of a pooling."""


class LocalGradients:
    """The forward and backward pass over one rank's batch, in one or several micro-batches."""

    def __init__(
        self,
        task: Task,
        division: Division,
        normalization: Normalization,
        config: TrainConfig,
        loss_scale: LossScale,
        global_batch: int,
        rank: int = 0,
    ) -> None:
        """Args:
        task: Loss and training metric of the network on this rank.
        division: The network.
        normalization: Normalization of the images.
        config: Seed, label smoothing and micro-batches.
        loss_scale: Loss scale of the run.
        global_batch: Images per step, over all ranks.
        rank: Number of this rank, which random layers draw by.
        """
        self._task, self._division, self._normalization = task, division, normalization
        self._weights = division.model.trainable_variables
        self._seed, self._rank, self._options = config.seed, rank, config.optimizer
        self._loss_scale, self._global_batch = loss_scale, global_batch

    def __call__(
        self, batch: dict[str, tf.Tensor], scale: tf.Tensor, step: tf.Tensor | None = None
    ) -> Sums:
        """Differentiate this rank's part of the loss.

        Args:
            batch: See `trainer.data.pipeline.Batch`.
            scale: Factor of the loss that keeps small gradients from vanishing in float16.
            step: Steps done, int64 scalar, from which dropout follows; None if nothing is random.

        Returns:
            The gradients of (sum of the images' losses) / (global batch), one per trainable
            variable, whose sum over ranks is the mean gradient; and float32 scalars: that loss, the
            sum of the training metric, the sum of the weights, 1 if a gradient overflowed, else 0,
            and that loss without smoothing and weights.

            If float16 gradients are sent, they are returned with the scale, because they need it on
            the wire; overflow is then checked after the exchange, which may also cause it.
        """
        with self._division.placed():
            return self._division.local(partial(self._batch, scale), batch, step, self._rank)

    def _batch(
        self,
        scale: tf.Tensor,
        batch: dict[str, tf.Tensor],
        step: tf.Tensor | None,
        rank: tf.Tensor | int,
    ) -> Sums:
        compute = partial(self._micro_batch, scale, rank)
        gradients, sums = self._division.accumulated(
            compute, batch, step, self._options.accumulation
        )
        gradients, overflow = self._loss_scale.unscaled(gradients, scale)
        *sums, plain = sums
        return gradients, [*sums, overflow, plain]

    def _micro_batch(
        self,
        scale: tf.Tensor,
        rank: tf.Tensor | int,
        batch: dict[str, tf.Tensor],
        step: tf.Tensor | None,
        number: tf.Tensor | int,
    ) -> Sums:
        image = flip_and_normalize(batch["image"], batch["flip"], self._normalization)
        target, weight = self._task.mirrored(batch["target"], batch["flip"]), batch["weight"]
        model, share = self._division.model, None
        if "patch" in batch:
            image, share = mixed_images(image, weight, batch["patch"])
        draws = randomness(model, self._seed, step, rank, number)
        with draws, self._division.tape() as tape:
            tape.watch(self._weights)
            logits = model(image, training=True)
            losses, scores, plain = mixed_losses(
                self._task, logits, target, self._options.label_smoothing, share
            )
            loss = tf.reduce_sum(losses * weight) / self._global_batch
            scaled = loss * scale
        # Whole tensors, because that of an embedding has rows only, which Horovod would not add.
        with adding_in_order(), pooling_in_order():
            gradients = [tf.convert_to_tensor(one) for one in tape.gradient(scaled, self._weights)]
        plain_loss = tf.reduce_sum(plain * weight) / self._global_batch
        score = tf.reduce_sum(scores * weight)
        return gradients, [loss, score, tf.reduce_sum(weight), plain_loss]


@contextmanager
def adding_in_order() -> Iterator[None]:
    """Let a tape add up the gradients of what a network uses three times or more in one order.

    TensorFlow adds them up with AddN, which begins with the first input whose memory it may reuse.
    Which one that is depends on what else has still to read them, so the last bits would depend on
    when other operations run. A sum along an axis has one order, and a sum of two needs none.
    """
    # There is no public way to tell a tape how to add.
    usual = backprop._default_vspace  # noqa: SLF001

    def added(gradients: Sequence[Any]) -> Any:
        if len(gradients) < 3 or not all(isinstance(one, tf.Tensor) for one in gradients):
            return usual.aggregate_fn(gradients)
        return tf.reduce_sum(tf.stack(gradients), 0)

    pywrap_tfe.TFE_Py_RegisterVSpace(usual._replace(aggregate_fn=added))
    try:
        yield
    finally:
        pywrap_tfe.TFE_Py_RegisterVSpace(usual)


@contextmanager
def pooling_in_order() -> Iterator[None]:
    """Let a tape add up the gradients of the windows of max pooling, which overlap, in one order on
    a CPU.

    TensorFlow has two kernels for it, which add in different orders. When it prepares a graph for
    oneDNN (`MaxpoolGradRewrite` in its mkl_layout_pass.cc), it takes the faster one if it has
    visited the `MaxPool` before the `MaxPoolGrad`, which a graph with loops does not ensure. So of
    two processes with the same graph one could end with other last bits. Both operations are
    therefore in a function of their own, which has no loops and is not inlined; pooling once more
    takes little time.
    """
    # There is no public way to replace the gradient of an operation for a tape.
    registered = ops._gradient_registry._registry  # noqa: SLF001
    usual = registered["MaxPool"]

    def pooled(op: Any, upstream: tf.Tensor) -> Any:
        if tf.config.get_visible_devices("GPU"):
            return usual["type"](op, upstream)
        same = {key: op.get_attr(key) for key in _POOLING}

        # TensorFlow has no types.
        @tf.function(  # type: ignore[untyped-decorator]
            autograph=False, experimental_attributes={"_noinline": True}
        )
        def pool_again(images: tf.Tensor, upstream: tf.Tensor) -> tf.Tensor:
            largest = tf.raw_ops.MaxPool(input=images, **same)
            return tf.raw_ops.MaxPoolGrad(
                orig_input=images, orig_output=largest, grad=upstream, **same
            )

        return pool_again(op.inputs[0], upstream)

    registered["MaxPool"] = {**usual, "type": pooled}
    try:
        yield
    finally:
        registered["MaxPool"] = usual
