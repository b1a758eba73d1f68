"""RandAugment: operations in turn, drawn from a list, at one magnitude (Cubuk et al. 2019)."""

from collections.abc import Callable, Sequence
from functools import partial
from math import pi
from typing import Final

import tensorflow as tf

from trainer.data.augmentations.colours import blended, grey, mean_grey
from trainer.data.augmentations.view import Key, View, warped

OPERATIONS: Final = 2
"""Operations in turn, as the paper found best for ResNet50 on ImageNet."""
GREATEST: Final = 10
"""The magnitude at which an operation changes an image most."""

# Their effect at the greatest magnitude, as in AutoAugment (Cubuk et al. 2018).
ENHANCED: Final = 0.9
SHEARED: Final = 0.3
TRANSLATED: Final = 0.45
TURNED: Final = pi / 6

Operation = Callable[[tf.Tensor, tf.Tensor, float], tf.Tensor]
"""Changes an image, uint8 [size, size, 3], given 1 or -1 at random, and the part of the greatest
magnitude."""


def rand_augment(view: View, magnitude: float, key: Key) -> View:
    """Change a view by `OPERATIONS` operations in turn, each drawn from `MOTIONS` and `PIXELS`."""
    part = magnitude / GREATEST
    total = len(MOTIONS) + len(PIXELS)
    drawn = tf.random.stateless_uniform([OPERATIONS], key("operations"), 0, total, tf.int32)
    signs = tf.random.stateless_uniform([OPERATIONS], key("signs"), 0, 2, tf.int32)
    for place in range(OPERATIONS):
        number, sign = drawn[place], 2.0 * tf.cast(signs[place], tf.float32) - 1.0
        # The last one stands for all operations that move nothing.
        motions = [*(motion(sign * part) for motion in MOTIONS), tf.eye(3)]
        motion = tf.stack(motions)[tf.minimum(number, len(MOTIONS))]
        image = tf.switch_case(
            tf.maximum(number - len(MOTIONS) + 1, 0),
            [
                partial(warped, view.image, motion),
                *(partial(change, view.image, sign, part) for change in PIXELS),
            ],
        )
        view = View(image, (*view.motions, motion))
    return view


def _motion(rows: Sequence[Sequence[tf.Tensor | float]]) -> tf.Tensor:
    return tf.stack([*(tf.stack(row) for row in rows), tf.constant([0.0, 0.0, 1.0])])


def _turn(amount: tf.Tensor) -> tf.Tensor:
    cosine, sine = tf.cos(TURNED * amount), tf.sin(TURNED * amount)
    return _motion([[cosine, -sine, 0.0], [sine, cosine, 0.0]])


MOTIONS: Final[tuple[Callable[[tf.Tensor], tf.Tensor], ...]] = (
    _turn,
    lambda amount: _motion([[1.0, SHEARED * amount, 0.0], [0.0, 1.0, 0.0]]),
    lambda amount: _motion([[1.0, 0.0, 0.0], [SHEARED * amount, 1.0, 0.0]]),
    lambda amount: _motion([[1.0, 0.0, TRANSLATED * amount], [0.0, 1.0, 0.0]]),
    lambda amount: _motion([[1.0, 0.0, 0.0], [0.0, 1.0, TRANSLATED * amount]]),
)
"""Rotation, shear and translation along x and y, as `View.motions`, from -1 to 1 times the greatest
magnitude."""


def _unchanged(image: tf.Tensor, _: tf.Tensor, __: float) -> tf.Tensor:
    return image


def autocontrast(image: tf.Tensor, _: tf.Tensor, __: float) -> tf.Tensor:
    """Stretch the values of each channel to 0 and 255."""
    low, high = (
        tf.cast(reduce(image, [0, 1]), tf.float32) for reduce in (tf.reduce_min, tf.reduce_max)
    )
    factor = tf.where(high > low, 255.0 / tf.maximum(high - low, 1.0), 1.0)
    shift = tf.where(high > low, low, 0.0)
    return tf.cast((tf.cast(image, tf.float32) - shift) * factor + 1e-3, tf.uint8)


def equalize(image: tf.Tensor, _: tf.Tensor, __: float) -> tf.Tensor:
    """Let the values of each channel occur about equally often."""
    places = tf.cast(image, tf.int32) + 256 * tf.range(3)
    counts = tf.reshape(tf.math.bincount(tf.reshape(places, [-1]), minlength=768), [3, 256])
    values = tf.range(256)
    largest = tf.reduce_max(tf.where(counts > 0, values, 0), 1)
    step = (tf.reduce_sum(counts, 1) - tf.gather(counts, largest, batch_dims=1)) // 255
    below = tf.cumsum(counts, axis=1, exclusive=True)
    table = (below + step[:, None] // 2) // tf.maximum(step, 1)[:, None]
    table = tf.where(step[:, None] > 0, tf.minimum(table, 255), values)
    return tf.cast(tf.gather(tf.reshape(table, [-1]), places), tf.uint8)


def solarize(image: tf.Tensor, _: tf.Tensor, part: float) -> tf.Tensor:
    """Invert the values from a threshold on."""
    threshold = round(256 * (1 - part))
    return tf.where(tf.cast(image, tf.int32) < threshold, image, 255 - image)


def posterize(image: tf.Tensor, _: tf.Tensor, part: float) -> tf.Tensor:
    """Keep the highest bits of each value, 4 at the greatest magnitude."""
    return tf.bitwise.bitwise_and(image, tf.constant(0xFF << round(4 * part) & 0xFF, tf.uint8))


def brightness(image: tf.Tensor, sign: tf.Tensor, part: float) -> tf.Tensor:
    """Blend with black."""
    return blended(image, tf.constant(0.0), 1.0 + sign * ENHANCED * part)


def contrast(image: tf.Tensor, sign: tf.Tensor, part: float) -> tf.Tensor:
    """Blend with the mean grey level."""
    return blended(image, tf.round(mean_grey(image)), 1.0 + sign * ENHANCED * part)


def colour(image: tf.Tensor, sign: tf.Tensor, part: float) -> tf.Tensor:
    """Blend with the grey image."""
    return blended(image, grey(image), 1.0 + sign * ENHANCED * part)


def sharpness(image: tf.Tensor, sign: tf.Tensor, part: float) -> tf.Tensor:
    """Blend with the smoothed image; the outermost pixels stay."""
    pixels = tf.cast(image, tf.float32)
    # Sums of whole numbers, several times as fast as a convolution of three channels.
    rows = pixels[:-2] + pixels[1:-1] + pixels[2:]
    inner = pixels[1:-1, 1:-1]
    smooth = (rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:] + 4.0 * inner) / 13.0
    difference = tf.pad(tf.round(smooth) - inner, [[1, 1], [1, 1], [0, 0]])
    return blended(image, pixels + difference, 1.0 + sign * ENHANCED * part)


PIXELS: Final[tuple[Operation, ...]] = (
    _unchanged,
    autocontrast,
    equalize,
    solarize,
    posterize,
    brightness,
    contrast,
    colour,
    sharpness,
)
"""Operations that move nothing."""
