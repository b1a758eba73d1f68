"""Shards as an independent reader sees them, and from encoded images to inputs."""

import hashlib
import io
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import xxhash
from PIL import Image
from sklearn.datasets import load_digits

from trainer.config import DataConfig
from trainer.data import images
from trainer.data.builtin.digits import prepare_digits
from trainer.data.manifest import Normalization, Split, load_manifest
from trainer.data.source import Source
from trainer.data.split_counts import Tally
from trainer.data.tfrecord import Record, write_shard, write_split
from trainer.errors import DataError

FEATURES = {
    "image/encoded": tf.io.FixedLenFeature([], tf.string),
    "image/format": tf.io.FixedLenFeature([], tf.string),
    "image/height": tf.io.FixedLenFeature([], tf.int64),
    "image/width": tf.io.FixedLenFeature([], tf.int64),
    "image/channels": tf.io.FixedLenFeature([], tf.int64),
    "image/colorspace": tf.io.FixedLenFeature([], tf.string),
    "image/filename": tf.io.FixedLenFeature([], tf.string),
    "image/class/label": tf.io.FixedLenFeature([], tf.int64),
    "image/class/text": tf.io.FixedLenFeature([], tf.string),
}


def read(paths):
    """Read shards by nothing but the public interfaces of TensorFlow."""
    return [
        {key: value.numpy() for key, value in tf.io.parse_single_example(r, FEATURES).items()}
        for r in tf.data.TFRecordDataset([str(path) for path in paths])
    ]


def record(number):
    return Record(
        encoded=bytes([number % 256]) * (number * 7 % 50 + 1),
        format="PNG" if number % 3 else "JPEG",
        height=number + 1,
        width=number + 2,
        label=number % 4,
        text=f"class {number % 4}",
        filename=f"ü{number}.png",
    )


def hashes(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


# 1. Shards.


def test_an_independent_reader_reads_every_key_back(tmp_path):
    write_shard(tmp_path / "a.tfrecord", [record(number) for number in range(5)], Tally.empty(4))
    wanted = [
        {
            "image/encoded": r.encoded,
            "image/format": r.format.encode(),
            "image/height": r.height,
            "image/width": r.width,
            "image/channels": 3,
            "image/colorspace": b"RGB",
            "image/filename": r.filename.encode(),
            "image/class/label": r.label,
            "image/class/text": r.text.encode(),
        }
        for r in map(record, range(5))
    ]
    assert read([tmp_path / "a.tfrecord"]) == wanted


@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 128, 200])
def test_the_index_points_at_every_64th_record(tmp_path, count):
    path = tmp_path / "a.tfrecord"
    shard = write_shard(path, [record(number) for number in range(count)], Tally.empty(4))
    data, offsets, place = path.read_bytes(), [], 0
    while place < len(data):
        offsets.append(place)
        # A record is its length in 8 bytes, their checksum in 4, the data, and theirs in 4.
        place += 8 + 4 + struct.unpack("<Q", data[place : place + 8])[0] + 4
    assert len(offsets) == shard.examples == count
    assert list(shard.index) == offsets[::64]


def test_a_shard_is_described_as_it_is_on_disk(tmp_path):
    path = tmp_path / "a.tfrecord"
    shard = write_shard(path, [record(number) for number in range(9)], Tally.empty(4))
    assert shard.file == "a.tfrecord"
    assert shard.bytes == path.stat().st_size
    assert shard.xxh128 == xxhash.xxh3_128(path.read_bytes()).hexdigest()


def test_a_split_keeps_the_order_of_its_records(tmp_path):
    records = [record(number) for number in range(11)]
    split = write_split(tmp_path, "train", records, shards=3, classes=5)
    found = read([tmp_path / shard.file for shard in split.shards])
    assert [r["image/filename"].decode() for r in found] == [r.filename for r in records]


def test_a_split_describes_its_records(tmp_path):
    records = [record(number) for number in range(11)]
    split = write_split(tmp_path, "train", records, shards=3, classes=5)
    assert split.class_counts == (3, 3, 3, 2, 0)
    assert split.encodings == ("JPEG", "PNG")
    assert [shard.examples for shard in split.shards] == [3, 4, 4]


def test_more_shards_than_records_leave_some_empty(tmp_path):
    split = write_split(tmp_path, "train", [record(0), record(1)], shards=5, classes=4)
    assert sum(shard.examples for shard in split.shards) == 2
    assert all((tmp_path / shard.file).exists() for shard in split.shards)


# 2. The digits.


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "digits"
    prepare_digits(str(folder))
    return folder


@pytest.fixture(scope="module")
def splits(digits):
    manifest = load_manifest(digits)
    return {
        name: read([digits / shard.file for shard in split.shards])
        for name, split in manifest.splits.items()
    }


def test_digits_are_split_into_1437_and_360(splits):
    assert {name: len(found) for name, found in splits.items()} == {
        "train": 1437,
        "validation": 360,
    }


def test_thirty_six_digits_of_each_class_are_held_out(splits):
    labels = [r["image/class/label"] for r in splits["validation"]]
    assert np.bincount(labels).tolist() == [36] * 10


def test_splits_share_no_image_and_hold_all_of_them(splits):
    train, held_out = (
        {r["image/filename"] for r in splits[name]} for name in ("train", "validation")
    )
    assert not train & held_out
    assert len(train | held_out) == 1797


