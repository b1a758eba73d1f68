"""How the network of a run is divided: the interface, and the network that is whole everywhere."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, Protocol

import tensorflow as tf
import tf_keras as keras

from trainer.checkpoints.divided import DividedState
from trainer.config import TrainConfig
from trainer.distributed.communicator import Communicator
from trainer.model.build import build_model
from trainer.tasks.task import Task

Sums = tuple[list[tf.Tensor], list[tf.Tensor]]
"""Gradients of the trained variables, and scalars that are added up with them."""
SCALARS: Final = 4
"""Those of a micro-batch: its loss, the training metric, its images, and the loss without smoothing
and weights."""
MicroBatch = Callable[[dict[str, tf.Tensor], tf.Tensor | None, tf.Tensor | int], Sums]
"""Differentiates a micro-batch, given its part of the batch, the steps done and its number."""


WholeBatch = Callable[[dict[str, tf.Tensor], tf.Tensor | None, tf.Tensor | int], Sums]
"""Differentiates a batch, given the batch, the steps done and the number of its rank."""


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


class Division:
    """A network that is whole on every rank, and on one device. A leaf that divides it derives from
    this class.
    """

    device: str | None = None
    """Device that sums over ranks, of those of this rank; None leaves the choice to TensorFlow."""
    compiles = True
    """Whether forward and backward pass are compiled as one function, whose results would all go to
    the first device."""
    keeps_last_layer = False
    """Whether the last layer keeps its own weights if the others start from a file."""
    more_flops = 0.0
    """Operations of a step for each image of this rank, in addition to those of `model`."""
    model: keras.Model
    """The network on this rank."""

    def __init__(self, config: TrainConfig, classes: int, communicator: Communicator) -> None:
        """Build the network with its initial weights.

        Args:
            config: Configuration of the run.
            classes: Classes of the data set.
            communicator: World of ranks.

        Raises:
            ConfigError: The network cannot be built, or cannot be divided; says why.
        """
        self._config, self._world = config, communicator
        self.model = self._build(classes)

    def _build(self, classes: int) -> keras.Model:
        config = self._config
        return build_model(
            config.model, classes, config.compute.precision, config.seed, config.task
        )

    def task(self, task: Task) -> Task:
        """Return the task of this network, given that of the whole one."""
        return task

    def parts(self, variables: Mapping[str, tf.Variable]) -> Sequence[DividedState]:
        """Return those of the variables by name of which ranks hold parts."""
        del variables
        return ()

    def total(self, squares: tf.Tensor) -> tf.Tensor:
        """Complete sums of squares of kernels; see `Lars`."""
        return squares

    # The forward and backward pass.

    def placed(self) -> AbstractContextManager[None]:
        """Return a context in which operations run where they belong."""
        return nullcontext()

    def tape(self) -> Tape:
        """Return what differentiates the loss."""
        tape: Tape = tf.GradientTape(watch_accessed_variables=False)
        return tape

    def local(
        self,
        compute: WholeBatch,
        batch: dict[str, tf.Tensor],
        step: tf.Tensor | None,
        rank: int,
    ) -> Sums:
        """Return a rank's part of gradients and sums, inside a graph. If it takes several batches
        per step, the moving statistics of batch norm hold the sums of theirs afterwards.

        Args:
            compute: Differentiates a batch.
            batch: Tensors of what the rank takes, by name.
            step: Steps done, int64 scalar; None if nothing is random.
            rank: Number of the rank.
        """
        return compute(batch, step, rank)

    def accumulated(
        self, compute: MicroBatch, batch: dict[str, tf.Tensor], step: tf.Tensor | None, pieces: int
    ) -> Sums:
        """Add up gradients and sums of micro-batches, inside a graph.

        Args:
            compute: Differentiates a micro-batch.
            batch: Tensors of the rank's batch by name.
            step: Steps done, int64 scalar; None if nothing is random.
            pieces: Number of micro-batches.
        """
        if pieces == 1:
            return compute(batch, step, 0)
        split = {
            key: tf.reshape(value, [pieces, -1, *value.shape[1:]]) for key, value in batch.items()
        }

        def body(number: tf.Tensor, *before: list[tf.Tensor]) -> tuple[Any, ...]:
            piece = {key: value[number] for key, value in split.items()}
            more = compute(piece, step, number)
            return number + 1, *map(added, before, more)

        zeros = [tf.zeros_like(weight) for weight in self.model.trainable_variables]
        _, gradients, sums = tf.while_loop(
            lambda number, *_: number < pieces,
            body,
            (tf.constant(0), zeros, [tf.constant(0.0)] * SCALARS),
            parallel_iterations=1,
        )
        return gradients, sums

    # The exchange.

    def summed(
        self, gradients: list[tf.Tensor], extras: tf.Tensor
    ) -> tuple[list[tf.Tensor], tf.Tensor]:
        """Sum gradients and one flat float32 vector over all ranks that hold the same variables."""
        return self._world.allreduce(gradients, extras)

    def norm(self, gradients: list[tf.Tensor]) -> tf.Tensor:
        """Return the norm of the summed gradients of the whole network."""
        return tf.linalg.global_norm(gradients)

    def probe(self, gradients: list[tf.Tensor]) -> tf.Tensor:
        """Return a number that is finite if the backward pass was, on all ranks alike.

        It reads the gradient of the first layer, which depends on the whole backward pass: one
        operation instead of the four of a norm.
        """
        return tf.nn.l2_loss(gradients[0])


def added(left: list[tf.Tensor], right: list[tf.Tensor]) -> list[tf.Tensor]:
    """Add up tensors in pairs."""
    return [a + b for a, b in zip(left, right, strict=True)]
