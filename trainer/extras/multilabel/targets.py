"""Targets of a multi-label classification: whether the image has each class, uint8 [classes]."""

from typing import Final

import tensorflow as tf

from trainer.data import images
from trainer.data.formats.record_format import StoredTarget, Values
from trainer.data.source import Source
from trainer.extras.multilabel.classes import stored_fault
from trainer.extras.multilabel.leaf import MULTI_HOT

_STORED: Final = StoredTarget(MULTI_HOT, "string", "")


class Classes:
    """Targets are 1 for each class that the image has and 0 for the others, uint8 [classes]."""

    def parse(self, values: Values, source: Source) -> tuple[tf.Tensor, tf.Tensor]:
        """See `TargetDecoder.parse`: images, encoded, and classes as they are stored."""
        return source.format.parse(values, _STORED)

    def training(
        self, encoded: tf.Tensor, stored: tf.Tensor, source: Source, position: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """See `TargetDecoder.training`; no crop changes the classes."""
        return images.training_image(encoded, source, position), _decoded(stored, source)

    def evaluation(
        self, encoded: tf.Tensor, stored: tf.Tensor, source: Source
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """See `TargetDecoder.evaluation`."""
        return images.evaluation_image(encoded, source), _decoded(stored, source)

    def blank(self, source: Source) -> tf.Tensor:
        """See `TargetDecoder.blank`."""
        return tf.zeros([source.classes], tf.uint8)

    def random(
        self, numbers: tf.random.Generator, batch_size: int, image_size: int, classes: int
    ) -> tf.Tensor:
        """See `TargetDecoder.random`."""
        del image_size
        return tf.cast(numbers.uniform([batch_size, classes], 0, 2, tf.int32), tf.uint8)

    def fault(self, values: Values, source: Source) -> str | None:
        """See `TargetDecoder.fault`."""
        encoded, stored = self.parse(values, source)
        data = stored.numpy()
        if not data:
            return f"has no classes ({MULTI_HOT}); prepare the data with `prepare multilabel`"
        fault = stored_fault(data, 0, 0, source.classes)
        if not fault:
            images.evaluation_image(encoded, source)
        return fault


def _decoded(stored: tf.Tensor, source: Source) -> tf.Tensor:
    flags = tf.io.decode_raw(stored, tf.uint8)
    checks = [
        images.require(
            tf.size(flags) == source.classes,
            ["a record has another number of classes than its data set; prepare it as multi-label",
             tf.size(flags), source.classes],
        ),
        images.require(tf.reduce_all(flags <= 1), ["a class is neither 0 nor 1", flags]),
    ]  # fmt: skip
    with tf.control_dependencies(checks):
        return tf.ensure_shape(flags, [source.classes])