def test_splits_share_no_pixels_either(splits):
    train, held_out = (
        {r["image/encoded"] for r in splits[name]} for name in ("train", "validation")
    )
    assert not train & held_out


def test_digits_are_those_of_scikit_learn(splits):
    data = load_digits()
    for r in [*splits["train"][::50], *splits["validation"][::20]]:
        number = int(r["image/filename"].decode().removeprefix("digit-").removesuffix(".png"))
        pixels = np.asarray(Image.open(io.BytesIO(r["image/encoded"])))
        assert np.abs(pixels - data.images[number] * (255 / 16)).max() <= 0.5
        assert r["image/class/label"] == data.target[number]
        assert r["image/class/text"] == str(data.target[number]).encode()
        assert (r["image/height"], r["image/width"]) == pixels.shape == (8, 8)


def test_classes_are_mixed_in_every_shard(digits):
    manifest = load_manifest(digits)
    for shard in manifest.splits["train"].shards:
        assert len({r["image/class/label"] for r in read([digits / shard.file])}) == 10


def test_statistics_are_those_of_the_training_pixels(digits, splits):
    pixels = np.stack(
        [np.asarray(Image.open(io.BytesIO(r["image/encoded"]))) for r in splits["train"]]
    )
    manifest = load_manifest(digits)
    assert manifest.normalization.mean == pytest.approx([pixels.mean()] * 3, abs=1e-3)
    assert manifest.normalization.std == pytest.approx([pixels.std()] * 3, abs=1e-3)


def test_digits_prepared_twice_are_the_same_bytes(digits):
    first = hashes(digits)
    shutil.rmtree(digits)
    prepare_digits(str(digits))
    assert hashes(digits) == first


def test_digits_prepared_elsewhere_have_the_same_version(digits, tmp_path):
    assert prepare_digits(str(tmp_path / "other")).version == load_manifest(digits).version


def test_digits_that_are_there_stay_untouched(digits):
    before = {path.name: path.stat().st_mtime_ns for path in digits.iterdir()}
    prepare_digits(str(digits))
    assert {path.name: path.stat().st_mtime_ns for path in digits.iterdir()} == before


def test_a_folder_with_something_else_is_refused_and_stays(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(DataError, match=f"{tmp_path}: is not empty"):
        prepare_digits(str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_preparing_leaves_nothing_beside_the_folder(digits):
    assert [path.name for path in digits.parent.iterdir()] == ["digits"]


# 3. From an encoded image to a uint8 input.


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
    buffer = io.BytesIO()
    # Without subsampled colours, which would blur the steep gradients of small pictures.
    options = {"quality": 95, "subsampling": 0} if kind == "JPEG" else {}
    Image.fromarray(pixels).save(buffer, format=kind, **options)
    return tf.constant(buffer.getvalue())


def smooth(height, width):
    """Smooth gradients, which a JPEG of high quality keeps within a few levels."""
    y, x = np.mgrid[0:height, 0:width]
    red, green = 255 * x / width, 255 * y / height
    return np.stack([red, green, (red + green) / 2], 2).astype(np.uint8)


def at(encoded, source, position):
    return images.training_image(encoded, source, tf.constant(position, tf.int64)).numpy()


@pytest.mark.parametrize("augment", ["random-resized-crop", "shift", "none"])
def test_a_training_image_depends_on_its_position_alone(augment):
    picture = encode(smooth(40, 50))
    one = source(augment=augment)
    wanted = [at(picture, one, position) for position in range(6)]
    graph = tf.function(lambda position: images.training_image(picture, one, position))
    for position in (5, 2, 0, 4, 1, 3):
        found = graph(tf.constant(position, tf.int64)).numpy()
        assert np.array_equal(found, wanted[position])


@pytest.mark.parametrize("augment", ["random-resized-crop", "shift"])
def test_other_positions_give_other_images(augment):
    picture = encode(smooth(40, 50))
    assert len({at(picture, source(augment=augment), p).tobytes() for p in range(20)}) > 5


@pytest.mark.parametrize("augment", ["random-resized-crop", "shift"])
def test_other_seeds_give_other_images(augment):
    picture = encode(smooth(40, 50))
    assert len({at(picture, source(augment=augment, seed=s), 7).tobytes() for s in range(20)}) > 5


def test_without_augmentation_every_position_gives_the_whole_image():
    pixels = smooth(16, 16)
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
    pixels = smooth(128, 128)
    one = source(augment="random-resized-crop", min_crop_area=0.5, image_size=64)
    for position in range(30):
        crop = at(encode(pixels), one, position).astype(float)
        width, height = (np.ptp(crop[:, :, channel]) / 255 for channel in (0, 1))
        assert width * height >= 0.5 - 0.05


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
@pytest.mark.parametrize("augment", ["random-resized-crop", "shift", "none"])
def test_an_input_is_uint8_of_the_size_asked_for(kind, augment):
    found = at(encode(smooth(37, 61), kind), source((kind,), 24, augment=augment), 3)
    assert found.dtype == np.uint8
    assert found.shape == (24, 24, 3)


@pytest.mark.parametrize("shape", [(64, 64), (64, 100), (100, 64), (31, 47)])
@pytest.mark.parametrize("crop", [0.875, 1.0])
def test_a_jpeg_and_a_png_of_one_picture_are_evaluated_alike(shape, crop):
    pixels = smooth(*shape)
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
    grey = smooth(16, 16)[:, :, 0]
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


# 4. From a uint8 batch to what the network sees.


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
