"""Parquet files of other tools, described where they are."""

import base64
import re
import shutil
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest

from common.arguments import parse
from common.errors import ConfigError
from tests import ROOT
from tests.trainer.support.data_sets.image_folders import content
from tests.trainer.support.data_sets.image_samples import samples
from tests.trainer.support.data_sets.parquet_files import (
    CLASSES,
    describe,
    pictures,
    table,
    write_file,
    write_split,
)
from trainer.data.manifest import (
    FILE_NAME,
    Sides,
    load_manifest,
    parse_manifest,
    read_manifest,
)
from trainer.data.prepare.folder import prepare_folder
from trainer.data.prepare.options import PrepareFolderOptions, VerifyOptions
from trainer.data.verify import verify
from trainer.errors import DataError
from trainer.extras.parquet import files as parquet_files
from trainer.extras.parquet.describe import prepare_parquet
from trainer.extras.parquet.format import Columns
from trainer.extras.parquet.options import PrepareParquetOptions


@pytest.fixture
def files(tmp_path):
    """A folder as Hugging Face publishes it."""
    folder = tmp_path / "set"
    write_split(folder, "train", pictures(250))
    write_split(folder, "validation", pictures(30, 1000), files=1)
    (folder / "README.md").write_text("a card")
    return folder


def put(folder, train, validation=None):
    """Write two files with the given tables."""
    write_file(folder / "train.parquet", train)
    write_file(folder / "validation.parquet", train if validation is None else validation)
    return folder


def refused(folder, words, **options):
    with pytest.raises(DataError, match=words):
        describe(folder, **options)
    assert not (folder / FILE_NAME).exists()


def test_only_the_manifest_is_written(files):
    before = content(files)
    manifest = describe(files)
    after = content(files)
    assert set(after) - set(before) == {FILE_NAME}
    assert {name: after[name] for name in before} == before
    assert load_manifest(files) == manifest


def test_what_the_files_say_of_themselves_is_in_the_manifest(files):
    manifest = describe(files)
    assert manifest.classes == CLASSES
    assert Columns(**manifest.columns) == Columns("image", "label", "bytes")
    train = manifest.splits["train"]
    assert [shard.file for shard in train.shards] == [
        f"data/train-0000{number}-of-00002.parquet" for number in range(2)
    ]
    assert [shard.blocks for shard in train.shards] == [(100, 25)] * 2
    assert [len(set(shard.block_hashes)) for shard in train.shards] == [2, 2]
    assert train.class_counts == (84, 83, 83)
    assert train.encodings == ("JPEG",)
    assert train.sides != Sides()
    assert manifest.origin.treatment == {"left as they are": 280}
    assert 100 < manifest.normalization.mean[0] < 155


def test_the_same_files_have_the_same_version_wherever_they_are(files, tmp_path):
    version = describe(files).version
    assert describe(shutil.copytree(files, tmp_path / "copy")).version == version
    assert describe(files, processes=2).version == version
    other = describe(files, output=str(tmp_path / "beside"))
    assert other.version == version


def test_a_manifest_elsewhere_refers_to_the_files(files, tmp_path, capsys):
    beside, before = tmp_path / "beside", content(files)
    describe(files, output=str(beside))
    assert content(files) == before
    assert [path.name for path in beside.iterdir()] == [FILE_NAME]
    manifest = load_manifest(beside)
    assert manifest.folder(beside) == files
    verify(beside, VerifyOptions(str(beside), processes=1))
    assert "280 records, 0 faults" in capsys.readouterr().out
    shutil.rmtree(files / "data")
    with pytest.raises(DataError, match="missing"):
        load_manifest(beside)


def test_an_older_trainer_refuses_the_manifest_rather_than_read_it_as_tfrecords(files):
    describe(files)
    content = (files / FILE_NAME).read_bytes()
    assert b'"schema": 3' in content
    with pytest.raises(DataError, match="was edited"):
        parse_manifest(content.replace(b'"schema": 3', b'"schema": 2'), "it")


