"""Periodic averaging: every rank updates on its own gradients, and the ranks' states are averaged
after a fixed number of steps (local SGD; Stich 2018, "Local SGD Converges Fast and Communicates
Little").

Unlike asynchronous updates, which race, this repeats to the bit: between two averages no rank
depends on another, and every average waits for all of them.
"""

from collections.abc import Sequence
from typing import cast

import tensorflow as tf

from trainer.checkpoints.divided import DividedState
from trainer.extras.averaging.leaf import Averages
from trainer.model.layers import moving_statistics
from trainer.updates.step_rule import SUMS, Flags, LocalStep, Step, StepContext, Summed

_COUNTED = len(SUMS) - 2
"""Sums that are kept until the next average: all but the requests to leave."""


class Averaging:
    """Sums the gradients of the first steps; then averages all variables that ranks change on their
    own.

    The velocities are averaged like the weights: otherwise they would point away from the averaged
    weights (Yu et al. 2019, "On the Linear Speedup Analysis of Communication Efficient Momentum SGD
    for Distributed Non-Convex Optimization"). Everything that ranks need to agree on travels with
    the weights: one grouped all-reduce for each average.
    """

    def __init__(self, context: StepContext) -> None:
        self._world, self._device = context.communicator, context.division.device
        self._loss_scale, self._averages = context.loss_scale, cast("Averages", context.exchanges)
        self._together = Summed(context)
        model = context.division.model
        self._moving = moving_statistics(model)
        # State of the optimizer that is not of a floating-point type counts steps, and is the same
        # on all ranks.
        others = [*self._together.state.values(), *self._moving]
        self._weights = model.trainable_variables
        self._averaged = [*self._weights, *(one for one in others if one.dtype.is_floating)]
        with tf.device("CPU:0"):
            self._pending = tf.Variable(tf.zeros([_COUNTED]), trainable=False, name="pending")

    @property
    def state(self) -> dict[str, tf.Variable]:
        """See `StepRule.state`."""
        return self._together.state

    @property
    def parts(self) -> Sequence[DividedState]:
        """See `StepRule.parts`."""
        return ()

    def step(self, local: LocalStep, rate: tf.Tensor, flags: Flags) -> Step:
        """See `StepRule.step`."""
        if not self._averages.summed:
            return self._own(local, rate, flags)
        result: Step = tf.cond(
            flags.step < self._averages.summed,
            lambda: self._together.step(local, rate, flags),
            lambda: self._own(local, rate, flags),
        )
        return result

    def _own(self, local: LocalStep, rate: tf.Tensor, flags: Flags) -> Step:
        """Update by this rank's own gradients, then average over ranks if it is time."""
        size, overflow = self._world.size, local.sums[3]
        gradients = [one * size for one in local.gradients] if size > 1 else local.gradients
        self._loss_scale.guard(
            overflow <= 0,
            lambda: self._together.optimizer.apply(gradients, rate),
            lambda: self._restore(local.before),
        )
        self._pending.assign_add(tf.stack(local.sums[:_COUNTED]))
        done, plan = flags.step + 1, self._averages
        due = (done % plan.every == 0) | (done >= plan.total)
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
        """Average the state over all ranks, and sum what they have kept.

        Returns:
            The sums since the last average, float32 [sums], and whether a loss or an averaged
            weight is not finite.
        """
        size, requests = self._world.size, local.sums[_COUNTED:]
        with tf.device(self._device):
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
        self._loss_scale.follow(finite, self._averages.every)
        return sums, bad | self._loss_scale.exhausted(finite, local.scale)

    def _restore(self, before: Sequence[tf.Tensor]) -> None:
        for variable, value in zip(self._moving, before, strict=True):
            variable.assign(value)
