"""Masks are cropped, moved and checked together with their images."""

import io
from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from tests.trainer.support.data_sets.image_files import saved
from tests.trainer.support.data_sets.records import to_example
from trainer.config import DataConfig
from trainer.data.augmentations import rand_augment
from trainer.data.augmentations.view import GREY
from trainer.data.builtin.digits import load_records
from trainer.data.example import Record, from_example
from trainer.data.manifest import Split
from trainer.data.source import Source
from trainer.extras.segmentation.leaf import MASK, SEGMENTATION
from trainer.extras.segmentation.mask_files import IGNORED, features
from trainer.extras.segmentation.masks import Masks
from trainer.extras.segmentation.scenes import CLASSES, SIZE, TRAINING_IMAGES, scenes

MASKS = Masks()
PALETTE = np.array([[0, 0, 0], [250, 0, 0], [0, 250, 0], [0, 0, 250]], np.uint8)


def png(pixels):
    return saved(Image.fromarray(pixels), "PNG")


def record(mask, image=None):
    """A record whose image shows its mask: each class has a colour of its own."""
    image = PALETTE[np.where(mask == IGNORED, 0, mask) % 4] if image is None else image
    return to_example(
        Record(png(image), "PNG", *mask.shape, 1, "x", "x.png", more=features(png(mask)))
    )


def source(tmp_path, size=24, **config):
    split = Split((), (1, 1), ("PNG",))
    chosen = DataConfig(source="tfrecords", dir=str(tmp_path), **config)
    return Source(tmp_path, split, 4, size, chosen, 0, task="segmentation")


def evaluated(serialized, source):
    return MASKS.evaluation(*MASKS.parse((tf.constant(serialized),), source), source)


def blocks(height=48, width=72, side=12):
    rows, columns = np.indices((height, width)) // side
    return ((rows + columns) % 4).astype(np.uint8)


def colours(image):
    """The class that each pixel's colour is nearest to."""
    distance = np.abs(image[:, :, None].astype(int) - PALETTE.astype(int)).sum(-1)
    return distance.argmin(-1)


@pytest.mark.parametrize(
    "config",
    [
        {"augment": "random-resized-crop", "min_crop_area": 0.3},
        {"augment": "shift", "shift_pixels": 5},
        {"augment": "none"},
    ],
)
def test_image_and_mask_are_augmented_alike(tmp_path, config):
    own = source(tmp_path, **config)
    example = MASKS.parse((tf.constant(record(blocks())),), own)
    seen = set()
    for position in range(8):
        image, mask = (x.numpy() for x in MASKS.training(*example, own, tf.constant(position)))
        assert (image.dtype, mask.dtype) == (np.uint8, np.uint8)
        assert mask.shape == (24, 24)
        # Bilinear colours differ from the nearest class at the borders of blocks only.
        inside = mask != IGNORED
        assert (colours(image) == mask)[inside].mean() > 0.8
        # What comes into view by a shift counts for nothing.
        assert config["augment"] == "shift" or inside.all()
        seen.add(mask.tobytes())
        again = MASKS.training(*example, own, tf.constant(position))[1].numpy()
        assert np.array_equal(again, mask)
    assert (len(seen) == 1) == (config["augment"] == "none")


@pytest.mark.parametrize("size", [24, 25])
def test_a_mask_moves_with_the_image_to_the_pixel(tmp_path, monkeypatch, size):
    # With nothing but motions, every pixel shows its class.
    monkeypatch.setattr(rand_augment, "PIXELS", rand_augment.PIXELS[:1])
    own = source(tmp_path, size, augment="none", rand_augment=10)
    example = MASKS.parse((tf.constant(record(blocks(size, size, 4))),), own)
    moved, hidden = set(), 0
    for position in range(60):
        image, mask = (x.numpy() for x in MASKS.training(*example, own, tf.constant(position)))
        inside = mask != IGNORED
        assert np.array_equal(image[inside], PALETTE[mask[inside]])
        assert (image[~inside] == GREY).all()
        moved.add(mask.tobytes())
        hidden += not inside.all()
    assert len(moved) > 20
    assert hidden > 30


def test_what_is_erased_keeps_its_class(tmp_path):
    own = source(tmp_path, augment="none", erase=1.0)
    plain = source(tmp_path, augment="none")
    example = MASKS.parse((tf.constant(record(blocks())),), own)
    image, mask = MASKS.training(*example, own, tf.constant(1))
    before, same = MASKS.training(*example, plain, tf.constant(1))
    assert not np.array_equal(image, before)
    assert np.array_equal(mask, same)


def test_an_evaluation_sees_the_mask_of_the_central_square(tmp_path):
    mask = blocks(48, 72)
    image, found = evaluated(record(mask), source(tmp_path, 48, eval_crop=1.0))
    assert np.array_equal(found.numpy(), mask[:, 12:60])
    assert np.array_equal(colours(image.numpy()), found.numpy())


@pytest.mark.parametrize(
    ("mask", "image", "fault"),
    [
        (np.full([8, 8], 4, np.uint8), None, "not a class"),
        (np.zeros([8, 8], np.uint8), np.zeros([8, 9, 3], np.uint8), "another size"),
    ],
)
def test_a_mask_that_does_not_fit_is_an_error(tmp_path, mask, image, fault):
    with pytest.raises(tf.errors.InvalidArgumentError, match=fault):
        evaluated(record(mask, image), source(tmp_path))


def test_a_mask_of_pixels_that_do_not_count_is_none(tmp_path):
    mask = np.full([8, 8], IGNORED, np.uint8)
    found = evaluated(record(mask), source(tmp_path, 8))[1]
    assert (found.numpy() == IGNORED).all()


def test_a_record_without_a_mask_is_named_as_such(tmp_path):
    bare = to_example(Record(png(np.zeros([8, 8, 3], np.uint8)), "PNG", 8, 8, 1, "x", "x.png"))
    assert "has no mask" in MASKS.fault((tf.constant(bare),), source(tmp_path))
    assert MASKS.fault((tf.constant(record(blocks())),), source(tmp_path)) is None


def test_a_record_keeps_its_mask():
    mask = png(blocks())
    one = Record(b"image", "PNG", 48, 72, 3, "x", "x.png", more=features(mask))
    assert from_example(to_example(one)) == replace(one, more={MASK: mask})


def test_the_embedded_scenes_show_what_their_masks_say():
    assert SEGMENTATION.embedded.examples == TRAINING_IMAGES
    digits = load_records()
    made = scenes("china.jpg", digits[:40], 20)
    assert made == scenes("china.jpg", digits[:40], 20)
    for one in made:
        with Image.open(io.BytesIO(one.more[MASK])) as mask:
            pixels = np.asarray(mask)
        assert pixels.shape == (SIZE, SIZE)
        present = set(np.unique(pixels)) - {0}
        assert one.label in present
        assert present <= set(range(1, len(CLASSES)))
        # One or two digits, drawn in strokes, leave most of the photograph visible.
        assert 0.02 < (pixels > 0).mean() < 0.6
