"""Shards that other tools wrote, described where they lie."""

import errno
import gzip
import io
import os
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from common.errors import ConfigError
from tests.trainer.support.command import run_trainer
from tests.trainer.support.data_sets.image_files import saved
from tests.trainer.support.data_sets.records import noise_record, to_example
from trainer.config import DataConfig
from trainer.data.example import from_example
from trainer.data.formats.tfrecord import TFRECORDS, ShardWriter, read_shard
from trainer.data.manifest import FILE_NAME, Manifest, load_manifest
from trainer.data.prepare.foreign.in_place import ForeignShard, scan
from trainer.data.prepare.foreign.tfrecords import prepare_tfrecords
from trainer.data.prepare.options import PrepareTfrecordsOptions, VerifyOptions
from trainer.data.source import Source
from trainer.data.verify import verify
from trainer.errors import DataError


def picture(number, label, kind="JPEG", **changes):
    return noise_record(number, label, kind, **{"text": f"name {label}", **changes})


def pictures(labels, first=0):
    return [picture(first + number, label) for number, label in enumerate(labels)]


def write(folder, records, split="train", shards=3, name="{split}-{number:05d}-of-{shards:05d}"):
    folder.mkdir(exist_ok=True)
    for number in range(shards):
        with ShardWriter(folder / name.format(split=split, number=number, shards=shards)) as writer:
            for record in records[number::shards]:
                writer.write(to_example(record))


@pytest.fixture
def shards(tmp_path):
    """A folder as TensorFlow Models' script leaves it: labels from 1, no suffix."""
    write(tmp_path / "set", pictures([1, 2, 3, 4] * 10))
    write(tmp_path / "set", pictures([1, 2, 3, 4], 100), "validation", 2)
    return tmp_path / "set"


def describe(folder, first_label="auto") -> Manifest:
    options = PrepareTfrecordsOptions(str(folder), first_label, processes=1)
    return prepare_tfrecords(options, "the command")


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != FILE_NAME}


def test_a_described_folder_is_a_data_set_without_a_fault(shards, capsys):
    before = content(shards)
    manifest = describe(shards)
    assert load_manifest(shards) == manifest
    verify(shards, VerifyOptions(deep=True, processes=1))
    assert capsys.readouterr().out.splitlines() == [
        "labels run from 1 to 4; the first class is assumed to be 1 (if class 0 has no images, use"
        " --first-label 0)",
        f"{shards}: 40 training images, 4 held-out images, 4 classes, version {manifest.version}",
        f"{shards}: 5 shards, 44 records, 0 faults",
    ]
    assert content(shards) == before


def test_the_manifest_says_what_the_shards_hold(shards):
    manifest = describe(shards)
    train = manifest.splits["train"]
    assert [shard.file for shard in train.shards] == [f"train-0000{n}-of-00003" for n in range(3)]
    assert train.class_counts == (10, 10, 10, 10)
    assert train.encodings == ("JPEG",)
    assert sum(train.sides.short) == 40
    assert manifest.splits["validation"].class_counts == (1, 1, 1, 1)
    assert manifest.classes == ("name 1", "name 2", "name 3", "name 4")
    assert manifest.first_label == 1
    assert manifest.origin.command == "the command"
    assert manifest.origin.treatment == {"left as they are": 44}


def test_a_folder_that_is_described_already_stays_so(shards, capsys):
    manifest = describe(shards)
    before = (shards / FILE_NAME).stat().st_mtime_ns
    assert describe(shards) == manifest
    assert f"{shards}: already has a manifest, version" in capsys.readouterr().out
    assert (shards / FILE_NAME).stat().st_mtime_ns == before


def test_a_manifest_of_other_shards_is_kept_and_named(shards):
    before = describe(shards)
    write(shards, pictures([1, 2, 3, 4] * 9))
    with pytest.raises(DataError, match=rf"{shards}/manifest\.json: describes shards other than"):
        describe(shards)
    assert f'"{before.version}"' in (shards / FILE_NAME).read_text()


