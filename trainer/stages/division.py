"""A network whose layers are divided over the devices of a rank."""

from contextlib import AbstractContextManager

import tensorflow as tf
import tf_keras as keras

from trainer.diagnostics.device import rank_devices
from trainer.stages.leaf import StagesOptions
from trainer.stages.partition import after_inputs, build_divided
from trainer.stages.pipeline import ColocatedTape, pipelined
from trainer.updates.division import Division, MicroBatch, Sums, Tape


class Stages(Division):
    """See `Division`; the variables and operations of each layer are on the device of its stage."""

    compiles = False

    def _build(self, classes: int) -> keras.Model:
        self._devices = rank_devices(self._config.of(StagesOptions).count)
        # Horovod uses one GPU of a process.
        self.device = self._devices[0]
        build, size = super()._build, self._config.model.image_size
        return build_divided(lambda: build(classes), self._devices, size)

    def placed(self) -> AbstractContextManager[None]:
        """See `Division.placed`."""
        return after_inputs(self._devices)

    def tape(self) -> Tape:
        """See `Division.tape`."""
        return ColocatedTape()

    def accumulated(
        self, compute: MicroBatch, batch: dict[str, tf.Tensor], step: tf.Tensor | None, pieces: int
    ) -> Sums:
        """See `Division.accumulated`; micro-batches are in several stages at once."""
        return pipelined(compute, batch, step, pieces, self._devices)
