"""The records that a rank reads, and the errors about those that it cannot use."""

import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf

from tests.trainer.support.data_sets.records import plain_record, write_records
from trainer.data import reader
from trainer.data.data_set import load_data_set
from trainer.data.formats.tfrecord import write_split
from trainer.data.rank_data import RankData
from trainer.distributed.communicator import Alone
from trainer.errors import DataError
from trainer.presets import PRESETS

CONFIG = replace(PRESETS["digits"], ranks=1)


def rank_data(folder):
    config = replace(CONFIG, data=replace(CONFIG.data, source="tfrecords", dir=str(folder)))
    return RankData(config, load_data_set(config), Alone(), 1)


def train(data):
    data.open(0)
    used = 0
    try:
        for _ in iter(data.next_batch, None):
            used += CONFIG.batch_size
    except tf.errors.OpError as error:
        data.explain_training(error, used)


def explained(data, split):
    """Read until something fails, and return the error."""
    with pytest.raises(DataError) as caught:
        train(data) if split == "train" else list(data.validation())
    return str(caught.value)


RECORDS = [plain_record(number, number % 3) for number in range(200)]


def test_every_evaluation_gets_the_whole_share_once(tmp_path):
    write_records(tmp_path / "set", RECORDS, RECORDS[:11], "abc")
    data = rank_data(tmp_path / "set")
    first, second = (
        [(batch["target"].numpy(), batch["weight"].numpy()) for batch in data.validation()]
        for _ in range(2)
    )
    np.testing.assert_array_equal(first, second)
    labels, weights = (np.concatenate(column) for column in zip(*first, strict=True))
    assert list(labels[weights > 0]) == [record.label for record in RECORDS[:11]]


@pytest.mark.parametrize(
    ("split", "shard", "index"),
    [("train", "train-00001-of-00003", 100 - 66), ("validation", "validation-00000-of-00001", 7)],
)
def test_a_corrupt_image_is_named_with_shard_and_index(tmp_path, split, shard, index):
    splits = {"train": [*RECORDS], "validation": RECORDS[:11]}
    number = 100 if split == "train" else index
    splits[split][number] = replace(RECORDS[0], encoded=b"this is not a picture")
    write_records(tmp_path / "set", *splits.values(), "abc")
    message = explained(rank_data(tmp_path / "set"), split)
    assert f"{shard}.tfrecord, record {index}: cannot be read as an image (Unknown" in message
    assert "[Op:" not in message
    assert message.startswith(f"{tmp_path / 'set'}: ")
    assert message.endswith("or leave such images out with --data.on-corrupt skip")


def test_a_label_out_of_range_is_named(tmp_path):
    folder = tmp_path / "set"
    manifest = write_records(folder, RECORDS, RECORDS[:11], "abc")
    wrong = [replace(record, label=3) for record in RECORDS]
    train = replace(
        manifest.splits["train"], shards=write_split(folder, "train", wrong, 3, 4).shards
    )
    replace(manifest, splits={**manifest.splits, "train": train}).save(folder)
    message = explained(rank_data(folder), "train")
    assert re.search(r"train-0000\d-of-00003.tfrecord, record \d+: label 3 is not a class", message)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_a_flipped_byte_anywhere_in_a_shard_is_named(tmp_path, digits_folder, monkeypatch, seed):
    monkeypatch.setattr(reader, "PAUSES", (0.0, 0.0))
    folder = shutil.copytree(digits_folder, tmp_path / "digits")
    noise = np.random.default_rng(seed)
    shard = folder / f"train-{noise.integers(8):05d}-of-00008.tfrecord"
    content = bytearray(shard.read_bytes())
    content[noise.integers(len(content))] ^= 0xFF
    shard.write_bytes(content)
    message = explained(rank_data(folder), "train")
    assert re.search(rf"{shard.name}, record \d+: cannot be read", message), message