@pytest.mark.parametrize(
    ("train", "validation"),
    [
        ("train-{number:05d}-of-{shards:05d}", "val-{number:05d}-of-{shards:05d}"),
        (
            "train-{number:05d}-of-{shards:05d}.tfrecord",
            "validation-{number:03d}-of-{shards:03d}.x",
        ),
        ("train_{number}.tfrecords", "val_{number}.tfrecords"),
        (
            "imagenet2012-train.tfrecord-{number:05d}-of-{shards:05d}",
            "imagenet2012-validation.tfrecord-{number:05d}-of-{shards:05d}",
        ),
    ],
)
def test_shards_are_found_by_the_usual_names(tmp_path, train, validation):
    write(tmp_path, pictures([0, 1] * 3), "train", 3, train)
    write(tmp_path, pictures([0, 1], 50), "validation", 2, validation)
    for beside in ("train-00000-of-00003.idx", "train.txt", "labels.txt"):
        (tmp_path / beside).write_text("not a shard")
    splits = describe(tmp_path).splits
    assert [len(splits[name].shards) for name in ("train", "validation")] == [3, 2]


@pytest.mark.parametrize("split", ["train", "validation"])
def test_both_splits_must_be_there(shards, split):
    for path in shards.glob(f"{split}-*"):
        path.unlink()
    with pytest.raises(DataError, match=rf"has no files \* of the {split} split; files are named"):
        describe(shards)


def test_a_broken_record_is_named(shards):
    path = shards / "train-00002-of-00003"
    changed = bytearray(path.read_bytes())
    changed[-10] ^= 1
    path.write_bytes(changed)
    records = len(list(read_shard(shards / "train-00000-of-00003"))) - 2
    with pytest.raises(DataError, match=rf"{path}, record {records}: its data do not match"):
        describe(shards)
    assert not (shards / FILE_NAME).exists()


def test_a_compressed_shard_is_told_from_a_broken_one(shards):
    path = shards / "validation-00001-of-00002"
    path.write_bytes(gzip.compress(path.read_bytes()))
    with pytest.raises(DataError, match=rf"{path}: is compressed with gzip.*gunzip"):
        describe(shards)


def two_splits(folder, train, validation):
    write(folder, train)
    write(folder, validation, "validation", 1)
    return folder


@pytest.mark.parametrize(
    ("train", "validation", "asked", "first", "classes"),
    [
        ([0, 1, 2], [0, 1], "auto", 0, 3),
        ([1, 2, 3], [1, 3], "auto", 1, 3),
        ([1, 2, 3], [2], "auto", 1, 3),
        ([1, 2, 3], [2], "0", 0, 4),
        ([5, 7], [5], "1", 1, 7),
        ([1, 2], [0, 1], "0", 0, 3),
    ],
)
def test_the_first_label_follows_from_the_labels(
    tmp_path, train, validation, asked, first, classes
):
    two_splits(tmp_path, pictures(train), pictures(validation))
    manifest = describe(tmp_path, asked)
    assert manifest.first_label == first
    assert len(manifest.classes) == classes
    counted = [label for label, n in enumerate(manifest.splits["train"].class_counts, first) if n]
    assert counted == train


def test_labels_that_are_numbers_of_images_are_refused_while_they_are_counted(
    tmp_path, monkeypatch
):
    """All would be in memory, with their names."""
    monkeypatch.setattr("trainer.data.prepare.foreign.in_place.MAX_CLASSES", 5)
    write(tmp_path / "set", pictures(range(20)), shards=1)
    write(tmp_path / "set", pictures([0]), "validation", 1)
    with pytest.raises(DataError, match=r"record 5: has one of more than 5 labels, too many"):
        describe(tmp_path / "set")


@pytest.mark.parametrize(
    ("train", "validation", "asked", "words"),
    [
        ([2, 3], [2, 3], "auto", "run from 2 to 3.*is ambiguous; set the label.*--first-label 0"),
        ([1, 2, 3], [0, 1, 2], "auto", "may not mean the same.*--first-label"),
        ([0, 1, 2], [1, 2, 3], "auto", "may not mean the same.*--first-label"),
        ([0, 1], [0, 1], "1", "run from 0 to 1, but --first-label is 1"),
        ([-1, 1], [1], "0", "run from -1 to 1, which is not a valid numbering"),
        ([0, 10**9], [0], "auto", "to 1,000,000,000, which is not a valid numbering"),
    ],
)
def test_labels_whose_meaning_is_in_doubt_are_refused(tmp_path, train, validation, asked, words):
    two_splits(tmp_path, pictures(train), pictures(validation))
    with pytest.raises(DataError, match=words):
        describe(tmp_path, asked)