def test_what_a_download_left_in_hidden_folders_is_not_read(files):
    write_file(files / ".cache" / "train-00009.parquet", table(pictures(5)))
    assert describe(files).splits["train"].examples == 250


COLUMNS = {
    "binary": pa.binary(),
    "large binary": pa.large_binary(),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_a_column_of_images_may_be_binary(tmp_path, kind):
    records = pictures(20)
    encoded = pa.array([record.encoded for record in records], COLUMNS[kind])
    labels = pa.array([record.label for record in records], pa.int32())
    put(tmp_path, pa.table({"content": encoded, "class": labels}))
    manifest = describe(tmp_path)
    assert Columns(**manifest.columns) == Columns("content", "class")
    assert manifest.classes == ("class 0", "class 1", "class 2")
    verify(tmp_path, VerifyOptions(str(tmp_path), deep=True, processes=1))


def test_columns_and_names_can_be_given(tmp_path):
    records = pictures(20)
    whole = table(records)
    more = whole.append_column("fine", pa.array([record.label % 2 for record in records]))
    put(tmp_path / "set", more)
    (tmp_path / "names.txt").write_text("odd\neven\n")
    manifest = describe(
        tmp_path / "set", label_column="fine", class_names=str(tmp_path / "names.txt")
    )
    assert Columns(**manifest.columns) == Columns("image", "fine", "bytes")
    assert manifest.classes == ("odd", "even")
    assert sum(manifest.splits["train"].class_counts) == 20


# Refusals.


@pytest.mark.parametrize("option", PrepareParquetOptions.GONE)
def test_an_option_of_copies_is_refused_with_what_to_use(option):
    with pytest.raises(ConfigError, match="use `prepare folder`"):
        parse(PrepareParquetOptions(), "x", [f"--{option.replace('_', '-')}", "1"])


def test_the_program_of_the_page_writes_images_that_can_be_prepared(files, tmp_path, monkeypatch):
    page = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
    program = page.partition("```python\n")[2].partition("```")[0]
    files.rename(tmp_path / "existing-files")
    monkeypatch.chdir(tmp_path)
    exec(compile(program, "data.md", "exec"), {})
    options = PrepareFolderOptions(input="photos", output="out", processes=1)
    manifest = prepare_folder(options, "x")
    described = prepare_parquet(PrepareParquetOptions(input="existing-files"), "x")
    counts = [sum(split.examples for split in one.splits.values()) for one in (manifest, described)]
    assert counts[0] == counts[1] > 100
    assert len(manifest.classes) == len(described.classes)


def test_a_folder_must_be_named():
    with pytest.raises(ConfigError, match="--input: name the folder"):
        prepare_parquet(PrepareParquetOptions(), "")


def test_an_unknown_column_is_told_with_those_that_are_there(files):
    refused(
        files,
        r"has no column 'picture' \(--image-column\); its columns are image \(struct<.*label",
        image_column="picture",
    )
    refused(files, "has no column 'y' .--label-column.*its columns are image", label_column="y")
    refused(files, "column 'image' is not one of integers", label_column="image")
    refused(files, "column 'label' is not one of encoded images", image_column="label")


def test_columns_that_are_ambiguous_must_be_named(tmp_path):
    records = pictures(9)
    labels = pa.array([record.label for record in records])
    encoded = pa.array([record.encoded for record in records])
    put(tmp_path, pa.table({"a": encoded, "b": encoded, "label": labels}))
    refused(tmp_path, "which column is the image is not clear; name it with --image-column")
    put(tmp_path, pa.table({"a": encoded, "x": labels, "y": labels}))
    refused(tmp_path, "which column is the label is not clear; name it with --label-column")


@pytest.mark.parametrize("mask", ["mask", "label"])
@pytest.mark.parametrize("numbers", [("image_id",), ("width", "height"), ()])
def test_images_and_masks_without_a_class_are_refused_whatever_numbers_they_have(
    tmp_path, numbers, mask
):
    encoded = [record.encoded for record in pictures(9)]
    columns = {"image": encoded, mask: encoded, **dict.fromkeys(numbers, range(9))}
    put(tmp_path, pa.table(columns))
    words = rf"one of labels, but another one of images, '{mask}'.*prepare segmentation"
    refused(tmp_path, words, image_column="image")
    put(tmp_path, pa.table(columns | {"grade": range(9)}))
    asked = PrepareParquetOptions(input=str(tmp_path), image_column="image", label_column="grade")
    prepare_parquet(asked, "")


def test_a_column_of_labels_is_named_though_there_are_further_images(tmp_path):
    records = pictures(9)
    encoded = [record.encoded for record in records]
    texts = [float(record.label) for record in records]
    put(tmp_path, pa.table({"image": encoded, "thumb": encoded, "label": texts}))
    refused(tmp_path, "column 'label' is of the type double", image_column="image")


def test_labels_that_are_no_integers_are_told_at_once(tmp_path):
    records = pictures(9)
    encoded = [record.encoded for record in records]
    values = pa.array([float(record.label) for record in records])
    put(tmp_path, pa.table({"image": encoded, "label": values, "age": range(9)}))
    words = "column 'label' is of the type double, but labels are integers from 0; write them as"
    refused(tmp_path, words)
    prepare_parquet(PrepareParquetOptions(input=str(tmp_path), label_column="age"), "")


def test_a_class_without_training_images_is_warned_of(tmp_path, capsys):
    records = pictures(9)
    put(tmp_path, table([r for r in records if r.label != 1]), table(records))
    prepare_parquet(PrepareParquetOptions(input=str(tmp_path)), "")
    warnings = capsys.readouterr().err.splitlines()
    assert warnings == ["warning: no images in train of 1 class: bee"]


def test_images_that_are_not_upright_and_opaque_are_treated_while_they_are_read(tmp_path, capsys):
    kinds = samples()
    names = ("JPEG", "JPEG of orientation 6", "CMYK JPEG", "PNG with transparency")
    rows = [{"bytes": kinds[name].data, "path": ""} for name in names]
    put(tmp_path, pa.table({"image": rows, "label": [0, 1, 0, 1]}))
    manifest = prepare_parquet(PrepareParquetOptions(input=str(tmp_path)), "")
    train = manifest.splits["train"]
    assert (train.treated, train.encodings) == (3, ("JPEG", "PNG"))
    assert read_manifest(tmp_path) == manifest
    # Another warning counts the metadata that stay in the files.
    [warning] = [one for one in capsys.readouterr().err.splitlines() if "treated" in one]
    assert warning.startswith("warning: 6 images are treated whenever read")
    assert "row group 0, row 1: JPEG, turned upright" in warning
    verify(tmp_path, VerifyOptions(deep=True, processes=1))


def test_fields_whose_names_or_types_only_look_like_those_of_images_are_no_images(tmp_path):
    records = pictures(9)
    labels = pa.array([record.label for record in records])
    nested = [{"img_bytes": r.encoded, "inner": {"bytes": r.encoded}} for r in records]
    elapsed = pa.array([timedelta(seconds=1)] * 9).cast(pa.duration("s"))
    put(tmp_path, pa.table({"image": nested, "label": labels, "seconds": elapsed}))
    refused(tmp_path, "which column is the image is not clear; name it with --image-column")
    refused(tmp_path, "column 'image' is not one of encoded images", image_column="image")
    points = pa.array([[0.5, 2.0]] * 9, pa.list_(pa.float32()))
    put(tmp_path, pa.table({"image": [r.encoded for r in records], "label": points}))
    refused(tmp_path, "column 'label' is not one of integers", label_column="label")


def with_row(number, **changes):
    records = pictures(150)
    rows = [{"image": {"bytes": r.encoded, "path": r.filename}, "label": r.label} for r in records]
    rows[number].update(changes)
    return pa.Table.from_pylist(rows, schema=table(records).schema)


FAULTY = {
    "no label": (with_row(117, label=None), "has no label"),
    "a label that is negative": (with_row(117, label=-1), "label -1 is not a class, 0 to 2"),
    "a label too large": (with_row(117, label=3), "label 3 is not a class, 0 to 2"),
    "no image": (with_row(117, image=None), "has no image in it"),
    "no bytes": (
        with_row(117, image={"bytes": None, "path": "a.jpg"}),
        "has no image in it, at most a path; write the files with the images inside",
    ),
    "empty": (with_row(117, image={"bytes": b"", "path": None}), "has no image in it"),
}


@pytest.mark.parametrize("fault", FAULTY)
def test_a_row_that_cannot_be_trained_on_is_named(tmp_path, fault):
    content, words = FAULTY[fault]
    put(tmp_path, content)
    refused(tmp_path, rf"train.parquet, row group 1, row 17: {words}")


def test_row_groups_that_are_too_large_are_refused_with_their_size(files, monkeypatch):
    monkeypatch.setattr(parquet_files, "LARGEST_ROW_GROUP", 50_000)
    refused(
        files,
        r"train-00000-of-00002.parquet: row group 0: has \d+ MB of images, more than \d+ MB.*"
        "write the files again with fewer rows in a row group, such as 100",
    )


def test_row_groups_that_take_much_memory_are_told_with_what_to_do(files, monkeypatch, capsys):
    describe(files)
    assert "row groups" not in capsys.readouterr().out
    monkeypatch.setattr("trainer.extras.parquet.describe._LARGE_ROW_GROUP", 20_000)
    describe(files)
    told = capsys.readouterr().out
    assert re.search(r"row groups have up to 100 images, about \d+ MB, and each stream", told)
    assert "fewer rows in a row group" in told


class Keys(pe.KmsClient):  # type: ignore[misc]
    """Keys that are stored as they are."""

    def __init__(self, _):
        pe.KmsClient.__init__(self)

    def wrap_key(self, key_bytes, master_key_identifier):
        return base64.b64encode(key_bytes)

    def unwrap_key(self, wrapped_key, master_key_identifier):
        return base64.b64decode(wrapped_key)


@pytest.mark.parametrize("readable", [False, True])
def test_encrypted_files_are_refused(tmp_path, readable):
    """Even where the footer can be read by everyone."""
    put(tmp_path, table(pictures(9)))
    settings = pe.EncryptionConfiguration(
        footer_key="a",
        column_keys={"b": ["image.bytes", "label"]},
        plaintext_footer=readable,
        double_wrapping=False,
    )
    properties = pe.CryptoFactory(Keys).file_encryption_properties(
        pe.KmsConnectionConfig(), settings
    )
    whole = table(pictures(9))
    with pq.ParquetWriter(
        tmp_path / "train.parquet", whole.schema, encryption_properties=properties
    ) as writer:
        writer.write_table(whole)
    refused(tmp_path, "train.parquet.*encrypt.*write it again without encryption")


@pytest.mark.parametrize("content", [b"PAR1", b"version https://git-lfs.github.com/spec/v1\n"])
def test_a_file_that_is_not_parquet_is_named(files, content):
    path = files / "data" / "train-00001-of-00002.parquet"
    path.write_bytes(content)
    refused(files, rf"{path}: is not a Parquet file .*copy it again")


def test_a_damaged_row_group_is_named(files):
    path = files / "data" / "train-00001-of-00002.parquet"
    start = pq.read_metadata(path).row_group(1).column(0).dictionary_page_offset
    content = bytearray(path.read_bytes())
    content[start : start + 200] = np.random.default_rng(0).bytes(200)
    path.write_bytes(content)
    refused(files, rf"{path}, row group 1: cannot be read")


def test_files_of_another_data_set_are_named(files):
    write_split(files, "validation", pictures(30), files=1, classes=("a", "b", "c"))
    refused(files, "validation-00000-of-00001.parquet: has other class names than")
    name = files / "data" / "validation-00000-of-00001.parquet"
    write_file(name, table(pictures(30)).rename_columns(["img", "label"]))
    refused(files, "has other columns than")
