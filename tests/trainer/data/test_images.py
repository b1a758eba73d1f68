"""From an encoded image to an input, and to the batch of the network."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from tests.trainer.support.data_sets.image_files import gradients, jpeg, saved
from trainer.config import DataConfig
from trainer.data import images
from trainer.data.manifest import Normalization, Split
from trainer.data.source import Source

# 1. From an encoded image to a uint8 input.


def source(encodings=("PNG",), image_size=16, seed=0, **changes):
    return Source(
        folder=Path(),
        split=Split((), (), encodings),
        classes=10,
        image_size=image_size,
        config=DataConfig(**changes),
        seed=seed,
    )


def encode(pixels, kind="PNG"):
    # A JPEG without subsampled colours, which would blur the steep gradients of small pictures.
    return tf.constant(jpeg(pixels) if kind == "JPEG" else saved(Image.fromarray(pixels), kind))


def at(encoded, source, position):
    return images.training_image(encoded, source, tf.constant(position, tf.int64)).numpy()


@pytest.mark.parametrize("augment", ["random-resized-crop", "shift", "none"])
def test_a_training_image_depends_on_its_position_alone(augment):
    picture = encode(gradients(40, 50))
    one = source(augment=augment)
    wanted = [at(picture, one, position) for position in range(6)]
    graph = tf.function(lambda position: images.training_image(picture, one, position))
    for position in (5, 2, 0, 4, 1, 3):
        found = graph(tf.constant(position, tf.int64)).numpy()
        assert np.array_equal(found, wanted[position])


@pytest.mark.parametrize("augment", ["random-resized-crop", "shift"])
def test_other_positions_and_seeds_give_other_images(augment):
    picture = encode(gradients(40, 50))
    assert len({at(picture, source(augment=augment), p).tobytes() for p in range(20)}) > 5
    assert len({at(picture, source(augment=augment, seed=s), 7).tobytes() for s in range(20)}) > 5


def test_without_augmentation_every_position_gives_the_whole_image():
    pixels = gradients(16, 16)
    one = source(augment="none")
    assert all(np.array_equal(at(encode(pixels), one, p), pixels) for p in (0, 1, 2**40))


@pytest.mark.parametrize("reach", [0, 1, 3])
def test_a_shift_moves_by_at_most_its_pixels_and_uses_all_of_them(reach):
    pixels = np.zeros([16, 16, 3], np.uint8)
    pixels[8, 8] = 255
    one = source(augment="shift", shift_pixels=reach)
    picture = encode(pixels)
    graph = tf.function(lambda position: images.training_image(picture, one, position))
    moves = set()
    for position in range(60 * (2 * reach + 1)):
        lit = np.argwhere(graph(tf.constant(position, tf.int64)).numpy()[:, :, 0] == 255)
        assert len(lit) == 1
        moves.add(tuple(int(place) - 8 for place in lit[0]))
    everywhere = range(-reach, reach + 1)
    assert moves == {(y, x) for y in everywhere for x in everywhere}


def test_a_random_crop_keeps_at_least_its_smallest_area():
    # Red and green are places in the picture, so their ranges are the crop's sides.
    pixels = gradients(128, 128)
    one = source(augment="random-resized-crop", min_crop_area=0.5, image_size=64)
    for position in range(30):
        crop = at(encode(pixels), one, position).astype(float)
        width, height = (np.ptp(crop[:, :, channel]) / 255 for channel in (0, 1))
        assert width * height >= 0.5 - 0.05


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
@pytest.mark.parametrize("augment", ["random-resized-crop", "shift", "none"])
def test_an_input_is_uint8_of_the_size_asked_for(kind, augment):
    found = at(encode(gradients(37, 61), kind), source((kind,), 24, augment=augment), 3)
    assert found.dtype == np.uint8
    assert found.shape == (24, 24, 3)


@pytest.mark.parametrize("shape", [(64, 64), (64, 100), (100, 64), (31, 47)])
@pytest.mark.parametrize("crop", [0.875, 1.0])
def test_a_jpeg_and_a_png_of_one_picture_are_evaluated_alike(shape, crop):
    pixels = gradients(*shape)
    found = [
        images.evaluation_image(
            encode(pixels, kind), source(encodings, image_size=32, eval_crop=crop)
        ).numpy()
        for kind in ("PNG", "JPEG")
        for encodings in ((kind,), ("JPEG", "PNG"))
    ]
    png, either_png, jpeg, either_jpeg = (value.astype(int) for value in found)
    assert np.array_equal(png, either_png)
    assert np.array_equal(jpeg, either_jpeg)
    assert np.abs(png - jpeg).max() <= 6
    assert np.abs(png - jpeg).mean() <= 2


def test_an_evaluation_sees_the_central_square():
    pixels = np.zeros([20, 40, 3], np.uint8)
    pixels[5:15, 15:25] = 200
    found = images.evaluation_image(encode(pixels), source(image_size=10, eval_crop=0.5))
    assert np.array_equal(found.numpy(), np.full([10, 10, 3], 200))


def test_a_grey_picture_has_three_equal_channels():
    grey = gradients(16, 16)[:, :, 0]
    for kind in ("PNG", "JPEG"):
        found = at(encode(grey, kind), source((kind,), augment="none"), 0)
        assert np.array_equal(found[:, :, 0], found[:, :, 1])
        assert np.array_equal(found[:, :, 0], found[:, :, 2])


def test_half_of_the_positions_are_flipped():
    one = source(flip=True)
    graph = tf.function(lambda position: images.flips(one, position))
    found = [bool(graph(tf.constant(p, tf.int64))) for p in range(400)]
    assert 150 < sum(found) < 250


def test_without_flip_no_position_is_flipped():
    one = source(flip=False)
    assert not any(bool(images.flips(one, tf.constant(p, tf.int64))) for p in range(20))


# 2. From a uint8 batch to the batch of the network.


def test_exactly_the_flagged_images_are_flipped():
    batch = np.random.default_rng(0).integers(0, 256, (4, 5, 6, 3)).astype(np.uint8)
    flags = np.array([True, False, False, True])
    unchanged = Normalization((0.0,) * 3, (1.0,) * 3)
    found = images.flip_and_normalize(tf.constant(batch), tf.constant(flags), unchanged).numpy()
    assert found.dtype == np.float32
    for image, flag, result in zip(batch, flags, found, strict=True):
        assert np.array_equal(result, image[:, ::-1] if flag else image)


def test_normalised_images_have_the_statistics_taken_off():
    batch = np.random.default_rng(0).integers(0, 256, (4, 5, 6, 3)).astype(np.uint8)
    mean, std = (1.0, 20.0, 130.0), (50.0, 60.0, 70.0)
    normalization = Normalization(mean, std)
    found = images.flip_and_normalize(tf.constant(batch), tf.zeros([4], tf.bool), normalization)
    np.testing.assert_allclose(found.numpy(), (batch - mean) / std, rtol=1e-6, atol=1e-6)
