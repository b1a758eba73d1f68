"""The state of the optimizer divided over ranks: stage 1 of ZeRO (Rajbhandari et al. 2020).

All parameters form one flat vector, padded and cut into equal parts, one for each rank. In a step,
a rank gets the sum of its part of the gradients (reduce-scatter), updates its part of the weights
with its part of the state, and all parts are put together again (all-gather). A variable may lie on
several ranks, and a rank usually has a part of several variables.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import tensorflow as tf

from trainer.checkpoints.divided import DividedState
from trainer.checkpoints.format import Array, Tensors
from trainer.config import OptimizerConfig, TrainConfig
from trainer.distributed.communicator import Communicator
from trainer.networks import layer_factor
from trainer.updates.optimizer import Parameter, build_optimizer, parameters
from trainer.updates.strategy import Strategy


@dataclass(frozen=True)
class Piece:
    """What one rank updates of a variable."""

    number: int
    """Number of the variable."""
    begin: int
    """First of its elements, in flat order."""
    end: int
    """The element after the last."""


def cut(sizes: Sequence[int], ranks: int) -> list[list[Piece]]:
    """Cut a flat vector of variables into one part for each rank, all equal but for the padding at
    the end.

    Args:
        sizes: Elements of each variable.
        ranks: World size.

    Returns:
        The pieces of each rank, in flat order.
    """
    ends = list(accumulate(sizes))
    part = part_size(sizes, ranks)
    return [
        [
            Piece(
                number, max(part * rank - end + size, 0), min(part * (rank + 1) - end + size, size)
            )
            for number, (size, end) in enumerate(zip(sizes, ends, strict=True))
            if end - size < part * (rank + 1) and part * rank < end
        ]
        for rank in range(ranks)
    ]


def part_size(sizes: Sequence[int], ranks: int) -> int:
    """Return the number of elements of each rank's part, padding included."""
    return -(-sum(sizes) // ranks)


class ShardedOptimizer:
    """Any optimizer of `OPTIMIZERS`, of whose state each rank has a part; see `Optimizer` and
    `DividedState`.
    """

    def __init__(
        self,
        variables: Sequence[tf.Variable],
        config: OptimizerConfig,
        communicator: Communicator,
        factor: Callable[[str], float],
    ) -> None:
        """Args:
        variables: Variables to train, whole on every rank.
        config: Which optimizer, and its settings.
        communicator: World of ranks.
        factor: See `parameters`.

        Raises:
            ConfigError: `rates` names no layer.
        """
        self._group = communicator.everyone
        self._parameters = parameters(variables, config.rates, factor)
        sizes = [int(np.prod(variable.shape)) for variable in variables]
        self._part = part_size(sizes, self._group.size)
        self._sizes = sizes
        self._pieces = cut(sizes, self._group.size)[self._group.index]
        # They are filled before each update, so restored or broadcast values need no copy.
        self._weights = [
            tf.Variable(tf.zeros([piece.end - piece.begin]), trainable=False, name=f"part{number}")
            for number, piece in enumerate(self._pieces)
        ]
        parts = [
            Parameter(weight, whole.name, whole.kernel, whole.rate)
            for weight, whole in zip(self._weights, self._wholes(), strict=True)
        ]
        self._optimizer = build_optimizer(parts, config, self._total)

    @property
    def groups(self) -> tuple[str, ...]:
        """See `Optimizer.groups`."""
        return self._optimizer.groups

    @property
    def state(self) -> dict[str, tf.Variable]:
        """Variables of the optimizer that are the same on all ranks, by name."""
        mine = {f"{group}/{whole.name}" for group in self.groups for whole in self._wholes()}
        return {
            name: variable for name, variable in self._optimizer.state.items() if name not in mine
        }

    @property
    def bytes(self) -> int:
        """Bytes of the state on this rank, with its part of the weights."""
        variables = [*self._weights, *self._optimizer.state.values()]
        return sum(int(np.prod(variable.shape)) * variable.dtype.size for variable in variables)

    def scatter_sum(self, gradients: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Sum gradients over ranks; return this rank's part, one tensor for each piece."""
        padding = tf.zeros([self._part * self._group.size - sum(self._sizes)])
        flat = tf.concat([*(tf.reshape(gradient, [-1]) for gradient in gradients), padding], 0)
        part = self._group.scatter_sum(flat, "sharded_gradients")
        return self._split(part)

    def apply(self, gradients: Sequence[tf.Tensor], learning_rate: tf.Tensor) -> None:
        """Update all variables.

        Args:
            gradients: What `scatter_sum` returns.
            learning_rate: float32 scalar.
        """
        for weight, piece, whole in zip(self._weights, self._pieces, self._wholes(), strict=True):
            weight.assign(tf.reshape(whole.variable, [-1])[piece.begin : piece.end])
        self._optimizer.apply(gradients, learning_rate)
        flat = self._group.join(self._padded(self._weights), "sharded_weights")
        values = tf.split(flat[: sum(self._sizes)], self._sizes)
        for parameter, value in zip(self._parameters, values, strict=True):
            parameter.variable.assign(tf.reshape(value, parameter.variable.shape))

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """See `DividedState.shapes`."""
        return {
            f"{group}/{parameter.name}": tuple(parameter.variable.shape)
            for group in self.groups
            for parameter in self._parameters
        }

    def gather(self) -> Tensors:
        """See `DividedState.gather`."""
        tensors: Tensors = {}
        for group in self.groups:
            # From the host, so that a GPU needs no memory for the parts of others.
            with tf.device("CPU:0"):
                mine = self._padded(self._slots(group))
                flat = self._group.to_first(mine, f"gather_{group}").numpy()
            if self._group.index == 0:
                tensors |= self._named(group, flat)
        return tensors

    def scatter(self, tensors: Tensors) -> None:
        """See `DividedState.scatter`."""
        for group in self.groups:
            flat = np.zeros([0], np.float32)
            if self._group.index == 0:
                wholes = [
                    tensors[f"{group}/{parameter.name}"].reshape(-1)
                    for parameter in self._parameters
                ]
                flat = np.concatenate(wholes)
                flat = np.pad(flat, (0, self._part * self._group.size - len(flat)))
            rows = [self._part] * self._group.size
            with tf.device("CPU:0"):
                part = self._group.from_first(tf.constant(flat), rows, f"scatter_{group}")
            for slot, value in zip(self._slots(group), self._split(part), strict=True):
                slot.assign(value)

    def _wholes(self) -> Iterator[Parameter]:
        """Iterate over the whole parameters of this rank's pieces."""
        return (self._parameters[piece.number] for piece in self._pieces)

    def _slots(self, group: str) -> list[tf.Variable]:
        state = self._optimizer.state
        return [state[f"{group}/{whole.name}"] for whole in self._wholes()]

    def _split(self, part: tf.Tensor) -> list[tf.Tensor]:
        """Divide a part into its pieces, and leave out the padding."""
        lengths = [piece.end - piece.begin for piece in self._pieces]
        return list(tf.split(part[: sum(lengths)], lengths)) if lengths else []

    def _padded(self, pieces: Sequence[tf.Variable]) -> tf.Tensor:
        length = sum(int(piece.shape[0]) for piece in pieces)
        return tf.concat([*pieces, tf.zeros([self._part - length])], 0)

    def _named(self, group: str, flat: Array) -> Tensors:
        """Return the whole tensors of a group of slots, which `flat` has one after the other."""
        ends = list(accumulate(self._sizes))
        return {
            f"{group}/{parameter.name}": flat[end - size : end].reshape(parameter.variable.shape)
            for parameter, size, end in zip(self._parameters, self._sizes, ends, strict=True)
        }

    def _total(self, sums: tf.Tensor) -> tf.Tensor:
        """Return the sums of squares of whole kernels; see `Lars`."""
        numbers = [piece.number for piece in self._pieces if self._parameters[piece.number].kernel]
        places = tf.one_hot(tf.constant(numbers, tf.int32), len(self._parameters))
        (total,) = self._group.sum([sums @ places], "sharded_norms")
        return tf.gather(total, tf.constant(numbers, tf.int32), axis=1)


class ShardedState(Strategy):
    """As `Strategy`, but a rank gets only the gradients that it updates with."""

    def _optimizer(self, variables: Sequence[tf.Variable]) -> ShardedOptimizer:
        config = self._config
        self._sharded = ShardedOptimizer(
            variables, config.optimizer, self._world, layer_factor(config)
        )
        return self._sharded

    def parts(self, variables: Mapping[str, tf.Variable]) -> Sequence[DividedState]:
        """See `Strategy.parts`."""
        del variables
        return (self._sharded,)

    def exchanged(
        self, gradients: list[tf.Tensor], extras: tf.Tensor
    ) -> tuple[list[tf.Tensor], tf.Tensor, tf.Tensor | None]:
        """See `Strategy.exchanged`. The norm is summed with the extras, because a rank knows only
        its part of it, and all must decide alike whether it is finite.
        """
        part = self._sharded.scatter_sum(gradients)
        squares = (
            2.0 * tf.add_n([tf.nn.l2_loss(gradient) for gradient in part])
            if part
            else tf.constant(0.0)
        )
        (sums,) = self._world.everyone.sum([tf.concat([extras, [squares]], 0)], "extras")
        return part, sums[:-1], tf.sqrt(sums[-1])


def sharded_state(
    config: TrainConfig, classes: int, world: Communicator, total_steps: int
) -> Strategy:
    """Return the strategy of a run; that of a single rank has nothing to divide."""
    made = ShardedState if world.size > 1 else Strategy
    return made(config, classes, world, total_steps)
