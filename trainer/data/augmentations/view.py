"""An input while it is augmented, and the motions of its pixels, which targets follow."""

from collections.abc import Callable
from typing import Final, NamedTuple

import tensorflow as tf

GREY: Final = 128
"""Value of the pixels that come into view."""

Key = Callable[[str], tf.Tensor]
"""Returns the key of stateless random numbers, int64 [2], given a name of their purpose."""


class View(NamedTuple):
    """An input, and how its pixels have moved."""

    image: tf.Tensor
    """uint8 [size, size, channels]."""
    motions: tuple[tf.Tensor, ...] = ()
    """Its motions in turn, each float32 [3, 3]: it maps x, y and 1 of a place in the input to those
    of where its pixel was before, in parts of the side and counted from the centre."""


def warped(image: tf.Tensor, motion: tf.Tensor, fill: int = GREY) -> tf.Tensor:
    """Move the pixels of an image, each to the nearest place.

    Args:
        image: uint8 [size, size, channels].
        motion: See `View.motions`.
        fill: Value of the pixels that come into view.
    """
    size = image.shape[0]
    centre = (size - 1) / 2
    linear = motion[:2, :2]
    offset = motion[:2, 2] * float(size) - tf.reduce_sum(linear, 1) * centre + centre
    rows = tf.concat([linear, offset[:, None]], 1)
    transform = tf.concat([tf.reshape(rows, [1, 6]), tf.zeros([1, 2])], 1)
    result = tf.raw_ops.ImageProjectiveTransformV3(
        images=image[None],
        transforms=transform,
        output_shape=tf.constant([size, size]),
        fill_value=float(fill),
        interpolation="NEAREST",
        fill_mode="CONSTANT",
    )
    return tf.ensure_shape(result[0], image.shape)
