"""Boxes are stored, moved with their pixels, and checked."""

import numpy as np
import pytest
import tensorflow as tf

from tests.trainer.support.data_sets.image_files import saved
from tests.trainer.support.data_sets.records import to_example
from trainer.config import DataConfig
from trainer.data.augmentations import rand_augment
from trainer.data.example import Record
from trainer.data.manifest import Shard, Split
from trainer.data.source import Source
from trainer.extras.detection.boxes import (
    Box,
    UnfitBoxError,
    fitted,
    pack,
    stored_boxes_fault,
    unpack,
)
from trainer.extras.detection.leaf import BOXES
from trainer.extras.detection.targets import IGNORED, OBJECT, Boxes, cut, moved_corners

WIDTH, HEIGHT, SIZE = 80, 40, 32
RED = Box(20, 10, 44, 30, 1, area=300.0)


def record(*boxes):
    """A grey image in which the first box is red."""
    pixels = np.full([HEIGHT, WIDTH, 3], 128, np.uint8)
    for box in boxes[:1]:
        pixels[int(box.top) : int(box.bottom), int(box.left) : int(box.right)] = 255, 0, 0
    stored = {BOXES: pack([fitted(box, WIDTH, HEIGHT, 3) for box in boxes], WIDTH, HEIGHT)}
    return Record(saved(pixels, "PNG"), "PNG", HEIGHT, WIDTH, 0, "a", "a.png", more=stored)


def source(tmp_path, **options):
    split = Split((Shard("a", 1, 1, "0"),), (1, 0, 0), ("PNG",))
    return Source(tmp_path, split, 3, SIZE, DataConfig(dir="x", **options), 0)


def parsed(made, given):
    return Boxes().parse((tf.constant(to_example(made)),), given)


def red_part(image):
    """Left, top, right and bottom of the red part, as fractions."""
    rows, columns = np.nonzero((image[..., 0] > 190) & (image[..., 1] < 64))
    return np.array([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]) / SIZE


def test_the_boxes_of_a_whole_image_are_where_its_pixels_are(tmp_path):
    given = source(tmp_path)
    image, target = Boxes().evaluation(*parsed(record(RED), given), given)
    assert target.shape == (101, 7)
    assert target[0, :2].numpy().tolist() == [WIDTH, HEIGHT]
    assert target[1, 4:].numpy().tolist() == [1, OBJECT, 300]
    assert not target[2:].numpy().any()
    np.testing.assert_allclose(red_part(image.numpy()), target[1, :4], atol=1.5 / SIZE)


def test_a_crop_moves_boxes_with_their_pixels_and_depends_on_the_position_alone(tmp_path):
    given, seen = source(tmp_path, min_crop_area=0.4), 0
    for position in range(40):
        arguments = (*parsed(record(RED), given), given, tf.constant(position, tf.int64))
        image, target = Boxes().training(*arguments)
        again, same = Boxes().training(*arguments)
        assert np.array_equal(image, again)
        assert np.array_equal(target, same)
        if target[1, 5] == OBJECT:
            np.testing.assert_allclose(red_part(image.numpy()), target[1, :4], atol=2.5 / SIZE)
            seen += 1
    assert seen > 30


def test_boxes_move_with_the_pixels_of_an_image(tmp_path, monkeypatch):
    monkeypatch.setattr(rand_augment, "PIXELS", rand_augment.PIXELS[:1])
    given, whole = source(tmp_path, augment="none", rand_augment=10), 0
    before = Boxes().evaluation(*parsed(record(RED), given), given)[1]
    places = set()
    for position in range(60):
        arguments = (*parsed(record(RED), given), given, tf.constant(position, tf.int64))
        image, target = (part.numpy() for part in Boxes().training(*arguments))
        again = Boxes().training(*arguments)[1]
        assert np.array_equal(target, again)
        assert np.array_equal(target[0], before[0])
        if target[1, 5] != OBJECT:
            continue
        assert target[1, 4] == before[1, 4]
        places.add(target.tobytes())
        # A box that turns is inside a larger one, whose next turn is inside one still larger.
        red, box = red_part(image), target[1, :4]
        pixel = 1.5 / SIZE
        assert (red[:2] >= box[:2] - pixel).all()
        assert (red[2:] <= box[2:] + pixel).all()
        whole += np.abs(red - box).max() < 2 * pixel
    assert len(places) > 25
    assert whole > 25


