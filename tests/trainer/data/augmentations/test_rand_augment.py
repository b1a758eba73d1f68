"""The operations of RandAugment are Pillow's, by which the papers measured."""

from math import cos, pi, sin

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageEnhance, ImageOps

from tests.trainer.data.augmentations.samples import SIZE, picture, source
from trainer.data.augmentations import rand_augment
from trainer.data.augmentations.rand_augment import MOTIONS, PIXELS
from trainer.data.augmentations.table import augmented
from trainer.data.augmentations.view import GREY, warped

PLUS = tf.constant(1.0)


def enhanced(kind, image, part, sign):
    return getattr(ImageEnhance, kind)(image).enhance(1 + sign * 0.9 * part)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("part", [0.1, 0.9])
@pytest.mark.parametrize(
    ("function", "expected", "levels"),
    [
        ("autocontrast", lambda image, *_: ImageOps.autocontrast(image), 1),
        ("equalize", lambda image, *_: ImageOps.equalize(image), 0),
        ("solarize", lambda image, part, _: ImageOps.solarize(image, round(256 * (1 - part))), 0),
        ("posterize", lambda image, part, _: ImageOps.posterize(image, 8 - round(4 * part)), 0),
        ("brightness", lambda *args: enhanced("Brightness", *args), 1),
        ("contrast", lambda *args: enhanced("Contrast", *args), 1),
        # Pillow cuts decimals off twice, here they are rounded.
        ("colour", lambda *args: enhanced("Color", *args), 2),
        ("sharpness", lambda *args: enhanced("Sharpness", *args), 2),
    ],
)
def test_an_operation_changes_values_as_pillow_does(function, expected, levels, part, sign):
    pixels = picture()
    found = getattr(rand_augment, function)(tf.constant(pixels), sign * PLUS, part).numpy()
    wanted = np.asarray(expected(Image.fromarray(pixels), part, sign))
    assert np.abs(found.astype(int) - wanted.astype(int)).max() <= levels
    assert found.dtype == np.uint8


@pytest.mark.parametrize("level", [0, 77, 255])
@pytest.mark.parametrize("function", PIXELS)
def test_an_image_of_one_value_is_no_special_case(function, level):
    pixels = np.full([8, 8, 3], level, np.uint8)
    found = function(tf.constant(pixels), PLUS, 0.5).numpy()
    assert len(np.unique(found)) == 1
    if function in (rand_augment.autocontrast, rand_augment.equalize):
        assert np.array_equal(found, pixels)


SHEARED, SHIFTED = 0.3 * 0.6, 0.45 * 0.6
TURN = pi / 6 * 0.6


@pytest.mark.parametrize("size", [SIZE, SIZE + 1])
@pytest.mark.parametrize(
    ("number", "linear", "shift"),
    [
        (0, [[cos(TURN), -sin(TURN)], [sin(TURN), cos(TURN)]], [0, 0]),
        (1, [[1, SHEARED], [0, 1]], [0, 0]),
        (2, [[1, 0], [SHEARED, 1]], [0, 0]),
        (3, [[1, 0], [0, 1]], [SHIFTED, 0]),
        (4, [[1, 0], [0, 1]], [0, SHIFTED]),
    ],
)
def test_a_motion_moves_pixels_as_pillow_does(number, linear, shift, size):
    pixels = picture(size)
    # Pillow maps the middles of pixels, counted from the top left corner.
    middle = np.full(2, size / 2)
    offset = middle - np.array(linear) @ middle + np.array(shift) * size
    rows = np.concatenate([linear, offset[:, None]], 1).ravel().tolist()
    wanted = Image.fromarray(pixels).transform(
        (size, size), Image.Transform.AFFINE, rows, Image.Resampling.NEAREST, fillcolor=(GREY,) * 3
    )
    found = warped(tf.constant(pixels), MOTIONS[number](tf.constant(0.6))).numpy()
    # Where a place is between two pixels, and at the edge, either is the nearest.
    assert (found == np.asarray(wanted)).all(-1).mean() > 0.97


@pytest.mark.long
def test_an_image_meets_all_operations_in_turn():
    pixels, one = tf.constant(picture()), source(rand_augment=10)
    graph = tf.function(lambda position: augmented(pixels, one, position))
    moved, seen = 0, set()
    for position in range(200):
        view = graph(tf.constant(position, tf.int64))
        assert len(view.motions) == rand_augment.OPERATIONS
        moved += any(not np.array_equal(motion, np.eye(3)) for motion in view.motions)
        seen.add(view.image.numpy().tobytes())
    # 5 operations of 14 move: an image stays where it is in (9 / 14)^2 = 41 % of the cases.
    assert 0.45 < moved / 200 < 0.72
    # Nothing, twice, occurs once in 196 times; some operations have one result.
    assert len(seen) > 100
