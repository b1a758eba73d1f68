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
from trainer.data.pipeline import evaluation_batches, training_batches
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


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_every_image_exactly_once_an_epoch_at_any_world_size(tmp_path, ranks):
    source = write_source(tmp_path, 101, 5)
    seen = [n for step in global_batches(source, ranks, 12, 26) for n in step]
    for epoch in range(3):
        assert sorted(seen[epoch * 101 : (epoch + 1) * 101]) == list(range(101)), epoch
    assert seen[:101] != seen[101:202]


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


@pytest.mark.parametrize("ranks", [1, 3])
def test_shards_without_an_image_are_evaluated_as_if_they_were_not_there(tmp_path, ranks):
    source = write_source(tmp_path, 7, 12)
    parts = [numbers(evaluation_batches(source, r, ranks, 2, 1)) for r in range(ranks)]
    assert sorted(n for part in parts for batch in part for n in batch) == list(range(7))


def test_global_batches_are_identical_where_ranks_divide_the_streams(tmp_path):
    source = write_source(tmp_path, 101, 5)
    alone = global_batches(source, 1, 12, 20)
    assert global_batches(source, 2, 12, 20) == alone
    assert global_batches(source, 4, 12, 20) == alone


@pytest.mark.parametrize("step", [1, 5, 8, 9, 13])
def test_reading_from_any_step_continues_the_sequence(tmp_path, step):
    source = write_source(tmp_path, 101, 5)
    whole = global_batches(source, 2, 12, 20)
    assert global_batches(source, 2, 12, 20 - step, start=step) == whole[step:]


def test_images_are_augmented_alike_at_any_world_size_and_after_any_resume(digits_folder):
    from trainer.data.manifest import load_manifest

    manifest = load_manifest(digits_folder)
    config = replace(CONFIG, streams=8, augment="random-resized-crop", flip=True)
    source = Source(digits_folder, manifest.splits["train"], 10, 12, config, 0)
    alone = list(training_batches(source, 0, 1, 32, 0, 2).take(8).as_numpy_iterator())
    second = list(training_batches(source, 1, 2, 16, 3 * 32, 1).take(5).as_numpy_iterator())
    for whole, half in zip(alone[3:], second, strict=True):
        for key in ("image", "target", "flip"):
            assert np.array_equal(whole[key][1::2], half[key]), key


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_evaluation_of_a_prime_number_of_images_counts_each_once(tmp_path, ranks):
    source = write_source(tmp_path, 37, 3)
    parts = [numbers(evaluation_batches(source, r, ranks, 5, 1)) for r in range(ranks)]
    assert len({len(part) for part in parts}) == 1
    assert Counter(n for part in parts for batch in part for n in batch) == Counter(range(37))


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