def test_the_box_around_a_turned_one_touches_its_corners():
    quarter = tf.constant([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    found = moved_corners(tf.constant([[0.1, 0.2, 0.4, 0.3], [0.5, 0.5, 0.5, 0.5]]), quarter)
    # It maps a place to where its pixel was: x is now the former y, y is 1 - the former x.
    np.testing.assert_allclose(found, [[0.2, 0.6, 0.3, 0.9], [0.5] * 4], atol=1e-6)
    eighth = np.array([[1, -1], [1, 1]]) / 2**0.5
    motion = tf.constant(np.block([[eighth, np.zeros([2, 1])], [0, 0, 1]]), tf.float32)
    around = moved_corners(tf.constant([[0.3, 0.4, 0.7, 0.6]]), motion)
    reach = (0.2 + 0.1) / 2**0.5
    np.testing.assert_allclose(around, [[0.5 - reach] * 2 + [0.5 + reach] * 2], atol=1e-6)


def test_a_box_of_which_little_is_left_is_ignored_and_one_that_is_out_is_gone():
    rows = [[0.0, 0.0, 0.4, 0.2], [0.0, 0.0, 0.55, 0.2], [0.4, 0.4, 1.0, 1.0], [0, 0, 0.5, 0.5]]
    target = np.zeros([6, 7], np.float32)
    target[1:5, :4], target[1:5, 5], target[1:5, 4] = rows, [1, 1, 1, IGNORED], 2
    found = cut(tf.constant(target), tf.constant([0.0, 0.5, 1.0, 0.5])).numpy()
    assert found[1:, 5].tolist() == [0, IGNORED, OBJECT, 0, 0]
    np.testing.assert_allclose(found[3, :4], [0.0, 0.4, 1.0, 1.0], atol=1e-6)
    assert not found[1].any()


def test_a_record_with_more_boxes_than_the_run_takes_names_the_option(tmp_path):
    given = source(tmp_path)
    many = record(*[Box(i % 70, 0, i % 70 + 5, 9, 0) for i in range(101)])
    values = (tf.constant(to_example(many)),)
    assert "allow them with --detection.boxes 101" in Boxes().fault(values, given)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"--detection.boxes"):
        Boxes().evaluation(*Boxes().parse(values, given), given)
    assert Boxes().fault((tf.constant(to_example(record(RED))),), given) is None
    bare = Record(record().encoded, "PNG", HEIGHT, WIDTH, 0, "a", "a.png")
    assert "prepare detection" in Boxes().fault((tf.constant(to_example(bare)),), given)


@pytest.mark.parametrize(
    ("box", "problem"),
    [
        (Box(5, 5, 5, 9, 0, where="line 3"), r"line 3 \(5, 5, 5, 9\), which has no area"),
        (Box(9, 5, 7, 9, 0), "no area"),
        (Box(-4, 0, 9, 9, 0), "reaches 4 pixels out of the image of 80 x 40"),
        (Box(70, 0, 99, 9, 0), "reaches 19 pixels out"),
        (Box(0, 0, float("nan"), 9, 0), "not all numbers"),
        (Box(0, 0, 9, 9, 3), "of class 3; classes are 0 to 2"),
    ],
)
def test_a_box_that_cannot_be_used_is_named(box, problem):
    with pytest.raises(UnfitBoxError, match=problem):
        fitted(box, WIDTH, HEIGHT, 3)


def test_a_box_over_the_edge_by_rounding_is_cut_and_comes_back_as_it_was():
    kept = [fitted(Box(-0.5, 0, 80.9, 40, 2, crowd=True, area=7.5), WIDTH, HEIGHT, 3), RED]
    stored = pack(kept, WIDTH, HEIGHT)
    size, rows = unpack(stored)
    assert size.tolist() == [WIDTH, HEIGHT]
    np.testing.assert_allclose(rows[0], [0, 0, 1, 1, 2, 1, 7.5])
    np.testing.assert_allclose(rows[1], [0.25, 0.25, 0.55, 0.75, 1, 0, 300])
    assert stored_boxes_fault(stored, 2 * WIDTH, 2 * HEIGHT, 3) is None
    assert "boxes for 80 x 40" in stored_boxes_fault(stored, HEIGHT, WIDTH, 3)
    assert "box 0 is not" in stored_boxes_fault(stored, WIDTH, HEIGHT, 2)
    assert "not complete" in stored_boxes_fault(stored[:-4], WIDTH, HEIGHT, 3)
