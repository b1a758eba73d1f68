"""The manifest of a data set, and how its faults are told."""

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
    origin=Origin("python -m trainer prepare x", "abc", {"copied untouched": 75}),
)


@pytest.fixture
def folder(tmp_path):
    """A data set of that manifest; what is in the shards does not matter to it."""
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


def test_the_version_survives_saving(folder):
    assert load_manifest(folder).version == MANIFEST.version


def test_the_version_ignores_where_the_data_came_from():
    assert replace(MANIFEST, origin=Origin("another")).version == MANIFEST.version


@pytest.mark.parametrize(
    "change",
    [
        {"classes": ("cat", "dog", "fox")},
        {"normalization": Normalization((1.5, 2.25, 3.5), (60.0, 61.5, 62.125))},
        {"normalization": Normalization((1.5, 2.25, 3.0), (60.0, 61.5, 62.0))},
        {"splits": {"train": MANIFEST.splits["train"]}},
        {"first_label": 1},
    ],
    ids=lambda change: next(iter(change)),
)
def test_the_version_depends_on_everything_else(change):
    assert replace(MANIFEST, **change).version != MANIFEST.version


def test_the_version_depends_on_the_content_of_a_shard():
    train = MANIFEST.splits["train"]
    other = replace(train, shards=(replace(train.shards[0], xxh128="d" * 64), train.shards[1]))
    assert replace(MANIFEST, splits={**MANIFEST.splits, "train": other}).version != MANIFEST.version


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(DataError, match=f"{tmp_path}/nowhere: there is no such data folder"):
        load_manifest(tmp_path / "nowhere")


def test_a_missing_manifest_is_named_with_the_command_that_writes_it(tmp_path):
    with pytest.raises(DataError, match=rf"{tmp_path}: there is no manifest\.json.*prepare"):
        load_manifest(tmp_path)


@pytest.mark.parametrize("length", [0, 1, 100, -3])
def test_half_a_manifest_is_named(folder, length):
    path = folder / FILE_NAME
    path.write_text(path.read_text()[:length])
    with pytest.raises(DataError, match=f"{path}: not a manifest"):
        load_manifest(folder)


@pytest.mark.parametrize("text", ["null", "[]", "7", '"text"', "{}", '{"schema": 2}'])
def test_json_that_is_no_manifest_is_named(folder, text):
    (folder / FILE_NAME).write_text(text)
    with pytest.raises(DataError, match=f"{folder / FILE_NAME}: not a manifest"):
        load_manifest(folder)


def test_a_manifest_is_parsed_from_bytes_that_are_in_no_folder(folder):
    assert parse_manifest((folder / FILE_NAME).read_bytes(), "store/set") == MANIFEST


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"{}", b'{"schema": 1}'])
def test_bytes_that_are_no_manifest_are_named_by_their_source(content):
    with pytest.raises(DataError, match=r"^store/set: "):
        parse_manifest(content, "store/set")


def test_bytes_that_are_no_text_are_named(folder):
    (folder / FILE_NAME).write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match=f"{folder / FILE_NAME}: not a manifest"):
        load_manifest(folder)


@pytest.mark.parametrize(
    "key", ["schema", "version", "classes", "mean", "deviation", "splits", "origin", "first_label"]
)
def test_a_manifest_without_one_of_its_keys_is_named(folder, key):
    edit(folder, lambda data: data.pop(key))
    with pytest.raises(DataError, match=f"{folder / FILE_NAME}: .*{key}"):
        load_manifest(folder)


def test_another_schema_is_named(folder):
    edit(folder, lambda data: data.update(schema=1))
    with pytest.raises(DataError, match=f"{folder / FILE_NAME}: schema 1 is not supported, only 2"):
        load_manifest(folder)


def test_an_edited_manifest_is_named(folder):
    edit(folder, lambda data: data.update(mean=[0.0, 0.0, 0.0]))
    with pytest.raises(DataError, match=f"{folder / FILE_NAME}: was edited"):
        load_manifest(folder)


def test_an_edited_command_is_allowed(folder):
    edit(folder, lambda data: data["origin"].update(command="moved by hand"))
    assert load_manifest(folder).origin.command == "moved by hand"


def test_a_missing_shard_is_named(folder):
    (folder / "train-1.tfrecord").unlink()
    with pytest.raises(DataError, match=r"train-1\.tfrecord: missing") as caught:
        load_manifest(folder)
    assert str(folder) in str(caught.value)
    assert "train-0.tfrecord" not in str(caught.value)


@pytest.mark.parametrize("size", [0, 39, 41])
def test_a_shard_of_another_size_is_named(folder, size):
    (folder / "train-1.tfrecord").write_bytes(b"x" * size)
    with pytest.raises(DataError, match=rf"train-1\.tfrecord: {size} bytes, not 40"):
        load_manifest(folder)


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


def test_examples_of_a_split_are_those_of_its_shards():
    assert MANIFEST.splits["train"].examples == 73


@pytest.mark.parametrize(("split", "empty"), [("train", ["dog"]), ("validation", ["emu"])])
def test_classes_without_an_image_are_found(split, empty):
    assert empty_classes(MANIFEST, split) == empty
