"""The manifest of a data set, and how its faults are told."""

import hashlib
import json
from dataclasses import replace

import pytest

from trainer.data.manifest import (
    FILE_NAME,
    Manifest,
    Normalization,
    Origin,
    Shard,
    Sides,
    Split,
    empty_classes,
    load_manifest,
    parse_manifest,
)
from trainer.errors import DataError

MANIFEST = Manifest(
    classes=("cat", "dog", "emu"),
    normalization=Normalization((1.5, 2.25, 3.0), (60.0, 61.5, 62.125)),
    splits={
        "train": Split(
            shards=(
                Shard("train-0.tfrecord", 70, 900, "a" * 64, (0, 830)),
                Shard("train-1.tfrecord", 3, 40, "b" * 64, (0,)),
            ),
            class_counts=(70, 0, 3),
            encodings=("JPEG", "PNG"),
            sides=Sides((1, 72), (0, 73)),
        ),
        "validation": Split(
            shards=(Shard("validation-0.tfrecord", 2, 30, "c" * 64, (0,)),),
            class_counts=(1, 1, 0),
            encodings=("PNG",),
        ),
    },
    origin=Origin("ml-trainer prepare x", "abc", {"copied untouched": 75}),
)

TRAIN = MANIFEST.splits["train"]
OTHER = replace(TRAIN, shards=(replace(TRAIN.shards[0], xxh128="d" * 64), TRAIN.shards[1]))


@pytest.fixture
def folder(tmp_path):
    """A data set of that manifest; the contents of the shards do not matter to it."""
    for split in MANIFEST.splits.values():
        for shard in split.shards:
            (tmp_path / shard.file).write_bytes(b"x" * shard.bytes)
    MANIFEST.save(tmp_path)
    return tmp_path


def edit(folder, change):
    data = json.loads((folder / FILE_NAME).read_text())
    change(data)
    (folder / FILE_NAME).write_text(json.dumps(data))


def test_what_is_saved_is_loaded(folder):
    assert load_manifest(folder) == MANIFEST
    assert parse_manifest((folder / FILE_NAME).read_bytes(), "store/set") == MANIFEST


TFRECORD = Shard("a.tfrecord", 70, 700, "a" * 32, (0, 650))
BLOCKS = (
    Shard("a.parquet", 5, 700, "a" * 32, blocks=(3, 2), block_hashes=("0" * 16, "1" * 16)),
    Shard("b.parquet", 0, 90, "b" * 32),
)
COLUMNS = {"image": "image", "label": "label", "field": "bytes"}


@pytest.mark.parametrize(
    ("shards", "more", "version", "content"),
    [
        ((TFRECORD,), {}, "7c120d21553b6550", "da8b62dc158f7e56"),
        (
            *(BLOCKS, {"format": "parquet", "columns": COLUMNS}),
            *("94288609251e604c", "e251ef9b4c6dc2d0"),
        ),
    ],
)
def test_versions_and_files_are_those_of_version_0_1(tmp_path, shards, more, version, content):
    """Runs and registered assets refer to versions, and older trainers read the files."""
    splits = {"train": Split(shards, (3, 2), ("JPEG",))}
    normalization = Normalization((1.0,) * 3, (2.0,) * 3)
    manifest = Manifest(("x", "y"), normalization, splits, Origin("c"), files="/f", **more)
    manifest.save(tmp_path)
    assert manifest.version == version
    written = (tmp_path / FILE_NAME).read_bytes()
    assert hashlib.sha256(written).hexdigest()[:16] == content
    assert parse_manifest(written, "it") == manifest


