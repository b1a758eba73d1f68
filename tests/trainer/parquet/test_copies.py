"""Parquet files that are copied into shards: the same images, prepared as any other files."""

import errno
import os
import time
from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from common.errors import ConfigError, UserError
from tests.trainer.support.command import TIMEOUT, run_trainer, start_trainer
from tests.trainer.support.data_sets.image_folders import content, records, rejected, stamps
from tests.trainer.support.data_sets.parquet_files import (
    CLASSES,
    describe,
    pictures,
    table,
    write_file,
    write_split,
)
from trainer.data.manifest import load_manifest
from trainer.data.prepare.options import VerifyOptions
from trainer.data.verify import verify
from trainer.errors import DataError
from trainer.parquet import copies
from trainer.parquet import files as parquet_files
from trainer.parquet.copies import describe_or_copy
from trainer.parquet.options import PrepareParquetOptions

TRAIN, HELD = pictures(150), pictures(30, 1000)


@pytest.fixture
def files(tmp_path):
    """A folder as Hugging Face publishes it, with row groups of 20."""
    write_split(tmp_path / "set", "train", TRAIN, files=3, rows=20)
    write_split(tmp_path / "set", "validation", HELD, files=1, rows=20)
    return tmp_path / "set"


def copy(folder, output, **options):
    wanted = {"input": str(folder), "output": str(output), "processes": 1, "copy": True, **options}
    return describe_or_copy(PrepareParquetOptions(**wanted), "the command")


def with_row(number, **changes):
    """A table of 150 rows, of which one is changed."""
    content = [{"image": {"bytes": r.encoded, "path": r.filename}, "label": r.label} for r in TRAIN]
    content[number].update(changes)
    return pa.Table.from_pylist(content, schema=table(TRAIN).schema)


def test_every_row_is_stored_once_with_its_label_and_not_a_byte_changed(files, tmp_path):
    before = content(files)
    manifest = copy(files, tmp_path / "out")
    assert content(files) == before
    assert manifest.classes == CLASSES
    assert not manifest.format
    for split, wanted in (("train", TRAIN), ("validation", HELD)):
        found = records(tmp_path / "out", split)
        assert Counter((r.encoded, r.label, r.text) for r in found) == Counter(
            (r.encoded, r.label, CLASSES[r.label]) for r in wanted
        )
    # In an order of their own, with names that lead back to the rows.
    names = [record.filename for record in records(tmp_path / "out", "train")]
    assert names != sorted(names)
    assert "data/train-00001-of-00003.parquet/row group 2/row 9" in names
    verify(tmp_path / "out", VerifyOptions(deep=True, processes=1))
    assert not (tmp_path / "out" / ".parts").exists()


def test_without_a_held_out_split_a_part_is_held_out(tmp_path):
    write_split(tmp_path / "set", "train", TRAIN, files=2)
    manifest = copy(tmp_path / "set", tmp_path / "out", held_out=0.2)
    assert [manifest.splits[split].class_counts for split in ("train", "validation")] == [
        (40, 40, 40),
        (10, 10, 10),
    ]
    write_file(tmp_path / "one" / "0000.parquet", table(TRAIN))
    assert copy(tmp_path / "one", tmp_path / "other").splits["validation"].examples == 15


def test_images_are_encoded_again_if_asked(files, tmp_path):
    manifest = copy(files, tmp_path / "out", reencode="6:50")
    assert manifest.origin.treatment == {"encoded again: JPEG": 180}


FAULTY = {
    "no label": ({"label": None}, "has no label"),
    "unlabelled": ({"label": -1}, "has no label"),
    "a label too large": ({"label": 3}, "has the label 3, which is not a class, 0 to 2"),
    "no image": ({"image": None}, "has no image in it, at most a path"),
    "no bytes": ({"image": {"bytes": None, "path": "a.jpg"}}, "has no image in it, at most a path"),
    "empty": ({"image": {"bytes": b"", "path": None}}, "has no image in it, at most a path"),
    "no kind of image": ({"image": {"bytes": b"x" * 99, "path": None}}, "is not an image of a kn"),
}


@pytest.mark.parametrize("fault", FAULTY)
def test_a_row_without_a_usable_image_is_rejected_with_its_row_group(files, tmp_path, fault):
    change, reason = FAULTY[fault]
    write_split(files, "train", TRAIN, files=1)
    for old in files.glob("data/train-*"):
        old.unlink()
    write_file(files / "data" / "train.parquet", with_row(117, **change))
    assert copy(files, tmp_path / "out").splits["train"].examples == 149
    _, (split, name, why) = rejected(tmp_path / "out")
    assert (split, name) == ("train", "data/train.parquet/row group 1/row 17")
    assert why.startswith(reason)


def test_files_whose_row_groups_are_too_large_in_place_are_copied(files, tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_files, "LARGEST_ROW_GROUP", 5_000)
    with pytest.raises(DataError, match="or copy them with --copy True"):
        describe(files)
    assert copy(files, tmp_path / "out").splits["train"].examples == 150


