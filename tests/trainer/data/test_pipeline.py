"""The pipeline as a whole: every image once an epoch, exact evaluation, bounded reading."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.trainer.support import scenarios
from tests.trainer.support.data_sets.records import plain_record
from tests.trainer.support.world import run_world
from trainer.config import DataConfig
from trainer.data.example import Record
from trainer.data.formats.tfrecord import write_split
from trainer.data.pipeline import evaluation_batches, fill_places, training_batches
from trainer.data.source import Source

CONFIG = DataConfig(
    source="tfrecords",
    dir=".",
    streams=4,
    shuffle_window=7,
    augment="none",
    flip=False,
    eval_crop=1.0,
)


def write_source(folder: Path, images: int, shards: int, config: DataConfig = CONFIG) -> Source:
    split = write_split(
        folder, "train", [plain_record(n, n % 10) for n in range(images)], shards, 10
    )
    return Source(folder, split, 10, 8, config, 3)


def numbers(batches):
    """The numbers of the pictures in batches, those that do not count left out."""
    seen = []
    for batch in batches:
        pixels = batch["image"].numpy()[:, 0, 0].astype(int)
        seen.append((pixels[:, 0] + 256 * pixels[:, 1])[batch["weight"].numpy() > 0].tolist())
    return seen


def global_batches(source, ranks, global_batch, steps, start=0):
    """The pictures of each step, over all ranks, in the order of their positions."""
    parts = [
        numbers(
            training_batches(source, r, ranks, global_batch // ranks, start * global_batch, 1).take(
                steps
            )
        )
        for r in range(ranks)
    ]
    offset = [(r - start * global_batch) % ranks for r in range(ranks)]
    order = sorted(range(ranks), key=lambda r: offset[r])
    return [
        [part for row in zip(*(parts[r][step] for r in order), strict=True) for part in row]
        for step in range(steps)
    ]


EDGES = {
    "fewer shards than ranks": (37, 1, 4, {}),
    "fewer images than a window": (37, 3, 2, {"shuffle_window": 512}),
    "fewer images than streams": (5, 2, 2, {"streams": 16}),
    "shards without an image": (7, 12, 3, {}),
    "one image": (1, 1, 1, {}),
}


@pytest.mark.slow
@pytest.mark.parametrize("edge", EDGES)
def test_every_image_exactly_once_an_epoch_at_the_edges(tmp_path, edge):
    images, shards, ranks, changes = EDGES[edge]
    source = write_source(tmp_path, images, shards, replace(CONFIG, **changes))
    steps = 3 * images // ranks + 1
    seen = [n for step in global_batches(source, ranks, ranks, steps) for n in step]
    for epoch in range(3):
        assert sorted(seen[epoch * images : (epoch + 1) * images]) == list(range(images)), epoch
    # Also from the middle of the second epoch on.
    start = (images + images // 2) // ranks
    rest = global_batches(source, ranks, ranks, steps - start, start)
    assert [n for step in rest for n in step] == seen[start * ranks :]


@pytest.mark.parametrize(("images", "shards", "ranks"), [(37, 3, 1), (37, 3, 4), (7, 12, 3)])
def test_an_evaluation_counts_each_image_once(tmp_path, images, shards, ranks):
    """Of a prime number of images, and of shards of which some have none."""
    source = write_source(tmp_path, images, shards)
    parts = [numbers(evaluation_batches(source, r, ranks, 5, 1)) for r in range(ranks)]
    assert len({len(part) for part in parts}) == 1
    assert Counter(n for part in parts for batch in part for n in batch) == Counter(range(images))


def test_a_skipped_image_leaves_its_place_to_others_of_the_batch(tmp_path):
    records = [plain_record(number, number % 10) for number in range(12)]
    for number in (3, 4, 5):
        records[number] = replace(records[number], encoded=b"not an image")
    split = write_split(tmp_path, "train", records, 1, 10)
    config = replace(CONFIG, streams=1, shuffle_window=1, on_corrupt="skip")
    batch = next(iter(training_batches(Source(tmp_path, split, 10, 8, config, 3), 0, 1, 12, 0, 1)))
    shown = batch["image"].numpy()[:, 0, 0, 0].tolist()
    usable = [number for number in shown if number not in (3, 4, 5)]
    assert sorted(set(usable)) == [0, 1, 2, 6, 7, 8, 9, 10, 11]
    assert sorted(Counter(usable).values()) == [1] * 6 + [2] * 3
    assert batch["weight"].numpy().sum() == 9


def test_a_batch_in_which_nothing_counts_stays_as_it_is():
    images = np.arange(3, dtype=np.uint8)[:, None, None, None]
    batch = {"image": images, "flip": np.zeros(3, bool), "weight": np.zeros(3, np.float32)}
    assert np.array_equal(fill_places(batch)["image"], images)


@pytest.mark.slow
def test_a_rank_reads_its_share_of_the_bytes_and_little_more(tmp_path):
    noise = np.random.default_rng(0)
    records = [Record(noise.bytes(4000), "PNG", 8, 8, 0, "0", f"{n}.png") for n in range(12_000)]
    split = write_split(tmp_path, "train", records, 12, 10)
    source = Source(tmp_path, split, 10, 8, replace(CONFIG, streams=8, shuffle_window=100), 0)
    total = sum(shard.bytes for shard in split.shards)
    buffer = 64 << 10
    (read,) = run_world(scenarios.bytes_of_an_epoch, 1, source, 4, buffer)
    # Each window begins at an indexed record, may read on to the end of a buffer in two shards, and
    # three windows a stream may have been read ahead.
    windows = 2 * (1500 // 100 + 3)
    assert total / 4 <= read <= windows * ((100 + 64) * total / 12_000 + 2 * buffer) < 0.7 * total
