"""The loss of a micro-batch and its gradients."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Protocol

import tensorflow as tf
import tf_keras as keras
from tensorflow.python import pywrap_tfe
from tensorflow.python.eager import backprop
from tensorflow.python.framework import ops

from trainer.config import TrainConfig
from trainer.data.images import flip_and_normalize
from trainer.data.manifest import Normalization
from trainer.model.randomness import randomness
from trainer.tasks.task import Task
from trainer.updates.mixing import mixed_images, mixed_losses

Sums = tuple[list[tf.Tensor], list[tf.Tensor]]
"""Gradients of the trained variables, and scalars that are added up with them."""
SCALARS: Final = 4
"""Those of a micro-batch: its loss, the training metric, its images, and the loss without smoothing
and weights."""
_POOLING: Final = ("ksize", "strides", "padding", "explicit_paddings", "data_format")
"""Attributes of a pooling."""


class Tape(Protocol):
    """What differentiates, such as `tf.GradientTape`."""

    def __enter__(self) -> Any:
        """Begin to record."""

    def __exit__(self, *error: object) -> Any:
        """End the recording."""

    def watch(self, sources: Any) -> None:
        """Note the variables to differentiate by."""

    def gradient(self, target: tf.Tensor, sources: Any) -> Any:
        """Return the derivatives of a scalar by variables."""


class MicroBatchGradients:
    """The forward and backward pass over a micro-batch."""

    def __init__(
        self,
        task: Task,
        model: keras.Model,
        normalization: Normalization,
        config: TrainConfig,
        global_batch: int,
        tape: Callable[[], Tape],
    ) -> None:
        """Args:
        task: Loss and training metric of the network on this rank.
        model: The network on this rank.
        normalization: Normalization of the images.
        config: Seed and label smoothing.
        global_batch: Images per step, over all ranks.
        tape: Makes what differentiates the loss.
        """
        self._task, self._model, self._normalization = task, model, normalization
        self._weights, self._tape = model.trainable_variables, tape
        self._seed, self._smoothing = config.seed, config.optimizer.label_smoothing
        self._global_batch = global_batch

    def __call__(
        self,
        scale: tf.Tensor,
        rank: tf.Tensor | int,
        batch: dict[str, tf.Tensor],
        step: tf.Tensor | None,
        number: tf.Tensor | int,
    ) -> Sums:
        """Differentiate the micro-batch's part of the loss.

        Args:
            scale: Factor of the loss.
            rank: Number of the rank, which random layers draw by.
            batch: Tensors of the micro-batch by name.
            step: Steps done, int64 scalar; None if nothing is random.
            number: Number of the micro-batch in the rank's batch.
        """
        image = flip_and_normalize(batch["image"], batch["flip"], self._normalization)
        target, weight = self._task.mirrored(batch["target"], batch["flip"]), batch["weight"]
        model, share = self._model, None
        if "patch" in batch:
            image, share = mixed_images(image, weight, batch["patch"])
        draws = randomness(model, self._seed, step, rank, number)
        with draws, self._tape() as tape:
            tape.watch(self._weights)
            logits = model(image, training=True)
            losses, scores, plain = mixed_losses(self._task, logits, target, self._smoothing, share)
            loss = tf.reduce_sum(losses * weight) / self._global_batch
            scaled = loss * scale
        # Whole tensors, because that of an embedding has rows only, which Horovod would not add.
        with adding_in_order(), pooling_in_order():
            gradients = [
                tf.convert_to_tensor(gradient) for gradient in tape.gradient(scaled, self._weights)
            ]
        plain_loss = tf.reduce_sum(plain * weight) / self._global_batch
        score = tf.reduce_sum(scores * weight)
        return gradients, [loss, score, tf.reduce_sum(weight), plain_loss]


@contextmanager
def adding_in_order() -> Iterator[None]:
    """Let a tape add up the gradients of values that a network uses three times or more in one
    order.

    TensorFlow adds them up with AddN, which begins with the first input whose memory it may reuse.
    Which one that is depends on what else has still to read them, so the last bits would depend on
    when other operations run. A sum along an axis has one order, and a sum of two needs none.
    """
    # There is no public way to tell a tape how to add.
    usual = backprop._default_vspace  # noqa: SLF001

    def added(gradients: Sequence[Any]) -> Any:
        if len(gradients) < 3 or not all(isinstance(gradient, tf.Tensor) for gradient in gradients):
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