@pytest.mark.parametrize(
    "change",
    [
        {"classes": ("cat", "dog", "fox")},
        {"normalization": Normalization((1.5, 2.25, 3.5), (60.0, 61.5, 62.125))},
        {"normalization": Normalization((1.5, 2.25, 3.0), (60.0, 61.5, 62.0))},
        {"splits": {"train": MANIFEST.splits["train"]}},
        {"first_label": 1},
        {"splits": {"train": OTHER, "validation": MANIFEST.splits["validation"]}},
    ],
)
def test_the_version_depends_on_everything_but_where_the_data_came_from(change):
    assert replace(MANIFEST, **change).version != MANIFEST.version
    assert replace(MANIFEST, origin=Origin("another")).version == MANIFEST.version


def test_a_missing_folder_or_manifest_is_named(tmp_path):
    with pytest.raises(DataError, match=f"{tmp_path}/nowhere: there is no such data folder"):
        load_manifest(tmp_path / "nowhere")
    with pytest.raises(DataError, match=rf"{tmp_path}: there is no manifest\.json.*prepare"):
        load_manifest(tmp_path)


CONTENTS = [b"", b"null", b"[]", b"7", b'"text"', b"{}", b'{"schema": 2}', b"\xff\xfe\x00"]


@pytest.mark.parametrize("content", [*CONTENTS, 1, 100, -3])
def test_what_is_no_manifest_or_a_part_of_one_is_named(folder, content):
    path = folder / FILE_NAME
    path.write_bytes(content if isinstance(content, bytes) else path.read_bytes()[:content])
    with pytest.raises(DataError, match=f"{path}: not a manifest"):
        load_manifest(folder)


@pytest.mark.parametrize(
    "key", ["schema", "version", "classes", "mean", "deviation", "splits", "origin", "first_label"]
)
def test_a_manifest_without_one_of_its_keys_is_named(folder, key):
    edit(folder, lambda data: data.pop(key))
    with pytest.raises(DataError, match=f"{folder / FILE_NAME}: .*{key}"):
        load_manifest(folder)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"mean": [0.0, 0.0, 0.0]}, "was edited"),
        ({"schema": 1}, "schema 1 is not supported, only 2"),
    ],
)
def test_an_edited_manifest_is_named(folder, change, words):
    edit(folder, lambda data: data.update(change))
    with pytest.raises(DataError, match=f"{folder / FILE_NAME}: {words}"):
        load_manifest(folder)


def test_an_edited_command_is_allowed(folder):
    edit(folder, lambda data: data["origin"].update(command="moved by hand"))
    assert load_manifest(folder).origin.command == "moved by hand"


def test_all_shards_that_do_not_fit_are_listed_at_once(folder):
    (folder / "train-0.tfrecord").unlink()
    (folder / "train-1.tfrecord").write_bytes(b"")
    (folder / "validation-0.tfrecord").unlink()
    with pytest.raises(DataError) as caught:
        load_manifest(folder)
    message = str(caught.value)
    assert "train-0.tfrecord: missing" in message
    assert "train-1.tfrecord: 0 bytes, not 40" in message
    assert "validation-0.tfrecord: missing" in message


def test_of_very_many_faults_twenty_are_listed_and_the_rest_counted(tmp_path):
    shards = tuple(Shard(f"{n:03d}.tfrecord", 1, 1, "a" * 64, (0,)) for n in range(25))
    splits = {"train": Split(shards, (25, 0, 0), ("PNG",))}
    replace(MANIFEST, splits=splits).save(tmp_path)
    with pytest.raises(DataError, match=r"\.\.\. and 5 more") as caught:
        load_manifest(tmp_path)
    assert str(caught.value).count(": missing") == 20


def test_class_counts_that_do_not_add_up_are_named(folder):
    train = replace(MANIFEST.splits["train"], class_counts=(70, 0, 4))
    replace(MANIFEST, splits={**MANIFEST.splits, "train": train}).save(folder)
    with pytest.raises(DataError, match="train: 74 images in classes, 73 in shards"):
        load_manifest(folder)


@pytest.mark.parametrize(("split", "empty"), [("train", ["dog"]), ("validation", ["emu"])])
def test_classes_without_an_image_are_found(split, empty):
    assert empty_classes(MANIFEST, split) == empty
