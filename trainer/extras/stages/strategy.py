"""A network whose layers are divided over the devices of a rank, its stages, and micro-batches that
are in several stages at once.
"""

from collections.abc import Sequence
from typing import Any, Self

import tensorflow as tf
import tf_keras as keras

from trainer.diagnostics.device import rank_devices
from trainer.extras.stages.leaf import StagesOptions
from trainer.extras.stages.partition import after_inputs, build_divided
from trainer.updates.gradients import MicroBatchGradients, Sums, Tape
from trainer.updates.strategy import Differentiate, Strategy, added


class Stages(Strategy):
    """See `Strategy`; the variables and operations of each layer are on the device of its stage."""

    compiles = False

    def network(self, classes: int) -> keras.Model:
        """See `Strategy.network`."""
        self._devices = rank_devices(self._config.of(StagesOptions).count)
        # Horovod uses one GPU of a process.
        self.device = self._devices[0]
        build, size = super().network, self._config.model.image_size
        return build_divided(lambda: build(classes), self._devices, size)

    def gradients(
        self,
        compute: MicroBatchGradients,
        batch: dict[str, tf.Tensor],
        scale: tf.Tensor,
        step: tf.Tensor | None = None,
    ) -> Sums:
        """See `Strategy.gradients`; operations run where they belong."""
        with after_inputs(self._devices):
            return super().gradients(compute, batch, scale, step)

    def accumulated(
        self, differentiate: Differentiate, batch: dict[str, tf.Tensor], step: tf.Tensor | None
    ) -> Sums:
        """See `Strategy.accumulated`; micro-batches are in several stages at once."""
        pieces = self._config.optimizer.accumulation
        return pipelined(differentiate, batch, step, pieces, self._devices)

    def tape(self) -> Tape:
        """See `Strategy.tape`."""
        return ColocatedTape()


def pipelined(
    differentiate: Differentiate,
    batch: dict[str, tf.Tensor],
    step: tf.Tensor | None,
    pieces: int,
    devices: Sequence[str],
) -> Sums:
    """Add up gradients and sums of micro-batches, inside a graph.

    The graph contains every micro-batch, so TensorFlow computes one in a stage while others are in
    other stages (Huang et al. 2019, "GPipe"). Each waits for the gradients of the one that is as
    many before it as there are stages: that keeps all stages at work, and the activations of no
    more micro-batches in memory (1F1B; Narayanan et al. 2019, "PipeDream"). They are added in their
    order, so repeated results are bit-identical.

    Args:
        differentiate: Returns gradients and sums of a micro-batch, given its part of the batch, the
            step, and its number.
        batch: Tensors of the rank's batch by name.
        step: Steps done, int64 scalar; None if nothing is random.
        pieces: Number of micro-batches.
        devices: Device of each stage.

    Returns:
        The gradients, each on the device that it is computed on, and the sums.
    """
    split = {key: tf.reshape(value, [pieces, -1, *value.shape[1:]]) for key, value in batch.items()}
    ended: list[Sums] = []
    for number in range(pieces):
        earlier = number - len(devices)
        barrier = [tf.group(*ended[earlier][0])] if earlier >= 0 else []
        # Random numbers follow from the step, and could else be drawn long before they are needed.
        with tf.device(devices[0]), tf.control_dependencies(barrier):
            piece = {key: tf.identity(value[number]) for key, value in split.items()}
            begun = None if step is None else tf.identity(step)
        result = differentiate(piece, begun, number)
        if ended:
            gradients, sums = map(added, ended[-1], result)
            result = gradients, sums
        ended.append(result)
    return ended[-1]


class ColocatedTape:
    """Differentiates in place of a `tf.GradientTape`, inside graphs: what belongs to an operation
    in the backward pass runs on its device. With a tape TensorFlow chooses the device, and that is
    the first one.
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Do nothing, because nothing was recorded."""

    def watch(self, sources: Any) -> None:
        """Do nothing, because a graph holds all that it takes to differentiate."""

    def gradient(self, target: tf.Tensor, sources: Sequence[tf.Variable]) -> list[tf.Tensor]:
        """Return the derivatives of a scalar by variables."""
        gradients: list[tf.Tensor] = tf.compat.v1.gradients(
            target, list(sources), colocate_gradients_with_ops=True
        )
        return gradients
