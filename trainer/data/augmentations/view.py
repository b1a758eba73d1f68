"""An input while it is augmented, and how masks and boxes follow it."""

from collections.abc import Callable
from typing import Final, NamedTuple

import tensorflow as tf

GREY: Final = 128
"""Value of the pixels that come into view."""

Key = Callable[[str], tf.Tensor]
"""Returns the key of stateless random numbers, int64 [2], given a name for what they decide."""


class View(NamedTuple):
    """An input, and how its pixels have moved, for masks and boxes to follow."""

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


def moved_corners(corners: tf.Tensor, motion: tf.Tensor) -> tf.Tensor:
    """Return the smallest upright boxes around boxes whose pixels moved.

    Args:
        corners: Left, top, right and bottom in parts of the side, float32 [n, 4].
        motion: See `View.motions`.
    """
    left, top, right, bottom = tf.unstack(corners - 0.5, axis=1)
    x = tf.stack([left, right, left, right], 1)
    y = tf.stack([top, top, bottom, bottom], 1)
    forward = tf.linalg.inv(motion)
    x, y = (forward[row, 0] * x + forward[row, 1] * y + forward[row, 2] + 0.5 for row in range(2))
    ends = [reduce(places, 1) for reduce in (tf.reduce_min, tf.reduce_max) for places in (x, y)]
    return tf.stack(ends, 1)
