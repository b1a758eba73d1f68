"""Every augmentation: off by default, a function of the position alone, and with known values."""

from dataclasses import fields

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageEnhance

from common.errors import ConfigError
from tests.trainer.data.augmentations.samples import SIZE, picture, source
from trainer.config import DataConfig
from trainer.data.augmentations.colours import LUMA, recoloured
from trainer.data.augmentations.table import AUGMENTATIONS, PATCHES, augmented, drawn_patch
from trainer.presets import parse_train

ON = {"rand_augment": 9, "colour_jitter": 0.4, "erase": 0.5, "mixup": 0.2, "cutmix": 1.0}


def outputs(one, positions):
    """The results of an augmentation at some positions: the image, and the patch."""
    pixels = tf.constant(picture())

    @tf.function
    def graph(position):
        return augmented(pixels, one, position).image, drawn_patch(one, position)

    found = {}
    for position in positions:
        image, patch = graph(tf.constant(position, tf.int64))
        found[position] = b"".join(part.numpy().tobytes() for part in (image, *patch.values()))
    return found


def test_each_has_an_option_of_its_name_that_is_off():
    assert set(ON) == {*AUGMENTATIONS, *PATCHES}
    off = {field.name: field.default for field in fields(DataConfig)}
    assert all(off[name] == 0 for name in ON)
    view = augmented(tf.constant(picture()), source(), tf.constant(3, tf.int64))
    assert np.array_equal(view.image, picture())
    assert (view.motions, drawn_patch(source(), tf.constant(3, tf.int64))) == ((), {})


@pytest.fixture(scope="module")
def with_all():
    return outputs(source(**ON), range(5))


@pytest.mark.parametrize("name", ON)
def test_each_depends_on_position_and_seed_alone(name, with_all):
    one = source(**{name: ON[name]})
    found = outputs(one, range(20))
    assert outputs(one, (13, 2, 19)) == {p: found[p] for p in (13, 2, 19)}
    assert len(set(found.values())) > 1
    other = outputs(source(seed=1, **{name: ON[name]}), range(20))
    assert other != found
    # The numbers of one do not depend on which others are in use.
    together = source(**{**ON, name: 0})
    assert with_all != outputs(together, range(5))


@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_an_image_is_augmented_alike_by_any_number_of_threads(name):
    one, pixels = source(**{name: ON[name]}), tf.constant(picture())

    def read(threads, at_once):
        data = tf.data.Dataset.range(60).map(
            lambda position: augmented(pixels, one, position).image, num_parallel_calls=at_once
        )
        options = tf.data.Options()
        options.threading.private_threadpool_size = threads
        options.threading.max_intra_op_parallelism = threads
        return np.stack(list(data.with_options(options).as_numpy_iterator()))

    assert np.array_equal(read(1, 1), read(4, 4))


@pytest.mark.parametrize(("number", "kind"), [(0, "Brightness"), (1, "Contrast"), (2, "Color")])
@pytest.mark.parametrize("factor", [0.6, 1.4])
def test_a_change_of_colour_is_that_of_pillow(number, kind, factor):
    factors = [1.0, 1.0, 1.0, 0.0]
    factors[number] = factor
    found = recoloured(tf.constant(picture()), *map(tf.constant, factors)).numpy().astype(int)
    wanted = np.asarray(getattr(ImageEnhance, kind)(Image.fromarray(picture())).enhance(factor))
    # Pillow rounds grey levels before, and cuts decimals off after.
    assert np.abs(found - wanted.astype(int)).max() <= 2


def test_colours_turn_around_grey():
    rgb = np.array([[[255, 0, 0], [0, 200, 50], [90, 90, 90]]], np.uint8).repeat(3, 0)
    third = tf.constant(2 * np.pi / 3, tf.float32)
    one = tf.constant(1.0)
    found = recoloured(tf.constant(rgb), one, one, tf.constant(0.3), third).numpy().astype(float)
    assert np.abs(found[0, 2] - 90).max() <= 1
    # Grey levels stay, and the largest channel of pure red becomes another.
    assert np.abs((found - rgb) @ np.array(LUMA)).max() < 2
    assert found[0, 0].argmax() != 0
    turned = recoloured(tf.constant(found.astype(np.uint8)), one, one, one, -third).numpy()
    less = recoloured(tf.constant(rgb), one, one, tf.constant(0.3), tf.constant(0.0)).numpy()
    assert np.abs(turned.astype(int) - less.astype(int)).max() <= 3


