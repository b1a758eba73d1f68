"""One class per pixel, in a mask as large as the image.

A record holds its mask under the key that TensorFlow's DeepLab uses, as a grey PNG of 8 bits: the
value of a pixel is its class, counted from 0, or 255 for a pixel that does not count.
"""

from typing import Final

import tensorflow as tf

from trainer.data import images
from trainer.data.augmentations.view import warped
from trainer.data.formats.record_format import StoredTarget, Values
from trainer.data.source import Source
from trainer.extras.segmentation.leaf import MASK
from trainer.extras.segmentation.mask_files import IGNORED

_MASK: Final = StoredTarget(MASK, "string", "")


class Masks:
    """Targets are masks, uint8 [size, size]."""

    def parse(self, values: Values, source: Source) -> tuple[tf.Tensor, tf.Tensor]:
        """See `TargetDecoder.parse`: images and masks, both encoded."""
        return source.format.parse(values, _MASK)

    def training(
        self, encoded: tf.Tensor, stored: tf.Tensor, source: Source, position: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """See `TargetDecoder.training`; the mask moves with the image."""
        view = images.training_view(encoded, source, position)
        window = images.training_window(source, position)
        target = _resized(_checked(stored, encoded, source), window, source.image_size)
        target = images.shifted(target, source, position, IGNORED)
        for motion in view.motions:
            target = warped(target, motion, IGNORED)
        return view.image, target[:, :, 0]

    def evaluation(
        self, encoded: tf.Tensor, stored: tf.Tensor, source: Source
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """See `TargetDecoder.evaluation`."""
        window = images.central_window(source.config.eval_crop)
        target = _resized(_checked(stored, encoded, source), window, source.image_size)
        return images.evaluation_image(encoded, source), target[:, :, 0]

    def blank(self, source: Source) -> tf.Tensor:
        """See `TargetDecoder.blank`."""
        return tf.fill([source.image_size] * 2, tf.constant(IGNORED, tf.uint8))

    def random(
        self, numbers: tf.random.Generator, batch_size: int, image_size: int, classes: int
    ) -> tf.Tensor:
        """See `TargetDecoder.random`."""
        shape = [batch_size, image_size, image_size]
        return tf.cast(numbers.uniform(shape, 0, classes, tf.int32), tf.uint8)

    def fault(self, values: Values, source: Source) -> str | None:
        """See `TargetDecoder.fault`."""
        encoded, mask = self.parse(values, source)
        if not mask.numpy():
            return f"has no mask ({MASK}); prepare the data with `prepare segmentation`"
        self.evaluation(encoded, mask, source)
        return None


def _checked(mask: tf.Tensor, encoded: tf.Tensor, source: Source) -> tf.Tensor:
    """Decode a mask, uint8 [height, width, 1], and check its size and its values."""
    decoded = tf.io.decode_png(mask, channels=1)
    size = images.size_of(images.as_used(encoded, source), source.split.encodings)
    known = (decoded < source.classes) | (decoded == IGNORED)
    checks = [
        images.require(
            tf.reduce_all(tf.shape(decoded)[:2] == size),
            ["the mask has another size than the image", tf.shape(decoded)[:2], size],
        ),
        images.require(
            tf.reduce_all(known), ["mask with a value that is not a class", tf.reduce_max(decoded)]
        ),
    ]
    with tf.control_dependencies(checks):
        return tf.identity(decoded)


def _resized(mask: tf.Tensor, choose: images.CropChoice, size: int) -> tf.Tensor:
    """Crop a mask like its image, and take the nearest value for each pixel of the input."""
    window = choose(tf.shape(mask)[:2])
    cropped = tf.slice(mask, [window[0], window[1], 0], [window[2], window[3], 1])
    resized = tf.image.resize(cropped, [size, size], method="nearest")
    return tf.ensure_shape(resized, [size, size, 1])
