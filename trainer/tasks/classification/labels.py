"""One class per image."""

import tensorflow as tf

from trainer.data import images
from trainer.data.formats.record_format import LABEL, Values
from trainer.data.source import Source


class Labels:
    """Targets are labels, int32 scalars that count from 0."""

    def parse(self, values: Values, source: Source) -> tuple[tf.Tensor, tf.Tensor]:
        """See `TargetDecoder.parse`: images and labels."""
        encoded, stored = source.format.parse(values, LABEL)
        label = stored - source.first_label
        in_range = images.require(
            tf.reduce_all((label >= 0) & (label < source.classes)), ["label out of range", stored]
        )
        with tf.control_dependencies([in_range]):
            return encoded, tf.cast(label, tf.int32)

    def training(
        self, encoded: tf.Tensor, stored: tf.Tensor, source: Source, position: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """See `TargetDecoder.training`."""
        return images.training_image(encoded, source, position), stored

    def evaluation(
        self, encoded: tf.Tensor, stored: tf.Tensor, source: Source
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """See `TargetDecoder.evaluation`."""
        return images.evaluation_image(encoded, source), stored

    def blank(self, source: Source) -> tf.Tensor:
        """See `TargetDecoder.blank`."""
        del source
        return tf.constant(0)

    def random(
        self, numbers: tf.random.Generator, batch_size: int, image_size: int, classes: int
    ) -> tf.Tensor:
        """See `TargetDecoder.random`."""
        del image_size
        return numbers.uniform([batch_size], 0, classes, tf.int32)

    def fault(self, values: Values, source: Source) -> str | None:
        """See `TargetDecoder.fault`."""
        encoded, label = source.format.parse(values, LABEL)
        first = source.first_label
        if not first <= int(label) < first + source.classes:
            return f"label {int(label)} is not a class, {first} to {first + source.classes - 1}"
        images.evaluation_image(encoded, source)
        return None
