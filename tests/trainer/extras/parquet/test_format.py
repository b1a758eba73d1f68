"""Parquet files, read in place of TFRecords: the same images, the same promises."""

import re
from dataclasses import replace
from itertools import islice, pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf

from tests.trainer.support.command import TINY, final_state, metrics
from tests.trainer.support.data_sets.parquet_files import (
    describe,
    flip,
    pictures,
    place_of,
    table,
    write_file,
    write_split,
)
from tests.trainer.support.data_sets.records import plain_record
from tests.trainer.support.data_sets.sequence import images_read
from tests.trainer.support.forked import fork_trainer
from trainer.cli import main
from trainer.config import DataConfig
from trainer.data import reader
from trainer.data.corruption import find_damage
from trainer.data.formats import tfrecord
from trainer.data.formats.record_format import record_format
from trainer.data.manifest import check_trainable, load_manifest
from trainer.data.pipeline import evaluation_batches, make_order, training_batches
from trainer.data.prepare.options import VerifyOptions
from trainer.data.reader import unreadable
from trainer.data.source import OVERHEAD_BYTES, Source, input_memory
from trainer.data.verify import verify
from trainer.errors import DataError
from trainer.extras.parquet.format import UNFIT
from trainer.extras.segmentation.leaf import SEGMENTATION

CONFIG = DataConfig(source="tfrecords", dir=".", streams=4, shuffle_window=7)
NUMBERED = [plain_record(number, number % 3) for number in range(101)]


def source_of(folder: Path, split: str = "train", config: DataConfig = CONFIG) -> Source:
    manifest = load_manifest(folder)
    return Source(
        manifest.folder(folder),
        manifest.splits[split],
        len(manifest.classes),
        8,
        config,
        3,
        format=record_format(manifest),
    )


def read(source: Source) -> list[bytes]:
    """The images of an epoch, read by one rank."""
    return images_read(source, 1, 0, source.split.examples)


@pytest.fixture(scope="module")
def numbered(tmp_path_factory):
    """101 images in three files with row groups of 8, described."""
    folder = tmp_path_factory.mktemp("parquet")
    write_split(folder, "train", NUMBERED, files=3, rows=8)
    write_split(folder, "validation", NUMBERED[:37], files=2, rows=5)
    describe(folder)
    return folder


@pytest.fixture
def noise(tmp_path, monkeypatch):
    """150 images of noise in two files with row groups of 20, described."""
    monkeypatch.setattr(reader, "PAUSES", (0.0, 0.0))
    write_split(tmp_path / "set", "train", pictures(150), rows=20)
    write_split(tmp_path / "set", "validation", pictures(30, 1000), rows=20)
    describe(tmp_path / "set")
    return tmp_path / "set"


SECOND = "data/train-00001-of-00002.parquet"


def test_row_groups_are_permuted_and_not_only_files(numbered):
    source = source_of(numbered)
    order = make_order(replace(source, config=replace(CONFIG, streams=1)), 1)
    windows = islice(order.readings(0, 0)[0][0](), 20)
    blocks = [segment.block for window in windows for segment in window.segments]
    firsts = list(dict.fromkeys(blocks))
    assert len(source.counts) == 15
    assert firsts[:15] != sorted(firsts[:15])
    files = [source.shard(block).file for block in firsts[:15]]
    assert sum(a != b for a, b in pairwise(files)) > 3


def test_batches_are_those_of_tfrecords_with_the_same_images(tmp_path, monkeypatch):
    """With a shard in the place of each row group, so that both have the same order."""
    records = pictures(90)
    write_split(tmp_path / "p", "train", records, files=1, rows=30)
    write_split(tmp_path / "p", "validation", records[:40], files=1, rows=40)
    describe(tmp_path / "p")
    (tmp_path / "t").mkdir()
    config = replace(CONFIG, shuffle_window=12)
    written = tfrecord.write_split(tmp_path / "t", "train", records, 3, 3)
    ours = source_of(tmp_path / "p", config=config)
    theirs = Source(tmp_path / "t", written, 3, 8, config, 3)
    held = source_of(tmp_path / "p", "validation", config)
    also_held = replace(
        theirs, split=tfrecord.write_split(tmp_path / "t", "validation", records[:40], 1, 3)
    )
    pairs = [
        (training_batches(source, 1, 2, 8, 16, 1).take(12) for source in (ours, theirs)),
        (evaluation_batches(source, 1, 2, 8, 1) for source in (held, also_held)),
    ]
    for one, other in pairs:
        count = 0
        for a, b in zip(one.as_numpy_iterator(), other.as_numpy_iterator(), strict=True):
            count += 1
            assert a.keys() == b.keys()
            for key in a:
                np.testing.assert_array_equal(a[key], b[key])
        assert count > 2


def an_epoch(folder: Path) -> str | None:
    """Read the training images; return the fault that ends it."""
    source = source_of(folder)
    with pytest.raises(tf.errors.InvalidArgumentError) as raised:
        read(source)
    return unreadable(raised.value)


def faults(folder: Path, capsys, **options) -> list[str]:
    with pytest.raises(DataError):
        verify(folder, VerifyOptions(str(folder), processes=1, **options))
    return [line for line in capsys.readouterr().out.splitlines() if line.startswith(("data", "t"))]


