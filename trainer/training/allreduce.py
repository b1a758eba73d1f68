"""The one all-reduce of a step, and what is known from it: the same on every rank."""

from collections.abc import Sequence
from dataclasses import dataclass

import tensorflow as tf

from trainer.distributed.communicator import Communicator

SUMS = ("loss", "correct", "weight", "overflow", "stop", "pause")
"""Scalars that every rank adds to the all-reduce, after the batch-norm statistics."""


@dataclass(frozen=True)
class Reduced:
    """What all ranks know after an all-reduce."""

    gradients: list[tf.Tensor]
    """Mean over all images of the global batch."""
    moving: list[tf.Tensor]
    """Batch norm's moving statistics, mean over ranks; empty where there is one rank."""
    sums: dict[str, tf.Tensor]
    """float32 scalars by the names in `SUMS`, added up over ranks."""
    norm: tf.Tensor
    """Of all gradients where all were looked at; else of no meaning, but finite or not."""
    finite: tf.Tensor
    """False if a gradient of any rank overflowed, so that this step is to be left out."""
    leave: tf.Tensor
    """True if any rank asked for a stop or a pause."""


class AllReduce:
    """Sums gradients, batch-norm statistics, counts and requests to leave over ranks.

    Each rank's loss is already divided by the global batch, so the sum of gradients is their mean
    over all images. The moving statistics are averaged: every rank starts a step from the same
    ones, so this equals moving them by the mean of the ranks' batch statistics, and the state of
    all ranks stays the same to the bit.

    The check for finite numbers costs next to nothing: it looks at the gradient of the first layer,
    which the whole backward pass has gone through, and at all gradients only when asked to. What is
    not finite elsewhere makes the loss of the next step so. Whether a gradient overflowed under a
    loss scale, which decides over each step, comes with the sums; only where float16 is on the wire
    is it known no sooner than here, and the scale taken off no sooner (`unscale_after`).
    """

    def __init__(
        self, communicator: Communicator, moving: Sequence[tf.Variable], *, unscale_after: bool
    ) -> None:
        self._communicator, self._moving = communicator, list(moving)
        self._unscale_after = unscale_after

    def reduce(
        self,
        gradients: list[tf.Tensor],
        sums: list[tf.Tensor],
        scale: tf.Tensor,
        check_all: tf.Tensor,
    ) -> Reduced:
        """Sum over all ranks, inside a graph.

        Args:
            gradients: of this rank's part of the loss; times the scale if `unscale_after`.
            sums: float32 scalars, this rank's part of `SUMS`.
            scale: the loss scale, a float32 scalar.
            check_all: bool scalar, whether to look at all gradients in any case; a request to
                leave makes it so, as it is followed by a save.
        """
        moving: list[tf.Tensor] = []
        if self._communicator.size > 1:
            flat = [tf.reshape(variable, [-1]) for variable in self._moving]
            gradients, extras = self._communicator.allreduce(
                gradients, tf.concat([*flat, tf.stack(sums)], 0)
            )
            sizes = [int(value.shape[0]) for value in flat] + [len(SUMS)]
            *means, last = tf.split(extras, sizes)
            sums = tf.unstack(last)
            moving = [
                tf.reshape(mean / self._communicator.size, variable.shape)
                for mean, variable in zip(means, self._moving, strict=True)
            ]
        named = dict(zip(SUMS, sums, strict=True))
        leave = named["stop"] + named["pause"] > 0
        if self._unscale_after:
            norm = tf.linalg.global_norm(gradients) / scale
            gradients = [gradient / scale for gradient in gradients]
            return Reduced(gradients, moving, named, norm, tf.math.is_finite(norm), leave)
        norm = tf.cond(
            check_all | leave,
            lambda: tf.linalg.global_norm(gradients),
            # One operation, where a norm takes four; it is as finite.
            lambda: tf.nn.l2_loss(gradients[0]),
        )
        return Reduced(gradients, moving, named, norm, named["overflow"] <= 0, leave)

    def assign_moving(self, moving: Sequence[tf.Tensor]) -> None:
        """Set batch norm's moving statistics, if there is something to set."""
        if moving:
            for variable, value in zip(self._moving, moving, strict=True):
                variable.assign(value)