def test_jitter_stays_within_its_strength():
    grey = tf.fill([4, 4, 3], tf.constant(100, tf.uint8))
    one = source(colour_jitter=0.3)
    # Of a grey image, contrast, saturation and hue change nothing.
    graph = tf.function(lambda position: augmented(grey, one, position).image)
    values = [graph(tf.constant(p, tf.int64)).numpy() for p in range(300)]
    assert all(np.ptp(value) <= 1 for value in values)
    means = [float(value.mean()) for value in values]
    assert 69 <= min(means) < 75
    assert 125 < max(means) <= 131


def test_erasing_hides_one_rectangle_of_the_asked_for_part():
    pixels, one = tf.constant(picture()), source(erase=0.5)
    graph = tf.function(lambda position: augmented(pixels, one, position).image)
    areas = []
    for position in range(400):
        changed = (graph(tf.constant(position, tf.int64)).numpy() != picture()).any(-1)
        if changed.any():
            rows, columns = np.nonzero(changed)
            height, width = np.ptp(rows) + 1, np.ptp(columns) + 1
            # Noise is hardly ever the value that was there.
            assert changed.sum() > 0.98 * height * width
            areas.append(height * width / SIZE**2)
    assert 0.43 < len(areas) / 400 < 0.57
    assert 0.01 < min(areas) < 0.05
    assert 0.28 < max(areas) < 0.36
    noise = [graph(tf.constant(p, tf.int64)).numpy() for p in range(400)]
    values = np.concatenate([image[image != picture()] for image in noise])
    assert 120 < values.mean() < 135
    assert (values.min(), values.max()) == (0, 255)


def patches(**options):
    one = source(**options)
    graph = tf.function(lambda position: drawn_patch(one, position)["patch"])
    return np.stack([graph(tf.constant(p, tf.int64)) for p in range(1500)])


@pytest.mark.parametrize("alpha", [0.001, 0.2, 1.0, 10.0])
def test_the_opacity_of_mixup_is_of_a_beta_distribution(alpha):
    found = patches(mixup=alpha)
    assert (found[:, :4] == [0, 0, SIZE, SIZE]).all()
    opacity = found[:, 4]
    assert ((opacity >= 0) & (opacity <= 1)).all()
    assert abs(opacity.mean() - 0.5) < 0.05
    assert opacity.var() == pytest.approx(1 / (4 * (2 * alpha + 1)), rel=0.1)


def test_the_patches_of_cutmix_lie_in_the_image_and_are_whole_pixels():
    found = patches(cutmix=1.0)
    top, left, bottom, right, opacity = found.T
    assert (opacity == 1).all()
    assert (found == found.round()).all()
    for begin, end in ((top, bottom), (left, right)):
        assert ((begin >= 0) & (begin <= end) & (end <= SIZE)).all()
    area = (bottom - top) * (right - left) / SIZE**2
    # Half of the image on average, before the edges cut some of it off.
    assert 0.25 < area.mean() < 0.5
    assert area.min() < 0.01
    assert area.max() > 0.8


def test_of_two_mixtures_each_image_draws_one():
    found = patches(mixup=1.0, cutmix=1.0)
    whole = (found[:, :4] == [0, 0, SIZE, SIZE]).all(1) & (found[:, 4] < 1)
    assert 0.45 < whole.mean() < 0.55
    assert (found[~whole, 4] == 1).all()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--preset", "scenes", "--data.mixup", "0.2"], "--data.mixup: .* segmentation are per"),
        (["--preset", "shapes", "--data.cutmix", "1"], "--data.cutmix: .* detection are per"),
        (
            ["--data.mixup", "1", "--batch-size", "8", "--optimizer.accumulation", "8"],
            "one of 8 / 8 images has no other; raise --batch-size",
        ),
        (["--data.rand-augment", "11"], "--data.rand-augment"),
        (["--data.erase", "1.5"], "--data.erase"),
        (["--data.colour-jitter", "-1"], "--data.colour-jitter"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(options, problem):
    with pytest.raises(ConfigError, match=problem):
        parse_train(options)


@pytest.mark.parametrize("preset", ["digits", "scenes", "shapes", "tiles", "images"])
def test_every_task_takes_those_of_one_image(preset):
    options = ["--data.rand-augment", "9", "--data.colour-jitter", "0.4", "--data.erase", "0.5"]
    config = parse_train(["--preset", preset, *options])
    assert (config.data.rand_augment, config.data.erase) == (9, 0.5)
