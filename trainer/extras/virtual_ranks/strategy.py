"""Steps whose bits do not depend on the number of ranks.

Virtual rank v of V takes the positions of the data that leave v when divided by V, and computes
its gradients with a batch norm and random numbers of its own. Rank r of N computes the virtual
ranks r, r + N, r + 2 N, ... one after the other. All V are then added up in one binary tree, whose
levels pair the numbers that differ in their highest bit first: v and v + V/2, then v and v + V/4,
and so on. So the pairs of the first levels are inside a rank, and those of the others between
ranks; both add the same numbers in the same order.
"""

from collections.abc import Sequence

import tensorflow as tf

from trainer.distributed.communicator import Group
from trainer.updates.gradients import SCALARS, MicroBatchGradients, Sums
from trainer.updates.strategy import Strategy

_SCALARS = SCALARS + 1
"""Scalars that a batch returns besides its gradients; see `Strategy.gradients`."""


class VirtualRanks(Strategy):
    """A whole network that a rank computes for several virtual ranks; see `Strategy`."""

    def gradients(
        self,
        compute: MicroBatchGradients,
        batch: dict[str, tf.Tensor],
        scale: tf.Tensor,
        step: tf.Tensor | None = None,
    ) -> Sums:
        """See `Strategy.gradients`. Every virtual rank starts from the moving statistics with which
        the step begins.
        """
        world, weights = self._world, self.model.trainable_variables
        count = self._batches // world.size
        start = [variable.read_value() for variable in self._moving]
        # Of a known shape, without which gradients take many more operations.
        split = {
            key: tf.reshape(value, [-1, count, *value.shape[1:]]) for key, value in batch.items()
        }

        def body(turn: tf.Tensor, before: tf.TensorArray) -> tuple[tf.Tensor, tf.TensorArray]:
            for variable, value in zip(self._moving, start, strict=True):
                variable.assign(value)
            images = {key: value[:, turn] for key, value in split.items()}
            gradients, sums = self._of_batch(
                compute, images, scale, step, world.rank + turn * world.size
            )
            moved = [variable.read_value() for variable in self._moving]
            return turn + 1, before.write(turn, flat([*gradients, *moved, *sums]))

        shapes = [
            *(tensor.shape for tensor in (*weights, *self._moving)),
            *[tf.TensorShape([])] * _SCALARS,
        ]
        size = sum(shape.num_elements() for shape in shapes)
        # A loop also for a single turn, so that each is computed by the same graph.
        _, rows = tf.while_loop(
            lambda turn, _: turn < count,
            body,
            (tf.constant(0), tf.TensorArray(tf.float32, count, element_shape=[size])),
            parallel_iterations=1,
        )
        totals = unflattened(tree_sum(rows.stack()), shapes)
        gradients, moved = totals[: len(weights)], totals[len(weights) : -_SCALARS]
        for variable, total in zip(self._moving, moved, strict=True):
            variable.assign(total)
        return gradients, totals[-_SCALARS:]

    def exchanged(
        self, gradients: list[tf.Tensor], extras: tf.Tensor
    ) -> tuple[list[tf.Tensor], tf.Tensor, tf.Tensor | None]:
        """See `Strategy.exchanged`."""
        group = self._world.everyone
        if group.size == 1:
            return gradients, extras, None
        if group.size == 2:
            # A sum of two does not depend on their order.
            return super().exchanged(gradients, extras)
        *gradients, extras = over_ranks(group, [*gradients, extras])
        return gradients, extras, None


def over_ranks(group: Group, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Add up tensors over ranks in the tree: each rank adds up one part of all of them, and gets
    the sums of the others, which are as many bytes as in a ring.

    Args:
        group: Ranks, a power of two.
        tensors: Summands of this rank, float32 of any shapes.
    """
    whole = flat(tensors)
    size = int(whole.shape[0])
    padded = tf.pad(whole, [[0, -size % group.size]])
    part = tf.reshape(group.swap(padded, "virtual_parts"), [group.size, -1])
    total = group.join(tree_sum(part), "virtual_sums")
    return unflattened(total[:size], [tensor.shape for tensor in tensors])


def flat(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    """Join tensors of any shapes in one, of one axis: what follows then takes an operation in place
    of one for each of them.
    """
    return tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], 0)


def unflattened(joined: tf.Tensor, shapes: Sequence[tf.TensorShape]) -> list[tf.Tensor]:
    """Divide what `flat` has joined into tensors of their shapes."""
    pieces = tf.split(joined, [shape.num_elements() for shape in shapes])
    return [tf.reshape(piece, shape) for piece, shape in zip(pieces, shapes, strict=True)]


def tree_sum(stacked: tf.Tensor) -> tf.Tensor:
    """Add up a power of two of tensors along axis 0, the number n with n + half of their count,
    until one is left.

    It adds halves of one tensor, because TensorFlow's optimizer of graphs turns a tree of additions
    of several tensors into a single operation with another order.
    """
    count = int(stacked.shape[0])
    while count > 1:
        count //= 2
        stacked = stacked[:count] + stacked[count:]
    return stacked[0]
