"""The sequence of records is a promise: a run of an older version resumes with it."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest

from tests.trainer.support.data_sets import parquet_files
from tests.trainer.support.data_sets.records import plain_record
from tests.trainer.support.data_sets.sequence import images_read
from trainer.config import DataConfig
from trainer.data import images
from trainer.data.augmentations.table import drawn_patch
from trainer.data.formats import tfrecord
from trainer.data.formats.record_format import record_format
from trainer.data.manifest import load_manifest
from trainer.data.order import Segment
from trainer.data.pipeline import make_order, training_batches
from trainer.data.source import Source

CONFIG = DataConfig(source="tfrecords", dir=".", streams=8, shuffle_window=9)
RECORDS = [plain_record(number, number % 3) for number in range(331)]


def tfrecords(folder) -> Source:
    split = tfrecord.write_split(folder, "train", RECORDS, 4, 3)
    return Source(folder, split, 3, 8, CONFIG, 3)


def parquet(folder) -> Source:
    parquet_files.write_split(folder, "train", RECORDS, files=3, rows=20)
    parquet_files.write_split(folder, "validation", RECORDS[:9], files=1)
    parquet_files.describe(folder)
    manifest = load_manifest(folder)
    split = manifest.splits["train"]
    return Source(folder, split, 3, 8, CONFIG, 3, format=record_format(manifest))


def sequence(source: Source, ranks: int, position: int) -> str:
    """Hash of the images of 900 positions; the colour of each pixel is its number."""
    known = {record.encoded: number for number, record in enumerate(RECORDS)}
    numbers = [known[image] for image in images_read(source, ranks, position, 900)]
    return hashlib.sha256(repr(numbers).encode()).hexdigest()[:16]


SEQUENCES = {
    ("tfrecords", 0): ("c7c6efd6fdaf18f3", "5265fbc78b0066e2"),
    ("tfrecords", 57): ("bcedc6ef87811d80", "ca1749124e73d758"),
    ("tfrecords", 700): ("2b162ccae12f7192", "b86f0cd41ddb3c80"),
    ("parquet", 0): ("0ce754f4ee7beb5c", "cbc6e5278440e467"),
    ("parquet", 57): ("41278c3083801c1e", "a3fb4a1e296599a8"),
    ("parquet", 700): ("9bb397a3fed8d6e3", "5264c14c81e0e07c"),
}
"""Hashes for one rank and for three, by format and position, taken from version 0.1.0."""


@pytest.mark.parametrize("write", [tfrecords, parquet])
@pytest.mark.parametrize("position", [0, 57, 700])
def test_the_sequence_is_the_one_that_all_versions_have_read(tmp_path, write, position):
    source = write(tmp_path)
    found = {ranks: sequence(source, ranks, position) for ranks in (1, 2, 3)}
    # Three ranks do not divide eight streams, so that they read in an order of their own.
    assert (found[1], found[3]) == SEQUENCES[write.__name__, position]
    assert found[1] == found[2]


@pytest.mark.parametrize("on_corrupt", ["fail", "skip"])
@pytest.mark.parametrize("ranks", [1, pytest.param(2, marks=pytest.mark.long)])
def test_augmented_batches_depend_on_positions_alone(tmp_path, ranks, on_corrupt):
    chosen = {"rand_augment": 9, "colour_jitter": 0.4, "erase": 0.5, "mixup": 0.2, "cutmix": 1.0}
    config = replace(CONFIG, on_corrupt=on_corrupt, **chosen)
    source = replace(tfrecords(tmp_path), config=config)
    order, position = make_order(source, ranks), 40
    for rank in range(ranks):
        own = range(position + rank, position + 24 * ranks, ranks)
        batches = training_batches(source, rank, ranks, 12, position, 2).as_numpy_iterator()
        parts = [next(batches) for _ in range(2)]
        images_, patches = (
            np.concatenate([part[key] for part in parts]) for key in ("image", "patch")
        )
        for number, position_ in enumerate(own):
            block, index = order.locate(position_)
            (values,) = source.records(Segment(block, index, 1), source.path(block))
            encoded = source.format.record(values).encoded
            assert np.array_equal(
                images_[number], images.training_image(encoded, source, position_)
            )
            assert np.array_equal(patches[number], drawn_patch(source, position_)["patch"])


@pytest.mark.parametrize("write", [tfrecords, parquet])
@pytest.mark.parametrize(
    ("ranks", "position", "size"), [(1, 0, 8), (2, 57, 5), (3, 300, 8), (1, 700, 40)]
)
def test_batches_hold_the_record_of_each_position_decoded_by_itself(
    tmp_path, write, ranks, position, size
):
    source = write(tmp_path)
    source = replace(source, config=replace(CONFIG, augment="random-resized-crop", flip=True))
    order = make_order(source, ranks)
    for rank in range(ranks):
        own = range(position + (rank - position) % ranks, position + 40 * ranks, ranks)
        batches = training_batches(source, rank, ranks, size, position, 2).as_numpy_iterator()
        for first in range(0, 40, size):
            batch = next(batches)
            for number, position_ in enumerate(own[first : first + size]):
                block, index = order.locate(position_)
                (values,) = source.records(Segment(block, index, 1), source.path(block))
                record = source.format.record(values)
                image = images.training_image(record.encoded, source, position_)
                assert np.array_equal(batch["image"][number], image)
                assert batch["target"][number] == record.label
                assert batch["flip"][number] == images.flips(source, position_).numpy()
