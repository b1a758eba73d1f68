"""A folder of images as a data set: which files, in which split and place, and what is said of the
others. Interruptions and several processes are in test_prepare_interrupted.py.
"""

import csv
import errno
import os
import signal
from collections import Counter
from fractions import Fraction
from math import floor
from pathlib import Path

import numpy as np
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from common.errors import ConfigError, UserError
from tests.trainer.support.command import run_trainer
from tests.trainer.support.image_folders import (
    bytes_path,
    content,
    finished_shards,
    manifest_of,
    picture,
    prepare,
    stamps,
    write_images,
)
from trainer.data.manifest import SIDES, load_manifest
from trainer.data.prepare import engine
from trainer.data.prepare.encode import Rules
from trainer.data.prepare.entries import Entry, Inputs, Refusal
from trainer.data.prepare.folder import folder_inputs
from trainer.data.prepare.listing import Listing, Part
from trainer.data.prepare.read import Reader
from trainer.data.prepare.rules import allowed_rejections, make_rules
from trainer.data.prepare.write import Common
from trainer.data.tfrecord import from_example, read_shard
from trainer.errors import DataError
from trainer.options import WriteOptions


def listed(root):
    """Classes, and split, name and class of every file, and split, name and reason of others."""
    inputs = folder_inputs(root)
    found = list(inputs.entries())
    entries = {(e.split, e.name, inputs.classes[e.label]) for e in found if isinstance(e, Entry)}
    return inputs.classes, entries, {(r.split, r.name, r.reason) for r in found
                                     if isinstance(r, Refusal)}  # fmt: skip


def records(output, split):
    """All records of a split, in their order."""
    manifest = load_manifest(output)
    return [
        from_example(data)
        for shard in manifest.splits[split].shards
        for data in read_shard(output / shard.file)
    ]


def names(output):
    return {
        split: [r.filename for r in records(output, split)] for split in ("train", "validation")
    }


def rejected(output):
    with (output / "rejected.csv").open(newline="", errors="surrogateescape") as file:
        return [tuple(row) for row in csv.reader(file)]


@pytest.fixture
def cats_and_dogs(tmp_path):
    return write_images(tmp_path / "in", {"cat": 12, "dog": 7})


# 1. Which files there are.


def test_a_folder_for_each_class_is_not_divided_yet(tmp_path):
    classes, entries, others = listed(write_images(tmp_path, {"dog": 1, "cat": 2}))
    assert classes == ("cat", "dog")
    assert entries == {("", "cat/0.jpg", "cat"), ("", "cat/1.jpg", "cat"), ("", "dog/0.jpg", "dog")}
    assert not others


@pytest.mark.parametrize(
    ("train", "held_out"),
    [("train", "validation"), ("train", "val"), ("training", "valid"), ("train", "test"),
     ("Training", "Test")],
)  # fmt: skip
def test_folders_of_splits_are_known_by_their_names(tmp_path, train, held_out):
    write_images(tmp_path, {f"{train}/cat": 1, f"{train}/dog": 1, f"{held_out}/cat": 1})
    classes, entries, _ = listed(tmp_path)
    assert classes == ("cat", "dog")
    assert entries == {
        ("train", "cat/0.jpg", "cat"),
        ("train", "dog/0.jpg", "dog"),
        ("validation", "cat/0.jpg", "cat"),
    }


def test_what_is_beside_the_two_splits_is_named(tmp_path):
    write_images(tmp_path, {"train/cat": 1, "val/cat": 1, "test/cat": 1, "extra": 1})
    notes = folder_inputs(tmp_path).notes
    assert notes == ("left alone beside train/ and val/: extra, test",)


def test_a_test_split_that_serves_for_evaluation_is_named(tmp_path):
    write_images(tmp_path, {"train/cat": 1, "test/cat": 1})
    assert "test/ is evaluated on" in folder_inputs(tmp_path).notes[0]


def test_a_lone_train_folder_is_divided(tmp_path):
    classes, entries, _ = listed(write_images(tmp_path, {"train/cat": 2}))
    assert classes == ("cat",)
    assert {split for split, *_ in entries} == {""}


def test_a_class_may_be_in_one_split_only(tmp_path, capsys):
    root = write_images(tmp_path / "in", {"train/cat": 2, "val/cat": 1, "val/dog": 1})
    manifest = prepare(root, tmp_path / "out")
    assert manifest.classes == ("cat", "dog")
    assert manifest.splits["train"].class_counts == (2, 0)
    assert "no images in train of 1 classes: dog" in capsys.readouterr().err


