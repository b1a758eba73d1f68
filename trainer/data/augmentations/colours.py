"""Brightness, contrast and saturation of images as uint8 [size, size, 3]."""

from typing import Final

import numpy as np
import tensorflow as tf

LUMA: Final = (0.299, 0.587, 0.114)
"""Parts of red, green and blue in grey (ITU-R BT.601)."""
_YIQ: Final = np.array([LUMA, (0.596, -0.274, -0.322), (0.211, -0.523, 0.312)])
"""From red, green and blue to grey and two differences of colour (NTSC)."""


def grey(image: tf.Tensor) -> tf.Tensor:
    """Return an image in whole grey levels, float32 [size, size, 1]."""
    pixels = tf.reshape(tf.cast(image, tf.float32), [-1, 3])
    levels = tf.round(tf.matmul(pixels, tf.constant(LUMA)[:, None]))
    return tf.reshape(levels, [*image.shape[:2], 1])


def mean_grey(image: tf.Tensor) -> tf.Tensor:
    """Return the mean grey level, a float32 scalar."""
    # Of integers, whose sum does not depend on the number of threads.
    levels = tf.cast(grey(image), tf.int64)
    mean = tf.reduce_sum(levels) / tf.size(levels, tf.int64)
    return tf.cast(mean, tf.float32)


def levels(pixels: tf.Tensor) -> tf.Tensor:
    """Round numbers to levels from 0 to 255, uint8."""
    return tf.cast(tf.round(tf.clip_by_value(pixels, 0.0, 255.0)), tf.uint8)


def blended(image: tf.Tensor, other: tf.Tensor, factor: tf.Tensor) -> tf.Tensor:
    """Return a blend of two images: 0 is the other one, 1 the image, and more exaggerates it."""
    return levels(other + factor * (tf.cast(image, tf.float32) - other))


def recoloured(
    image: tf.Tensor,
    brightness: tf.Tensor,
    contrast: tf.Tensor,
    saturation: tf.Tensor,
    hue: tf.Tensor,
) -> tf.Tensor:
    """Change brightness, contrast, saturation and hue, in this order and rounded once: all of them
    together are one linear map.

    Args:
        image: uint8 [size, size, 3].
        brightness: Factor of every value.
        contrast: Factor of differences from the mean grey level.
        saturation: Factor of differences from grey.
        hue: Angle by which colours turn around grey, in radians.
    """
    cosine, sine = saturation * tf.cos(hue), saturation * tf.sin(hue)
    turn = tf.stack([[1.0, 0.0, 0.0], [0.0, cosine, -sine], [0.0, sine, cosine]])
    inverse, forward = (tf.constant(part, tf.float32) for part in (np.linalg.inv(_YIQ), _YIQ))
    colours = tf.matmul(inverse @ turn, forward)
    pixels = tf.reshape(tf.cast(image, tf.float32), [-1, 3])
    # Grey levels keep their values when colours turn.
    offset = brightness * (1.0 - contrast) * mean_grey(image)
    changed = tf.matmul(pixels, brightness * contrast * colours, transpose_b=True) + offset
    return tf.reshape(levels(changed), image.shape)