def test_a_flipped_byte_of_an_image_is_named_with_its_row_group(noise, capfd):
    path = noise / SECOND
    # Image 75 + 42 is in the third row group of the second file.
    flip(path, place_of(path, pictures(150)[75 + 42]))
    wanted = f"{SECOND}, row group 2: "
    assert an_epoch(noise) == wanted + f"cannot be read ({UNFIT})"
    assert "Traceback" not in capfd.readouterr().err
    assert faults(noise, capfd) == [wanted + UNFIT]
    source = source_of(noise)
    block = next(i for i, (shard, n) in enumerate(source.blocks) if (shard.file, n) == (SECOND, 2))
    assert find_damage(source, lambda _: (block, 2), [0]) == (
        f"{SECOND}, row group 2, row 2: cannot be read ({UNFIT})"
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_a_flipped_byte_anywhere_is_found_by_verify_and_never_trained_on(noise, capsys, seed):
    path = noise / SECOND
    before = read(source_of(noise))
    flip(path, int(np.random.default_rng(seed).integers(path.stat().st_size)))
    assert all(SECOND in line for line in faults(noise, capsys))
    # What training does not read, such as the images' paths, need not stop it.
    after, found = None, ""
    try:
        after = read(source_of(noise))
    except tf.errors.InvalidArgumentError as error:
        found = unreadable(error) or ""
    assert after == before or SECOND in found


DAMAGE = {
    "cut": (lambda path: path.write_bytes(path.read_bytes()[:-9]), "magic bytes"),
    "of other row groups": (
        lambda path: write_file(path, table(pictures(75)), rows=75),
        "do not match their checksum|ends before it",
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_named(noise, capfd, damage):
    # Source reads by the manifest, even after the file has changed since it was opened.
    source = source_of(noise)
    break_, words = DAMAGE[damage]
    break_(noise / SECOND)
    with pytest.raises(tf.errors.InvalidArgumentError) as raised:
        read(source)
    found = unreadable(raised.value) or ""
    assert re.match(rf"{SECOND}, row group \d+.*: cannot be read \(.*({words})", found), found
    out, err = capfd.readouterr()
    assert f"{SECOND}: could not be read (attempt 2 of 3)" in re.sub(
        r"data/train-00000\S+ ", "", out
    )
    assert "Traceback" not in err
    assert any(SECOND in line for line in faults(noise, capfd))


def test_verify_and_inspect_read_a_good_set(noise, capsys):
    verify(noise, VerifyOptions(str(noise), deep=True, processes=1))
    assert f"{noise}: 4 shards, 180 records, 0 faults" in capsys.readouterr().out
    assert main(["inspect", str(noise)]) == 0
    page = (noise / "inspect.html").read_text()
    assert re.search(r"data/train-00000-of-00002.parquet, row group \d, row \d", page)


def test_masks_are_refused(numbered):
    with pytest.raises(DataError, match=r"hold labels, and no other target.*prepare segmentation"):
        check_trainable(load_manifest(numbered), None, "it", SEGMENTATION)


def test_the_bound_on_memory_counts_a_row_group_for_each_stream(numbered):
    split = load_manifest(numbered).splits["train"]
    config = replace(CONFIG, streams=4, shuffle_window=10, decode_threads=1)
    image = split.bytes / split.examples
    held = 2 * 2 * 10 + (4 + 2) * 32 + 2 * 8 + 2 * 2 * 8
    batches = ((2 + 2) * 6 + 2 * 32) * 8 * 8 * 3
    found = input_memory(split, config, ranks=2, batch_size=6, image_size=8)
    assert found == round(held * image + batches) + OVERHEAD_BYTES


def test_nulls_of_columns_that_are_not_read_do_no_harm(tmp_path):
    content = table(pictures(30))
    more = content.append_column("note", pa.nulls(30, pa.string()))
    write_file(tmp_path / "train.parquet", more.append_column("other", pa.array(range(30))))
    write_file(tmp_path / "validation.parquet", more)
    manifest = describe(tmp_path)
    assert manifest.splits["train"].class_counts == (10, 10, 10)


@pytest.mark.long
def test_files_described_from_the_command_line_are_trained_on_and_resumed_to_the_bit(
    noise, tmp_path, monkeypatch, capsys
):
    """By two ranks, in the middle of an epoch of 150 images, with a manifest elsewhere."""
    monkeypatch.chdir(tmp_path)
    assert main(["prepare", "parquet", "--input", str(noise), "--output", "described"]) == 0
    assert "150 training images, 30 held-out images, 3 classes" in capsys.readouterr().out
    options = [
        *("train", *TINY, "--data.source", "tfrecords", "--data.dir", "described"),
        *("--batch-size", "8", "--data.shuffle-window", "16"),
    ]

    def train(name: str, steps: int) -> None:
        done = fork_trainer(*options, "--name", name, "--max-steps", str(steps), cwd=tmp_path)
        assert done.returncode == 0, done.stderr

    train("whole", 14)
    for steps in (5, 14):
        train("parts", steps)
    runs = tmp_path / "runs"
    assert final_state(runs / "parts") == final_state(runs / "whole")
    assert [line["attempt"] for line in metrics(runs / "parts", "start")] == [1, 2]