def test_a_damaged_row_group_is_named(files, tmp_path):
    path = files / "data" / "train-00001-of-00003.parquet"
    start = pq.read_metadata(path).row_group(1).column(0).dictionary_page_offset
    damaged = bytearray(path.read_bytes())
    damaged[start : start + 200] = np.random.default_rng(0).bytes(200)
    path.write_bytes(damaged)
    with pytest.raises(DataError, match=rf"{path}, row group 1: cannot be read .*copy the file"):
        copy(files, tmp_path / "out")


def test_damaged_labels_are_named_before_anything_is_written(files, tmp_path):
    path = files / "data" / "train-00001-of-00003.parquet"
    column = pq.read_metadata(path).row_group(1).column(2)
    damaged = bytearray(path.read_bytes())
    start = column.dictionary_page_offset
    damaged[start : start + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    path.write_bytes(damaged)
    with pytest.raises(DataError, match=rf"{path}: labels cannot be read .*copy the file again"):
        copy(files, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_file_that_changes_meanwhile_is_named(files, tmp_path, monkeypatch):
    path = files / "data" / "train-00001-of-00003.parquet"
    read = copies.row_images

    def touched(*args):
        os.utime(path, (1, 1))
        return read(*args)

    monkeypatch.setattr(copies, "row_images", touched)
    with pytest.raises(
        DataError, match=r"00001-of-00003\.parquet: has changed since it was listed"
    ):
        copy(files, tmp_path / "out")


def test_options_of_copies_are_refused_in_place_and_the_reverse(files):
    with pytest.raises(ConfigError) as raised:
        describe(files, reencode="292:90", held_out=0.3)
    assert [line.split(";")[0] for line in raised.value.problems] == [
        "--reencode: applies to copies only",
        "--held-out: applies to copies only",
    ]
    with pytest.raises(ConfigError, match=r"--output: .* is --input; choose another folder"):
        copy(files, files)
    with pytest.raises(ConfigError, match="--input: name the folder"):
        copy("", files)


def test_a_complete_copy_is_not_unpacked_again(files, tmp_path, monkeypatch, capsys):
    manifest = copy(files, tmp_path / "out")
    before = stamps(tmp_path / "out")
    monkeypatch.delattr(copies, "row_images")
    assert copy(files, tmp_path / "out") == manifest
    assert stamps(tmp_path / "out") == before
    assert "is already complete" in capsys.readouterr().out


def test_images_of_another_column_are_another_data_set(tmp_path):
    whole = table(TRAIN)
    reversed_images = whole.column("image").take(pa.array(range(149, -1, -1)))
    write_file(tmp_path / "train.parquet", whole.append_column("other", reversed_images))
    options = {"label_column": "label", "image_column": "image"}
    copy(tmp_path, tmp_path / "out", **options)
    with pytest.raises(DataError, match="contains another data set"):
        copy(tmp_path, tmp_path / "out", **options | {"image_column": "other"})


def test_an_interrupted_copy_continues_with_the_files_that_are_missing(
    files, tmp_path, monkeypatch
):
    copy(files, tmp_path / "undisturbed")
    read, names = copies.row_images, []

    def failing(path, columns):
        names.append(path.rpartition("/")[2])
        if len(names) == 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return read(path, columns)

    monkeypatch.setattr(copies, "row_images", failing)
    with pytest.raises(UserError, match=r"cannot be unpacked into .*\(No space left"):
        copy(files, tmp_path / "out")
    copy(files, tmp_path / "out")
    assert len(names) == 5
    assert names[2] == names[3]
    assert content(tmp_path / "out") == content(tmp_path / "undisturbed")


MOMENTS = ("inputs", "*.images", "*.ends", "*.json")
"""Files that appear one after the other in the folder of an unfinished data set."""


@pytest.mark.long
def test_a_copy_that_is_killed_at_any_moment_ends_with_the_same_bytes(files, tmp_path):
    options = ["--input", "set", "--copy", "True", "--processes", "1"]
    copy(files, tmp_path / "undisturbed")
    for moment in MOMENTS:
        process = start_trainer("prepare", "parquet", *options, "--output", "out", cwd=tmp_path)
        while process.poll() is None and not list((tmp_path / "out" / ".parts").glob(moment)):
            time.sleep(0.002)
        process.kill()
        process.communicate(timeout=TIMEOUT)
    done = run_trainer("prepare", "parquet", *options, "--output", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found, wanted = content(tmp_path / "out"), content(tmp_path / "undisturbed")
    # Of the manifest only the command line differs.
    assert found.pop("manifest.json") != wanted.pop("manifest.json")
    assert found == wanted
    manifests = [load_manifest(tmp_path / name) for name in ("out", "undisturbed")]
    assert manifests[0].version == manifests[1].version


@pytest.mark.slow
def test_the_number_of_processes_does_not_change_a_byte(files, tmp_path):
    copy(files, tmp_path / "alone", shard_mb=1)
    copy(files, tmp_path / "several", processes=3, shard_mb=1)
    assert content(tmp_path / "several") == content(tmp_path / "alone")


def test_another_seed_gives_another_order(files, tmp_path):
    one, other = (copy(files, tmp_path / str(seed), seed=seed) for seed in range(2))
    assert replace(one.splits["train"], shards=()) == replace(other.splits["train"], shards=())
    assert one.version != other.version
