"""Periodic averaging: every rank updates on its own gradients, and the ranks' states are averaged
after a fixed number of steps (local SGD; Stich 2018, "Local SGD Converges Fast and Communicates
Little").

Unlike asynchronous updates, which race, this repeats to the bit: between two averages no rank
depends on another, and every average waits for all of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import tensorflow as tf

from trainer.distributed.communicator import Communicator
from trainer.updates.allreduce import SUMS


@dataclass(frozen=True)
class Averaged:
    """Result of an average, the same on all ranks."""

    sums: dict[str, tf.Tensor]
    """Sums over ranks and over the steps since the last average, float32 scalars by the names in
    `SUMS`."""
    finite: tf.Tensor
    """Whether all losses since the last average and all averaged weights are finite."""
    leave: tf.Tensor
    """True if any rank asked for a stop or a pause."""


class Averaging:
    """Averages all variables that ranks change on their own.

    The velocities are averaged like the weights: otherwise they would point away from the averaged
    weights (Yu et al. 2019, "On the Linear Speedup Analysis of Communication Efficient Momentum SGD
    for Distributed Non-Convex Optimization"). Everything that ranks need to agree on travels with
    the weights: one grouped all-reduce for each average.
    """

    def __init__(
        self,
        communicator: Communicator,
        weights: Sequence[tf.Variable],
        others: Sequence[tf.Variable],
        device: str | None = None,
    ) -> None:
        """Args:
        communicator: World of ranks.
        weights: Variables that are trained.
        others: State of the optimizer and moving statistics. What is not of a floating-point type
            counts steps, and is the same on all ranks.
        device: Device that sums over ranks, of those of this rank; None leaves the choice to
            TensorFlow.
        """
        self._communicator, self._weights = communicator, list(weights)
        self._device = device
        self._variables = [*weights, *(one for one in others if one.dtype.is_floating)]
        with tf.device("CPU:0"):
            self._pending = tf.Variable(tf.zeros([len(SUMS) - 2]), trainable=False, name="pending")

    def own(self, gradients: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Return the mean gradients of this rank's batch.

        Args:
            gradients: This rank's part of the mean gradients of the global batch.
        """
        size = self._communicator.size
        return [gradient * size for gradient in gradients] if size > 1 else list(gradients)

    def add(self, sums: Sequence[tf.Tensor]) -> None:
        """Keep a step's sums, those of `SUMS` but the requests, until the next average."""
        self._pending.assign_add(tf.stack(sums))

    def average(self, requests: Sequence[tf.Tensor]) -> Averaged:
        """Average the state over all ranks, and sum what they have kept.

        Args:
            requests: This rank's requests to stop and to pause, float32 scalars.
        """
        size = self._communicator.size
        with tf.device(self._device):
            means, extras = self._communicator.allreduce(
                [variable.read_value() for variable in self._variables],
                tf.concat([self._pending.read_value(), tf.stack(requests)], 0),
            )
        if size > 1:
            means = [tensor / size for tensor in means]
            for variable, mean in zip(self._variables, means, strict=True):
                variable.assign(mean)
        self._pending.assign(tf.zeros_like(self._pending))
        sums = dict(zip(SUMS, tf.unstack(extras), strict=True))
        norm = tf.linalg.global_norm(means[: len(self._weights)])
        finite = tf.math.is_finite(sums["loss"] + norm)
        return Averaged(sums, finite, sums["stop"] + sums["pause"] > 0)
