"""The step of a run whose optimizer's state is divided over ranks."""

from collections.abc import Sequence

import tensorflow as tf

from trainer.checkpoints.divided import DividedState
from trainer.sharded.optimizer import ShardedOptimizer
from trainer.updates.step_rule import StepContext, StepRule, Summed


class ShardedState(Summed):
    """As `Summed`, but a rank gets only the gradients that it updates with."""

    def _optimizer(
        self, context: StepContext, variables: Sequence[tf.Variable]
    ) -> ShardedOptimizer:
        optimizer = ShardedOptimizer(variables, context.config.optimizer, context.communicator)
        self._sharded = optimizer
        return optimizer

    @property
    def parts(self) -> Sequence[DividedState]:
        """See `StepRule.parts`."""
        return (self._sharded,)

    def _exchange(
        self, gradients: list[tf.Tensor], extras: tf.Tensor
    ) -> tuple[list[tf.Tensor], tf.Tensor, tf.Tensor | None]:
        """See `Summed._exchange`. The norm is summed with the extras, because a rank knows only its
        part of it, and all must decide alike whether it is finite.
        """
        part = self._sharded.scatter_sum(gradients)
        squares = 2.0 * tf.add_n([tf.nn.l2_loss(one) for one in part]) if part else tf.constant(0.0)
        (sums,) = self._world.everyone.sum([tf.concat([extras, [squares]], 0)], "extras")
        return part, sums[:-1], tf.sqrt(sums[-1])


def sharded_state(context: StepContext) -> StepRule:
    """Return the rule of a run; that of a single rank has nothing to divide."""
    return ShardedState(context) if context.communicator.size > 1 else Summed(context)
