"""The single all-reduce of a step, and its results, which are the same on every rank."""

from collections.abc import Sequence
from dataclasses import dataclass

import tensorflow as tf

from trainer.distributed.communicator import Communicator

SUMS = ("loss", "score", "weight", "overflow", "stop", "pause")
"""Scalars that every rank adds to the all-reduce, after the batch-norm statistics."""


@dataclass(frozen=True)
class Reduced:
    """Result of an all-reduce, the same on all ranks."""

    gradients: list[tf.Tensor]
    """Gradients, as means over all images of the global batch; those of parts are the same on the
    ranks that hold the same part."""
    moving: list[tf.Tensor]
    """Moving statistics of batch norm, as means over ranks; empty with a single rank."""
    sums: dict[str, tf.Tensor]
    """Sums over ranks, float32 scalars by the names in `SUMS`."""
    norm: tf.Tensor
    """Norm of all gradients if all were checked. Otherwise only whether it is finite has a
    meaning."""
    finite: tf.Tensor
    """False if a gradient of any rank overflowed, so that this step must be skipped."""
    leave: tf.Tensor
    """True if any rank asked for a stop or a pause."""


class AllReduce:
    """Sums gradients, batch-norm statistics, counts and requests to leave the loop over ranks.

    Each rank's loss is already divided by the global batch, so the sum of gradients is their mean
    over all images. The moving statistics are averaged: every rank starts a step from the same
    ones, so this equals moving them by the mean of the ranks' batch statistics, and the state of
    all ranks stays the same to the bit.

    The check for finite numbers costs next to nothing: it reads the gradient of the first layer,
    which depends on the whole backward pass, and all gradients only on request. A value elsewhere
    that is not finite makes the loss of the next step non-finite. With a loss scale, the sums
    include whether a gradient overflowed, so that the step can be skipped. Only when float16 is
    sent is overflow checked, and the scale removed, after the all-reduce (`unscale_after`).

    The last gradients may be those of variables of which ranks hold parts (`divided`, their
    number): they are summed over the ranks that hold the same part.
    """

    def __init__(
        self,
        communicator: Communicator,
        moving: Sequence[tf.Variable],
        *,
        unscale_after: bool,
        divided: int = 0,
        device: str | None = None,
    ) -> None:
        """Args:
        communicator: World of ranks.
        moving: Moving statistics of batch norm.
        unscale_after: Whether gradients arrive with the loss scale.
        divided: How many of the last gradients are of parts that other ranks hold as well, but not
            all ranks.
        device: Device that sums over ranks, of those of this rank; None leaves the choice to
            TensorFlow.
        """
        self._device = device
        self._communicator, self._moving = communicator, list(moving)
        self._unscale_after, self._divided = unscale_after, divided

    def reduce(
        self,
        gradients: list[tf.Tensor],
        sums: list[tf.Tensor],
        scale: tf.Tensor,
        check_all: tf.Tensor,
    ) -> Reduced:
        """Sum over all ranks, inside a graph.

        Args:
            gradients: Gradients of this rank's part of the loss; times the scale if
                `unscale_after`.
            sums: This rank's part of `SUMS`, float32 scalars.
            scale: Loss scale, a float32 scalar.
            check_all: Bool scalar, whether to check all gradients in any case. A request to leave
                implies it, because a save follows.
        """
        moving: list[tf.Tensor] = []
        norm: tf.Tensor | None = None
        if self._communicator.size > 1:
            flat = [tf.reshape(variable, [-1]) for variable in self._moving]
            with tf.device(self._device):
                gradients, extras, norm = self._exchange(
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
        if norm is None:
            if len(gradients) == self._divided:
                # The first gradient is a part as well, of which other ranks hold others.
                check_all = tf.constant(value=True)
            norm = tf.cond(
                check_all | leave,
                lambda: self._norm(gradients),
                # One operation instead of the four of a norm, and finite in the same cases.
                lambda: tf.nn.l2_loss(gradients[0]),
            )
        return Reduced(gradients, moving, named, norm, named["overflow"] <= 0, leave)

    def _exchange(
        self, gradients: list[tf.Tensor], extras: tf.Tensor
    ) -> tuple[list[tf.Tensor], tf.Tensor, tf.Tensor | None]:
        """Return the sums of gradients and extras over ranks, and the norm of all gradients if
        it is known.
        """
        whole, parts = self._split(gradients)
        whole, extras = self._communicator.allreduce(whole, extras)
        if parts:
            parts = self._communicator.holders.sum(parts, "parts")
        return [*whole, *parts], extras, None

    def _split(self, gradients: list[tf.Tensor]) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        """Return the gradients of whole variables, and those of parts."""
        whole = len(gradients) - self._divided
        return gradients[:whole], gradients[whole:]

    def _norm(self, gradients: list[tf.Tensor]) -> tf.Tensor:
        whole, parts = self._split(gradients)
        if not parts:
            return tf.linalg.global_norm(whole)
        # Over the world, where each part occurs equally often, and not over the ranks that share
        # the parts: so the result is the same on all ranks to the bit.
        squares = tf.linalg.global_norm(parts) ** 2
        (total,) = self._communicator.everyone.sum([squares], "norm_of_parts")
        copies = self._communicator.size // self._communicator.sharers.size
        return tf.linalg.global_norm([*whole, tf.sqrt(total / copies)])

    def assign_moving(self, moving: Sequence[tf.Tensor]) -> None:
        """Assign batch norm's moving statistics, if there are any."""
        if moving:
            for variable, value in zip(self._moving, moving, strict=True):
                variable.assign(value)
