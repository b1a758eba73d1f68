"""The interface between the pipeline and the targets that records hold with an image."""

from functools import cache
from typing import Protocol

import tensorflow as tf

from common.program import load
from trainer.data.formats.record_format import Values
from trainer.data.source import Source
from trainer.leaves import TASKS


class TargetDecoder(Protocol):
    """Turns records into inputs and targets. All methods but `fault` are called inside graphs."""

    def parse(self, values: Values, source: Source) -> tuple[tf.Tensor, tf.Tensor]:
        """Parse records together, which costs less than one by one.

        Args:
            values: Tensors of the records' values, of any shape, as their format reads them.
            source: Split that the records are from.

        Returns:
            Their encoded images, and the values that are stored with them, as tensors of the same
            shape.
        """

    def training(
        self, encoded: tf.Tensor, stored: tf.Tensor, source: Source, position: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Decode and augment a record, depending only on its position.

        Args:
            encoded: The encoded image, a string scalar.
            stored: The value that the record holds with it, a scalar as `parse` returns it.
            source: Split that the record is from.
            position: Position in the endless sequence of training examples, an int64 scalar.

        Returns:
            The image, uint8 [size, size, 3], and its target.
        """

    def evaluation(
        self, encoded: tf.Tensor, stored: tf.Tensor, source: Source
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Decode the central square of a record's image, and the target for it."""

    def blank(self, source: Source) -> tf.Tensor:
        """Return the target of an example that does not count."""

    def random(
        self, numbers: tf.random.Generator, batch_size: int, image_size: int, classes: int
    ) -> tf.Tensor:
        """Return the targets of a batch of synthetic data."""

    def fault(self, values: Values, source: Source) -> str | None:
        """Return the fault of a record, given its values as tensors, or None.

        Raises:
            tensorflow.errors.OpError: The record cannot be decoded.
        """


@cache
def target_decoder(task: str) -> TargetDecoder:
    """Load the decoder of the targets of a task, by its name."""
    decoder: TargetDecoder = load(TASKS[task].targets)()
    return decoder
