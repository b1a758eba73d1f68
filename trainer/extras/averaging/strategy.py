"""Periodic averaging: every rank updates on its own gradients, and the ranks' states are averaged
after a fixed number of steps (local SGD; Stich 2018, "Local SGD Converges Fast and Communicates
Little").

Unlike asynchronous updates, which race, this is bit-identical each time: between two averages no
rank depends on another, and every average waits for all of them.
"""

import tensorflow as tf

from trainer.config import TrainConfig
from trainer.distributed.communicator import Communicator
from trainer.extras.averaging.leaf import AveragingOptions, summed_steps
from trainer.updates.strategy import SUMS, LocalStep, Step, StepPlace, Strategy

_COUNTED = len(SUMS) - 2
"""Sums that are kept until the next average: all but the requests to leave."""


class Averaging(Strategy):
    """Sums the gradients of the first steps; then averages all variables that ranks change on their
    own.

    The velocities are averaged like the weights: otherwise they would point away from the averaged
    weights (Yu et al. 2019, "On the Linear Speedup Analysis of Communication Efficient Momentum SGD
    for Distributed Non-Convex Optimization"). Everything that ranks need to agree on travels with
    the weights: one grouped all-reduce for each average.
    """

    def __init__(
        self, config: TrainConfig, classes: int, world: Communicator, total_steps: int
    ) -> None:
        """See `Strategy`."""
        super().__init__(config, classes, world, total_steps)
        options = config.of(AveragingOptions)
        self._every, self._summed = options.every, summed_steps(options, total_steps)
        # State of the optimizer that is not of a floating-point type counts steps, and is the same
        # on all ranks.
        others = [*self.state.values(), *self._moving]
        self._weights = self.model.trainable_variables
        self._averaged = [
            *self._weights,
            *(variable for variable in others if variable.dtype.is_floating),
        ]
        with tf.device("CPU:0"):
            self._pending = tf.Variable(tf.zeros([_COUNTED]), trainable=False, name="pending")

    def update(self, local: LocalStep, rate: tf.Tensor, place: StepPlace) -> Step:
        """See `Strategy.update`."""
        if not self._summed:
            return self._own(local, rate, place)
        together = super().update
        result: Step = tf.cond(
            place.step < self._summed,
            lambda: together(local, rate, place),
            lambda: self._own(local, rate, place),
        )
        return result

    def _own(self, local: LocalStep, rate: tf.Tensor, place: StepPlace) -> Step:
        """Update by this rank's own gradients, then average over ranks if it is time."""
        size, overflow = self._world.size, local.sums[3]
        gradients = (
            [gradient * size for gradient in local.gradients] if size > 1 else local.gradients
        )
        self.loss_scale.guard(
            overflow <= 0,
            lambda: self.optimizer.apply(gradients, rate),
            lambda: self._assign(local.before),
        )
        self._pending.assign_add(tf.stack(local.sums[:_COUNTED]))
        done = place.step + 1
        due = (done % self._every == 0) | (done >= self._total_steps)
        norm = tf.cond(
            due,
            lambda: tf.linalg.global_norm(gradients),
            lambda: tf.nn.l2_loss(gradients[0]),
        )
        sums, bad = tf.cond(
            due,
            lambda: self._average(local),
            lambda: (tf.zeros([len(SUMS)]), tf.constant(value=False)),
        )
        # A rank leaves out updates of its own, so these are counted over ranks.
        skipped = sums[SUMS.index("overflow")]
        return Step(tf.unstack(sums), norm, skipped, bad)

    def _average(self, local: LocalStep) -> tuple[tf.Tensor, tf.Tensor]:
        """Average the state over all ranks, and sum the values that they have kept.

        Returns:
            The sums since the last average, float32 [sums], and whether a loss or an averaged
            weight is not finite.
        """
        size, requests = self._world.size, local.sums[_COUNTED:]
        with tf.device(self.device):
            means, sums = self._world.allreduce(
                [variable.read_value() for variable in self._averaged],
                tf.concat([self._pending.read_value(), tf.stack(requests)], 0),
            )
        if size > 1:
            means = [tensor / size for tensor in means]
            for variable, mean in zip(self._averaged, means, strict=True):
                variable.assign(mean)
        self._pending.assign(tf.zeros_like(self._pending))
        bad = ~tf.math.is_finite(sums[0] + tf.linalg.global_norm(means[: len(self._weights)]))
        # The scale is the same on all ranks, so it changes only with an average.
        finite = sums[SUMS.index("overflow")] <= 0
        self.loss_scale.follow(finite, self._every)
        return sums, bad | self.loss_scale.exhausted(finite, local.scale)