def test_names_of_all_sorts_are_kept(tmp_path):
    write_images(tmp_path / "in", {"two words/ä/b c": 1, "日本": 1, "plain": 3})
    strange = bytes_path(tmp_path / "in" / "plain", b'caf\xe9, "a".jpg')
    strange.write_bytes(picture(99))
    prepare(tmp_path / "in", tmp_path / "out", held_out=0.01)
    found = [*records(tmp_path / "out", "train"), *records(tmp_path / "out", "validation")]
    assert {(os.fsencode(r.filename), r.text, r.label) for r in found} == {
        (b"plain/0.jpg", "plain", 0),
        (b"plain/1.jpg", "plain", 0),
        (b"plain/2.jpg", "plain", 0),
        (b'plain/caf\xe9, "a".jpg', "plain", 0),
        ("two words/ä/b c/0.jpg".encode(), "two words", 1),
        ("日本/0.jpg".encode(), "日本", 2),
    }


def test_a_class_and_a_rejected_file_need_not_be_utf_8(tmp_path):
    root = write_images(tmp_path / "in", {"plain": 3})
    folder = bytes_path(root, b"caf\xe9")
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}.jpg").write_bytes(picture(number))
    bytes_path(folder, b"\xff.jpg").write_text("no image")
    done = run_trainer("prepare", "folder", "--input", "in", "--output", "out", "--max-rejected",
                       "1", cwd=tmp_path, env={"PYTHONIOENCODING": "utf-8:strict"})  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert load_manifest(tmp_path / "out").classes == (os.fsdecode(b"caf\xe9"), "plain")
    assert b'caf\xe9/\xff.jpg,"is not an image' in (tmp_path / "out" / "rejected.csv").read_bytes()


def test_what_is_no_image_of_a_class_is_listed_with_its_reason(tmp_path):
    outside = write_images(tmp_path / "outside", {"x": 1}) / "x"
    root = write_images(tmp_path / "in", {"cat/old": 1, "dog": 1, ".git": 1, "__MACOSX/cat": 1})
    (root / "README.md").write_text("hello")
    (root / "cat" / ".DS_Store").write_text("x")
    (root / "cat" / "Thumbs.db").write_text("x")
    (root / "cat" / "far.jpg").symlink_to(outside / "0.jpg")
    (root / "cat" / "near.jpg").symlink_to("../dog/0.jpg")
    (root / "cat" / "more").symlink_to("../dog")
    (root / "cat" / "gone.jpg").symlink_to("nowhere.jpg")
    (root / "cat" / "round.jpg").symlink_to("round.jpg")
    os.mkfifo(root / "cat" / "pipe.jpg")
    classes, entries, others = listed(root)
    assert classes == ("cat", "dog")
    assert entries == {
        ("", "cat/old/0.jpg", "cat"), ("", "cat/near.jpg", "cat"), ("", "dog/0.jpg", "dog")
    }  # fmt: skip
    hidden, nothing = "is a hidden file", "is no file, or a link to nothing"
    assert others == {
        ("", ".git", hidden),
        ("", "__MACOSX", hidden),
        ("", "README.md", "lies in no class's folder"),
        ("", "cat/.DS_Store", hidden),
        ("", "cat/Thumbs.db", hidden),
        ("", "cat/far.jpg", "is a link that leads out of the folder"),
        ("", "cat/more", "is a link to a folder"),
        ("", "cat/gone.jpg", nothing),
        ("", "cat/round.jpg", f"cannot be looked at ({os.strerror(errno.ELOOP)})"),
        ("", "cat/pipe.jpg", nothing),
    }


