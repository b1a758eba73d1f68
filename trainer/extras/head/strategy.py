"""A network whose last layer is divided by classes over groups of ranks."""

from collections.abc import Mapping, Sequence

import tensorflow as tf
import tf_keras as keras

from trainer.checkpoints.divided import DividedState
from trainer.extras.head.classification import DividedClassification
from trainer.extras.head.last_layer import DividedHead
from trainer.extras.head.leaf import HeadOptions
from trainer.tasks.task import Task
from trainer.updates.strategy import Strategy


class HeadGroups(Strategy):
    """See `Strategy`; the model ends before its last layer, whose variables are its last ones."""

    keeps_last_layer = True

    def network(self, classes: int) -> keras.Model:
        """See `Strategy.network`."""
        groups = self._config.of(HeadOptions).groups
        self._head = DividedHead(super().network(classes // groups), self._world, groups)
        self._head.initialize()
        self.more_flops = self._head.flops_of_others
        return self._head.network

    def task(self, task: Task) -> Task:
        """See `Strategy.task`."""
        del task
        return DividedClassification(self._head)

    def parts(self, variables: Mapping[str, tf.Variable]) -> Sequence[DividedState]:
        """See `Strategy.parts`."""
        return (self._head.state(variables),)

    def total(self, squares: tf.Tensor) -> tf.Tensor:
        """See `Strategy.total`."""
        return self._head.total(squares)

    def exchanged(
        self, gradients: list[tf.Tensor], extras: tf.Tensor
    ) -> tuple[list[tf.Tensor], tf.Tensor, tf.Tensor | None]:
        """See `Strategy.exchanged`."""
        whole, parts = self._split(gradients)
        whole, extras = self._world.allreduce(whole, extras)
        if parts:
            parts = self._head.holders.sum(parts, "parts")
        return [*whole, *parts], extras, None

    def norm(self, gradients: list[tf.Tensor]) -> tf.Tensor:
        """See `Strategy.norm`."""
        whole, parts = self._split(gradients)
        if not parts:
            return tf.linalg.global_norm(whole)
        # Over the world, where each part occurs equally often, and not over the ranks that share
        # the parts: so the result is bit-identical on all ranks.
        squares = tf.linalg.global_norm(parts) ** 2
        (total,) = self._world.everyone.sum([squares], "norm_of_parts")
        copies = self._world.size // self._head.group.size
        return tf.linalg.global_norm([*whole, tf.sqrt(total / copies)])

    def probe(self, gradients: list[tf.Tensor]) -> tf.Tensor:
        """See `Strategy.probe`."""
        # If the first gradient is a part as well, other ranks have others.
        whole, _ = self._split(gradients)
        return super().probe(gradients) if whole else self.norm(gradients)

    def _split(self, gradients: list[tf.Tensor]) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        """Return the gradients of whole variables, and those of parts."""
        whole = len(gradients) - len(self._head.trained)
        return gradients[:whole], gradients[whole:]