def test_equal_names_are_told_apart_and_missing_ones_filled_in(tmp_path, capsys):
    said = [
        {"text": "crane", "synset": "n02012849"},
        {"text": "crane", "synset": "n03126707"},
        {"text": "mouse", "synset": ""},
        {"text": "mouse", "synset": ""},
        {"text": "", "synset": "n01440764"},
        {"text": "", "synset": ""},
    ]
    records = [picture(number, number, **words) for number, words in enumerate(said)]
    two_splits(tmp_path, records, records)
    assert describe(tmp_path).classes == (
        *("crane (n02012849)", "crane (n03126707)", "mouse (2)", "mouse (3)"),
        *("n01440764", "class 5"),
    )
    verify(tmp_path, VerifyOptions(processes=1))


@pytest.mark.parametrize("shard", ["train-00000-of-00003", "validation-00000-of-00001"])
def test_a_label_that_means_two_classes_is_refused(tmp_path, shard):
    train, validation = pictures([0, 1] * 6), pictures([0, 1])
    (train if shard.startswith("train") else validation)[0] = picture(9, 0, text="another")
    two_splits(tmp_path, train, validation)
    with pytest.raises(DataError, match=r"label 0 is '.*' here and '.*' in an earlier shard"):
        describe(tmp_path)


def test_images_that_cannot_be_decoded_are_counted(tmp_path):
    strange = [picture(n, 0, encoded=b"GIF89a.", format="GIF") for n in range(3)]
    two_splits(tmp_path, [*pictures([0, 1]), *strange], pictures([0]))
    with pytest.raises(DataError, match=r"3 images are neither JPEG nor PNG.*'GIF8'"):
        describe(tmp_path)


def test_images_that_are_read_in_another_way_than_meant_are_warned_of(tmp_path, capsys):
    colours = Image.fromarray(
        np.random.default_rng(0).integers(0, 256, [9, 9, 4], np.uint8), "CMYK"
    )
    cmyk = picture(0, 0, encoded=saved(colours, "JPEG"), height=9, width=9)
    damaged = picture(1, 0, encoded=b"\xff\xd8\xff")
    misdescribed = picture(2, 0, "PNG", format="JPEG")
    two_splits(tmp_path, [*pictures([0, 1]), cmyk, cmyk, damaged, misdescribed], pictures([0]))
    assert describe(tmp_path).splits["train"].encodings == ("JPEG", "PNG")
    warnings = "\n".join(capsys.readouterr().err.splitlines())
    assert "warning: 2 images are treated whenever read (train-" in warnings
    assert "warning: 1 image is damaged" in warnings
    assert "warning: 1 image is described wrongly (train-" in warnings


def test_statistics_are_those_of_the_training_pixels(tmp_path):
    records = [picture(number, number % 2, "PNG") for number in range(30)]
    two_splits(tmp_path, records, pictures([0, 1]))
    pixels = np.concatenate(
        [np.asarray(Image.open(io.BytesIO(r.encoded))).reshape(-1, 3) for r in records]
    )
    manifest = describe(tmp_path)
    assert manifest.normalization.mean == pytest.approx(pixels.mean(0), abs=6e-4)
    assert manifest.normalization.std == pytest.approx(pixels.std(0), abs=6e-4)


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [("", ConfigError, "--input: name the folder"), ("nowhere", DataError, "no such folder")],
)
def test_a_folder_must_be_named_and_exist(given, error, words):
    with pytest.raises(error, match=words):
        prepare_tfrecords(PrepareTfrecordsOptions(given), "")