def test_storage_that_fails_while_it_is_listed_ends_with_the_folder(cats_and_dogs, monkeypatch):
    scan = os.scandir

    def broken(path):
        if str(path).endswith("dog"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return scan(path)

    inputs = folder_inputs(cats_and_dogs)
    monkeypatch.setattr(os, "scandir", broken)
    with pytest.raises(DataError, match=f"{cats_and_dogs}/dog: cannot be listed"):
        list(inputs.entries())


def test_a_folder_without_folders_is_explained(tmp_path):
    (tmp_path / "a.jpg").write_bytes(picture(0))
    with pytest.raises(DataError, match="there must be one for each class"):
        prepare(tmp_path, tmp_path.parent / "out")


def test_a_split_needs_an_image_and_nothing_is_left_behind(tmp_path):
    root = write_images(tmp_path / "in", {"cat": 1})
    with pytest.raises(DataError, match="no files for the split 'validation'"):
        prepare(root, tmp_path / "out")
    assert not (tmp_path / "out").exists()


# 2. Splits and places.


COUNTS = st.lists(st.integers(1, 12), min_size=1, max_size=6)


def placed(folder, counts, seed, part, splits=("",), names=None):
    """What a listing makes of so many files of each class: names by split, in their places."""
    names = names or [f"class {label}" for label in range(len(counts))]

    def entries():
        for label, count in enumerate(counts):
            for number in range(count):
                split = splits[number % len(splits)]
                name = f"{names[label]}/{number}"
                yield Entry(split, name, label, f"/in/{name}", 0, 100 + number, 5)

    path = folder / "listing.sqlite"
    path.unlink(missing_ok=True)
    listing = Listing(path)
    listing.fill(Inputs(tuple(names), entries), seed, part)
    found = {
        split: list(listing.entries(split, 0, there.files))
        for split, there in listing.parts().items()
    }
    listing.close()
    return found


@settings(max_examples=60, deadline=None)
@given(COUNTS, st.integers(0, 2**31 - 1), st.floats(0.01, 0.99))
def test_each_class_gives_its_share_but_at_least_one_and_not_all(tmp_path_factory, counts, seed,
                                                                 part):  # fmt: skip
    found = placed(tmp_path_factory.getbasetemp(), counts, seed, part)
    held = Counter(entry.label for entry in found.get("validation", []))
    for label, count in enumerate(counts):
        assert held[label] == min(max(floor(count * part + 0.5), 1), count - 1)


@settings(max_examples=40, deadline=None)
@given(COUNTS, st.integers(0, 2**31 - 1))
def test_each_file_has_one_place_and_every_place_a_file(tmp_path_factory, counts, seed):
    found = placed(
        tmp_path_factory.getbasetemp(), counts, seed, 0.3, splits=("train", "validation")
    )
    wanted = Counter(("train", "validation")[n % 2] for count in counts for n in range(count))
    assert {split: len(entries) for split, entries in found.items()} == wanted
    every = [(entry.split, entry.name) for entries in found.values() for entry in entries]
    assert len(set(every)) == len(every)


def test_the_order_depends_on_the_seed_and_not_on_the_order_of_listing(tmp_path):
    one, other = placed(tmp_path, [20, 20], 0, 0.2), placed(tmp_path, [20, 20], 1, 0.2)
    assert one != other
    assert one == placed(tmp_path, [20, 20], 0, 0.2)
    # The class that is listed first changes, so labels do, but not where images stand.
    swapped = placed(tmp_path, [20, 20], 0, 0.2, names=["class 1", "class 0"])
    for split, entries in one.items():
        assert [e.name for e in swapped[split]] == [e.name for e in entries]


def test_another_seed_holds_out_other_images(tmp_path):
    held = [
        {entry.name for entry in placed(tmp_path, [50], seed, 0.2)["validation"]}
        for seed in range(3)
    ]
    assert held[0] != held[1] != held[2]


def test_a_further_class_does_not_move_images_between_splits(tmp_path):
    before = placed(tmp_path, [30, 30], 0, 0.2)
    after = placed(tmp_path, [30, 30, 30], 0, 0.2)
    for split, entries in before.items():
        assert {e.name for e in entries} <= {e.name for e in after[split]}


@given(
    st.integers(1, 500), st.integers(1, 10**9), st.integers(1, 5000), st.floats(0.01, 4),
    st.integers(1, 100),
)  # fmt: skip
def test_shards_hold_each_file_once_and_are_equally_long(train, size, held, growth, shard_mb):
    common = Common(os, os, (), (), Rules(1))
    parts = {"train": Part(train, size), "validation": Part(held, size)}
    tasks = engine._shards(common, parts, growth, shard_mb)
    for split, files in (("train", train), ("validation", held)):
        mine = [task for task in tasks.values() if task.split == split]
        assert [mine[0].begin, *(task.end for task in mine)] == [
            *(task.begin for task in mine),
            files,
        ]
        lengths = {task.end - task.begin for task in mine}
        assert 0 not in lengths
        assert max(lengths) - min(lengths) <= 1
    assert list(tasks) == [task.file for task in tasks.values()]


# 3. What is written.


def test_every_image_is_stored_once_with_its_class(cats_and_dogs, tmp_path):
    prepare(cats_and_dogs, tmp_path / "out")
    found = names(tmp_path / "out")
    assert Counter(name.split("/")[0] for name in found["validation"]) == {"cat": 1, "dog": 1}
    assert len(found["train"]) == 17
    for split in found:
        for record in records(tmp_path / "out", split):
            assert record.encoded == (cats_and_dogs / record.filename).read_bytes()
            assert record.text == record.filename.split("/")[0]
            assert (record.height, record.width) == (16, 16)


@pytest.mark.slow
def test_a_reader_without_this_code_reads_every_key_back(cats_and_dogs, tmp_path):
    # Imported here, as it takes seconds and the other tests do without.
    import tensorflow as tf

    Image.new("RGB", (30, 20), (1, 2, 3)).save(cats_and_dogs / "dog" / "ä wide.png")
    prepare(cats_and_dogs, tmp_path / "out")
    text, number = tf.io.FixedLenFeature([], tf.string), tf.io.FixedLenFeature([], tf.int64)
    keys = {
        **dict.fromkeys(["encoded", "format", "colorspace", "filename", "class/text"], text),
        **dict.fromkeys(["height", "width", "channels", "class/label"], number),
    }
    features = {f"image/{key}": kind for key, kind in keys.items()}
    found = {}
    for data in tf.data.TFRecordDataset([str(p) for p in (tmp_path / "out").glob("*.tfrecord")]):
        assert set(tf.train.Example.FromString(data.numpy()).features.feature) == set(features)
        example = tf.io.parse_single_example(data, features)
        values = {key: value.numpy() for key, value in example.items()}
        found[values.pop("image/filename").decode()] = values
    files = [path for path in cats_and_dogs.rglob("*") if path.is_file()]
    assert found == {
        f"{path.parent.name}/{path.name}": {
            "image/encoded": path.read_bytes(),
            "image/format": b"PNG" if path.suffix == ".png" else b"JPEG",
            "image/colorspace": b"RGB",
            "image/height": 20 if path.suffix == ".png" else 16,
            "image/width": 30 if path.suffix == ".png" else 16,
            "image/channels": 3,
            "image/class/label": ["cat", "dog"].index(path.parent.name),
            "image/class/text": path.parent.name.encode(),
        }
        for path in files
    }


def test_the_manifest_is_what_is_on_disk(tmp_path):
    root = write_images(tmp_path / "in", {"train/cat": 9, "train/dog": 4, "val/cat": 2}, side=40)
    (root / "val" / "cat" / "wide.png").write_bytes(b"")
    Image.new("RGB", (300, 100), (10, 20, 30)).save(root / "val" / "cat" / "wide.png")
    manifest = prepare(root, tmp_path / "out")
    assert manifest == load_manifest(tmp_path / "out")
    for split in manifest.splits.values():
        for shard in split.shards:
            data = (tmp_path / "out" / shard.file).read_bytes()
            assert shard.bytes == len(data)
            assert shard.xxh128 == xxhash.xxh3_128(data).hexdigest()
            assert shard.examples == len(list(read_shard(tmp_path / "out" / shard.file)))
    train, held_out = manifest.splits["train"], manifest.splits["validation"]
    assert (train.class_counts, held_out.class_counts) == ((9, 4), (3, 0))
    assert (train.encodings, held_out.encodings) == (("JPEG",), ("JPEG", "PNG"))
    assert dict(zip(SIDES, train.sides.short, strict=True))[32] == 13
    assert dict(zip(SIDES, held_out.sides.short, strict=True))[96] == 1
    assert dict(zip(SIDES, held_out.sides.long, strict=True))[256] == 1
    assert manifest.origin.treatment == {"copied untouched": 15, "kept: PNG": 1}


def test_statistics_are_those_of_the_training_pixels(tmp_path):
    root = write_images(tmp_path / "in", {"train/cat": 9, "val/cat": 2}, side=40)
    Image.new("RGB", (90, 90), (250, 20, 30)).save(root / "train" / "cat" / "a.png")
    Image.new("L", (90, 90), 77).save(root / "train" / "cat" / "b.jpg")
    manifest = prepare(root, tmp_path / "out")
    images = [Image.open(path).convert("RGB") for path in (root / "train" / "cat").iterdir()]
    pixels = np.concatenate([np.asarray(image).reshape(-1, 3) for image in images])
    assert manifest.normalization.mean == pytest.approx(pixels.mean(0), abs=0.01)
    assert manifest.normalization.std == pytest.approx(pixels.std(0), abs=0.01)


def test_shards_have_the_size_asked_for(tmp_path):
    root = write_images(tmp_path / "in", {"train/cat": 40, "val/cat": 1}, side=250)
    split = prepare(root, tmp_path / "out", shard_mb=1).splits["train"]
    assert split.bytes > 2e6
    assert all(0.7e6 < shard.bytes <= 1.1e6 for shard in split.shards)


def test_images_can_be_encoded_again_and_smaller(tmp_path):
    root = write_images(tmp_path / "in", {"cat": 4}, side=60)
    manifest = prepare(root, tmp_path / "out", reencode="20:50")
    assert manifest.origin.treatment == {"encoded again: JPEG": 4}
    assert {(r.height, r.width) for r in records(tmp_path / "out", "train")} == {(20, 20)}


def test_the_summary_tells_what_was_done(tmp_path):
    root = write_images(tmp_path / "in", {"cat": 20, "dog": 20})
    Image.new("CMYK", (8, 8)).save(root / "cat" / "c.jpg")
    (root / "cat" / "d.jpg").write_text("no image")
    done = run_trainer("prepare", "folder", "--input", "in", "--output", "out", "--max-rejected",
                       "5%", cwd=tmp_path)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "40 copied untouched; 1 converted: CMYK JPEG\n" in done.stdout
    assert "1 files are left out: out/rejected.csv says why" in done.stdout
    assert "out: 2 classes, version " in done.stdout
    origin = manifest_of(tmp_path / "out")["origin"]
    assert origin["command"] == "python -m trainer prepare folder --input in"
    assert origin["treatment"]["rejected"] == 1


# 4. What is rejected.


@pytest.fixture
def with_faults(tmp_path):
    root = write_images(tmp_path / "in", {"train/cat": 9, "val/cat": 3})
    (root / "train" / "cat" / "z.jpg").write_text("<html>")
    (root / "train" / "cat" / "a, b.jpg").write_bytes(b"")
    (root / "train" / "cat" / ".hidden").write_text("x")
    (root / "val" / "cat" / "cut.jpg").write_bytes(picture(0)[:-50])
    return root


ROWS = [
    ("split", "name", "reason"),
    ("train", "cat/.hidden", "is a hidden file"),
    ("train", "cat/a, b.jpg", "is empty"),
    ("train", "cat/z.jpg", "is not an image of a known kind (JPEG, PNG, WEBP, BMP, GIF, TIFF)"),
]


def test_rejected_files_are_listed_by_name_and_a_hidden_one_is_not_counted(with_faults, tmp_path):
    manifest = prepare(with_faults, tmp_path / "out", max_rejected="3")
    found = rejected(tmp_path / "out")
    assert found[:4] == ROWS
    assert found[4][:2] == ("validation", "cat/cut.jpg")
    assert found[4][2].startswith("cannot be decoded")
    assert len(found) == 5
    assert manifest.splits["train"].examples == 9
    assert manifest.origin.treatment["rejected"] == 4


@pytest.mark.parametrize(("limit", "fits"), [("2", False), ("19%", False), ("20%", True)])
def test_the_limit_is_a_number_or_a_part_of_all_files(with_faults, tmp_path, limit, fits):
    # 3 of 15 are 20 %; the hidden file is not one of them.
    if fits:
        prepare(with_faults, tmp_path / "out", max_rejected=limit)
    else:
        with pytest.raises(DataError, match=rf"of 15 files.* more than --max-rejected {limit}"):
            prepare(with_faults, tmp_path / "out", max_rejected=limit)


def test_hidden_files_alone_reject_nothing(tmp_path):
    root = write_images(tmp_path / "in", {"cat": 3})
    for number in range(9):
        (root / "cat" / f"._{number}").write_text("x")
    prepare(root, tmp_path / "out", max_rejected="0")
    assert len(rejected(tmp_path / "out")) == 10


def test_too_many_end_the_command_with_a_list_and_more_may_be_allowed(with_faults, tmp_path):
    # By one process, so that the shard of the training images comes first.
    command = ["prepare", "folder", "--input", "in", "--output", "out", "--processes", "1"]
    failed = run_trainer(*command, cwd=tmp_path)
    assert failed.returncode == DataError.exit_code
    assert "train/cat/a, b.jpg is empty" in failed.stderr
    assert "out/rejected.csv lists those found so far" in failed.stderr
    assert rejected(tmp_path / "out")[1:4] == ROWS[1:4]
    assert not (tmp_path / "out" / "manifest.json").exists()
    done = run_trainer(*command, "--max-rejected", "50%", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(rejected(tmp_path / "out")) == 5
    prepare(with_faults, tmp_path / "other", max_rejected="50%")
    assert content(tmp_path / "out").keys() == content(tmp_path / "other").keys()


def test_without_rejected_files_there_is_no_list(cats_and_dogs, tmp_path):
    prepare(cats_and_dogs, tmp_path / "out")
    assert sorted(content(tmp_path / "out")) == [
        "manifest.json",
        "train-00000-of-00001.tfrecord",
        "validation-00000-of-00001.tfrecord",
    ]


def test_a_split_of_which_all_files_are_rejected_is_no_data_set(tmp_path):
    root = write_images(tmp_path / "in", {"train/cat": 3})
    (root / "val" / "cat").mkdir(parents=True)
    (root / "val" / "cat" / "a.jpg").write_text("no image")
    with pytest.raises(DataError, match="validation: has no usable image"):
        prepare(root, tmp_path / "out", max_rejected="100%")


def test_nothing_but_unusable_files_are_told_at_once(tmp_path):
    root = tmp_path / "in"
    (root / "cat").mkdir(parents=True)
    for number in range(3):
        (root / "cat" / f"{number}.jpg").write_text("no image")
    with pytest.raises(DataError, match=r"none of the first 2 files .* is not an image"):
        prepare(root, tmp_path / "out", max_rejected="100%")


@given(st.integers(0, 10**7), st.decimals(0, 100, places=3))
def test_a_percentage_allows_exactly_its_part(files, percent):
    wanted = floor(files * Fraction(percent) / 100)
    assert allowed_rejections(f"{percent:f}%", files) == wanted


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_a_number_allows_itself(number, files):
    assert allowed_rejections(str(number), files) == number


@pytest.mark.parametrize("text", ["", "-1", "1.5", "101%", "-1%", "%", "1 %", "nan%", "1e3"])
def test_other_limits_are_refused(text):
    with pytest.raises(ConfigError, match="--max-rejected"):
        make_rules(WriteOptions(max_rejected=text))


@pytest.mark.parametrize(
    ("text", "side", "quality"), [("292:85", 292, 85), ("64", 64, 90), ("1:100", 1, 100)]
)
def test_a_side_and_a_quality_are_read(text, side, quality):
    rules = make_rules(WriteOptions(reencode=text))
    assert (rules.short_side, rules.quality) == (side, quality)


@pytest.mark.parametrize("text", ["0", "292:", ":90", "292:0", "292:101", "big", "292x90", "-5"])
def test_other_sides_and_qualities_are_refused(text):
    with pytest.raises(ConfigError, match="--reencode"):
        make_rules(WriteOptions(reencode=text))


def test_all_options_that_cannot_be_read_are_listed(cats_and_dogs, tmp_path):
    done = run_trainer("prepare", "folder", "--input", "in", "--reencode", "big", "--max-rejected",
                       "some", cwd=tmp_path)  # fmt: skip
    assert done.returncode == ConfigError.exit_code
    assert "2 problems" in done.stderr
    assert "--reencode: 'big' must be SHORT_SIDE[:QUALITY]" in done.stderr
    assert "--max-rejected: 'some' must be a number of files" in done.stderr
    assert not (tmp_path / "data").exists()


# 5. The folder that is written.


def test_the_input_must_be_there(tmp_path):
    with pytest.raises(ConfigError, match="--input: there is no folder"):
        prepare(tmp_path / "nowhere", tmp_path / "out")
    with pytest.raises(ConfigError, match="--input: name the folder"):
        prepare("", tmp_path / "out")


def test_the_output_may_not_lie_in_the_input(cats_and_dogs):
    with pytest.raises(ConfigError, match="lies inside of --input"):
        prepare(cats_and_dogs, cats_and_dogs / "cat" / "out")
    assert not (cats_and_dogs / "cat" / "out").exists()


def test_a_folder_with_something_else_is_refused_and_stays(cats_and_dogs, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.txt").write_text("years of work")
    with pytest.raises(DataError, match=r"is not empty and holds no manifest\.json"):
        prepare(cats_and_dogs, out)
    assert [path.name for path in out.iterdir()] == ["thesis.txt"]
    with pytest.raises(DataError, match="is not a folder"):
        prepare(cats_and_dogs, out / "thesis.txt")


@pytest.mark.parametrize("change", [{"seed": 1}, {"shard_mb": 1}, {"held_out": 0.5},
                                    {"reencode": "8"}, {"max_pixels": 10_000}])  # fmt: skip
def test_another_data_set_is_refused_and_stays(cats_and_dogs, tmp_path, change):
    prepare(cats_and_dogs, tmp_path / "out")
    before = stamps(tmp_path / "out")
    with pytest.raises(DataError, match="holds another data set, or one of other files or options"):
        prepare(cats_and_dogs, tmp_path / "out", **change)
    assert stamps(tmp_path / "out") == before


def test_a_data_set_of_another_command_is_refused_and_stays(cats_and_dogs, digits_folder):
    before = content(digits_folder)
    with pytest.raises(DataError, match="holds another data set"):
        prepare(cats_and_dogs, digits_folder)
    assert content(digits_folder) == before


def test_a_complete_data_set_is_not_written_again(cats_and_dogs, tmp_path, capsys):
    manifest = prepare(cats_and_dogs, tmp_path / "out")
    before = stamps(tmp_path / "out")
    again = prepare(cats_and_dogs, tmp_path / "out", processes=0, max_rejected="7")
    assert again == manifest
    assert stamps(tmp_path / "out") == before
    assert f"is complete already, version {manifest.version}" in capsys.readouterr().out


# 6. Files that change, and storage that fails.


def entry_of(path):
    return Entry("train", f"cat/{path.name}", 0, str(path), 0, path.stat().st_size)


@pytest.mark.parametrize("content", [b"", b"abc", b"abcdefg"])
def test_a_file_of_another_size_than_listed_is_refused(tmp_path, content):
    path = tmp_path / "a.jpg"
    path.write_bytes(b"abcdef")
    entry = entry_of(path)
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"a\.jpg: has changed since it was listed"):
        Reader().read(entry)


def test_a_file_that_grows_while_others_are_written_is_refused(
    cats_and_dogs, tmp_path, monkeypatch
):
    read = os.pread

    def grow(*args):
        with (cats_and_dogs / "cat" / "3.jpg").open("ab") as file:
            file.write(b"x")
        return read(*args)

    monkeypatch.setattr(os, "pread", grow)
    with pytest.raises(DataError, match=r"cat/3\.jpg: has changed since it was listed"):
        prepare(cats_and_dogs, tmp_path / "out")


def test_a_file_that_may_not_be_read_is_rejected(cats_and_dogs, tmp_path, monkeypatch):
    # Permissions do not keep the superuser from reading, which tests may be.
    opened = os.open

    def refuse(path, *args, **options):
        if str(path).endswith("cat/3.jpg"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return opened(path, *args, **options)

    monkeypatch.setattr(os, "open", refuse)
    prepare(cats_and_dogs, tmp_path / "out", max_rejected="1")
    assert [row[1:] for row in rejected(tmp_path / "out")[1:]] == [
        ("cat/3.jpg", "cannot be read (Permission denied)")
    ]


@pytest.fixture
def failing(monkeypatch):
    """Let reads of files that end so fail as often as told, then work again."""
    left = {}
    read = os.pread

    def pread(file, *args):
        name = str(Path(f"/proc/self/fd/{file}").readlink())
        for ending, times in left.items():
            if name.endswith(ending) and times:
                left[ending] -= 1
                raise OSError(errno.EIO, os.strerror(errno.EIO))
        return read(file, *args)

    monkeypatch.setattr(os, "pread", pread)
    monkeypatch.setattr("trainer.data.prepare.read.time.sleep", lambda _: None)
    return left


def test_a_failure_that_passes_is_told_and_changes_nothing(
    cats_and_dogs, tmp_path, failing, capsys
):
    prepare(cats_and_dogs, tmp_path / "undisturbed")
    failing["cat/3.jpg"] = 2
    prepare(cats_and_dogs, tmp_path / "out")
    told = capsys.readouterr().err
    assert f"warning: {cats_and_dogs}/cat/3.jpg: Input/output error; again in 1 s" in told
    assert "again in 5 s" in told
    assert content(tmp_path / "out") == content(tmp_path / "undisturbed")


def test_a_failure_that_stays_ends_with_the_files_name_and_the_same_command_continues(
    tmp_path, failing
):
    root = write_images(tmp_path / "in", {"train/cat": 2, "val/cat": 40}, side=250)
    prepare(root, tmp_path / "undisturbed", shard_mb=1)
    last = [r.filename for r in records(tmp_path / "undisturbed", "validation")][-1]
    failing[last] = 3
    with pytest.raises(
        DataError, match=rf"{last}: cannot be read \(Input/output error\); the same"
    ):
        prepare(root, tmp_path / "out", shard_mb=1)
    kept = finished_shards(tmp_path / "out")
    assert len(kept) >= 2
    before = stamps(tmp_path / "out")
    prepare(root, tmp_path / "out", shard_mb=1)
    after = stamps(tmp_path / "out")
    assert all(after[shard] == before[shard] for shard in kept)
    assert content(tmp_path / "out") == content(tmp_path / "undisturbed")


def test_a_shard_that_was_damaged_before_the_restart_is_written_again(tmp_path, failing):
    root = write_images(tmp_path / "in", {"train/cat": 2, "val/cat": 40}, side=250)
    prepare(root, tmp_path / "undisturbed", shard_mb=1)
    failing[[r.filename for r in records(tmp_path / "undisturbed", "validation")][-1]] = 3
    with pytest.raises(DataError):
        prepare(root, tmp_path / "out", shard_mb=1)
    first, second, *_ = finished_shards(tmp_path / "out")
    (tmp_path / "out" / first).write_bytes(b"cut")
    (tmp_path / "out" / ".parts" / f"{second}.json").write_text("{")
    prepare(root, tmp_path / "out", shard_mb=1)
    assert content(tmp_path / "out") == content(tmp_path / "undisturbed")


@pytest.mark.parametrize("change", ["a file more", "a changed file", "another option"])
def test_a_restart_with_something_else_is_refused(cats_and_dogs, tmp_path, failing, change):
    failing["cat/3.jpg"] = 3
    with pytest.raises(DataError, match="the same command continues"):
        prepare(cats_and_dogs, tmp_path / "out")
    before = content(tmp_path / "out")
    if change == "a file more":
        (cats_and_dogs / "dog" / "new.jpg").write_bytes(picture(77))
    elif change == "a changed file":
        (cats_and_dogs / "dog" / "0.jpg").write_bytes(picture(77))
    options = {"seed": 3} if change == "another option" else {}
    with pytest.raises(DataError, match="was begun with other files or options"):
        prepare(cats_and_dogs, tmp_path / "out", **options)
    assert content(tmp_path / "out") == before


def test_a_full_disk_ends_with_the_shards_name_and_the_same_command_continues(
    cats_and_dogs, tmp_path, monkeypatch
):
    prepare(cats_and_dogs, tmp_path / "undisturbed")

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "writev", full)
        with pytest.raises(UserError, match=r"out/train-.* cannot be written \(No space left"):
            prepare(cats_and_dogs, tmp_path / "out")
    prepare(cats_and_dogs, tmp_path / "out")
    assert content(tmp_path / "out") == content(tmp_path / "undisturbed")


def test_records_are_whole_where_a_write_takes_only_a_part(cats_and_dogs, tmp_path, monkeypatch):
    prepare(cats_and_dogs, tmp_path / "undisturbed")
    write = os.write
    monkeypatch.setattr(os, "writev", lambda file, parts: write(file, b"".join(parts)[:20]))
    prepare(cats_and_dogs, tmp_path / "out")
    assert content(tmp_path / "out") == content(tmp_path / "undisturbed")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_while_files_are_listed_leaves_nothing(tmp_path, number, monkeypatch):
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))

    def entries():
        yield Entry("train", "cat/a", 0, "/in/cat/a", 0, 1)
        os.kill(os.getpid(), number)
        yield Entry("train", "cat/b", 0, "/in/cat/b", 0, 1)

    with pytest.raises(UserError, match="interrupted with 0 shards finished") as caught:
        engine.prepare(Inputs(("cat",), entries), tmp_path / "out", WriteOptions(), "prepare")
    assert caught.value.exit_code == 128 + number
    assert not (tmp_path / "out").exists()
    assert not list((tmp_path / "scratch").iterdir())