def write_as_tensorflow_models(path, rows):
    """As build_imagenet_data.py writes: labels from 1, with boxes, all keys but synset optional."""
    import tensorflow as tf

    def value(x):
        if isinstance(x, bytes):
            return tf.train.Feature(bytes_list=tf.train.BytesList(value=[x]))
        if isinstance(x, list):
            return tf.train.Feature(float_list=tf.train.FloatList(value=x))
        return tf.train.Feature(int64_list=tf.train.Int64List(value=[x]))

    with tf.io.TFRecordWriter(str(path)) as writer:
        for label, name, image in rows:
            keys = {
                "image/height": image.height,
                "image/width": image.width,
                "image/colorspace": b"RGB",
                "image/channels": 3,
                "image/class/label": label,
                "image/class/synset": b"n0000000%d" % label,
                "image/class/text": name.encode(),
                "image/object/bbox/xmin": [],
                "image/object/bbox/label": label,
                "image/format": b"JPEG",
                "image/filename": b"n_%d.JPEG" % label,
                "image/encoded": saved(image, "JPEG"),
            }
            features = tf.train.Features(feature={key: value(x) for key, x in keys.items()})
            writer.write(tf.train.Example(features=features).SerializeToString())


NAMES = ("tench, Tinca tinca", "goldfish, Carassius auratus", "crane", "crane", "Père David's deer")


@pytest.mark.slow
def test_shards_of_tensorflows_own_writer_train_with_labels_from_0(tmp_path):
    from trainer.data.pipeline import evaluation_batches, training_batches

    rng = np.random.default_rng(0)
    folder = tmp_path / "imagenet"
    folder.mkdir()
    for split, shards, images in (("train", 8, 13), ("validation", 2, 5)):
        for shard in range(shards):
            rows = []
            for number in range(images):
                label = (shard * images + number) % 5 + 1
                # An image shows its label, so that each can be told in a batch.
                colour = np.full((20 + int(rng.integers(20)), 30, 3), label * 40, np.uint8)
                rows.append((label, NAMES[label - 1], Image.fromarray(colour)))
            write_as_tensorflow_models(folder / f"{split}-{shard:05d}-of-{shards:05d}", rows)
    done = run_trainer("prepare", "tfrecords", "--input", str(folder), "--processes", "2",
                       cwd=tmp_path)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "labels run from 1 to 5; the first class is assumed to be 1" in done.stdout
    verify(folder, VerifyOptions(deep=True, processes=1))
    manifest = load_manifest(folder)
    assert manifest.classes == (*NAMES[:2], "crane (n00000003)", "crane (n00000004)", NAMES[4])
    assert manifest == describe(folder)

    config = DataConfig(source="tfrecords", dir=str(folder), shuffle_window=8, streams=4)
    for split in ("train", "validation"):
        described = manifest.splits[split]
        source = Source(folder, described, 5, 16, config, 0, manifest.first_label)
        if split == "train":
            batches = training_batches(source, 0, 1, 13, 0, 2).take(8)
        else:
            batches = evaluation_batches(source, 0, 1, 5, 2)
        seen = Counter[int]()
        for batch in batches:
            for image, label in zip(batch["image"].numpy(), batch["target"].numpy(), strict=True):
                assert abs(float(image.mean()) - (label + 1) * 40) < 4
                seen[int(label)] += 1
        assert tuple(seen[label] for label in range(5)) == described.class_counts


def test_a_record_of_another_writer_may_leave_out_all_but_image_and_label(tmp_path):
    bare = [
        replace(r, format="", height=0, width=0, text="", filename="") for r in pictures([0, 1] * 3)
    ]
    two_splits(tmp_path, bare, bare)
    assert from_example(to_example(bare[0])) == bare[0]
    assert describe(tmp_path).classes == ("class 0", "class 1")
    verify(tmp_path, VerifyOptions(deep=True, processes=1))


def test_a_shard_whose_storage_fails_is_named(shards, monkeypatch):
    def read_frames(*_, **__):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr("trainer.data.formats.tfrecord.read_frames", read_frames)
    shard = shards / "train-00000-of-00003"
    task = ForeignShard("train", shard, shard.name, TFRECORDS)
    words = rf"{shard}, record 0: cannot be read \(Input/output error\); run the same command again"
    with pytest.raises(DataError, match=words):
        scan(task, lambda _: None)
