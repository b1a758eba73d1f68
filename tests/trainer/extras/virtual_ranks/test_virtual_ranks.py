"""The same bits with any number of ranks: held in real worlds of Horovod ranks."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest

from common.errors import ConfigError
from tests.trainer.extras.virtual_ranks import scenarios as own_scenarios
from tests.trainer.support import scenarios
from tests.trainer.support.command import TINY, final_state, metrics
from tests.trainer.support.data_sets import parquet_files
from tests.trainer.support.data_sets.records import noise_record
from tests.trainer.support.forked import fork_trainer
from tests.trainer.support.world import run_world
from trainer.config import ComputeConfig, DataConfig, TrainConfig
from trainer.extras.virtual_ranks.leaf import VirtualRankOptions
from trainer.presets import PRESETS, parse_train
from trainer.run_folder import RunFolder, RunRecord, check_continues
from trainer.training.plan import make_plan


def virtual(count):
    return {"virtual_ranks": VirtualRankOptions(count)}


# 1. Options.


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--virtual-ranks.count", "1"], "1 must be 0 or a power of two from 2 on"),
        (["--virtual-ranks.count", "12"], "12 must be 0 or a power of two from 2 on"),
        (["--virtual-ranks.count", "32"], "--data.streams: 8 must be a multiple of .* use 32"),
    ],
)
def test_a_count_that_cannot_be_is_refused(options, problem):
    with pytest.raises(ConfigError, match=problem):
        parse_train(options)


def test_the_global_batch_follows_from_virtual_ranks_and_not_from_ranks():
    config = replace(PRESETS["digits"], batch_size=8, **virtual(8))
    plans = [make_plan(config, ranks, 1437) for ranks in (1, 2, 4, 8)]
    assert {plan.global_batch for plan in plans} == {64}
    assert len({plan.schedule for plan in plans}) == 1
    assert [config.rank_batch(ranks) for ranks in (1, 2, 4, 8)] == [64, 32, 16, 8]
    with pytest.raises(ConfigError, match="over 3 ranks; use 1, 2, 4 or 8"):
        make_plan(config, 3, 1437)


def test_another_number_of_ranks_is_said_but_changes_nothing(tmp_path):
    config = replace(PRESETS["digits"], name="run", **virtual(8))
    run, record = RunFolder(tmp_path / "run"), RunRecord(config, 8, 256, "abc")
    run.path.mkdir()
    run.create(record)
    assert check_continues(run, replace(record, ranks=2)) == ["--ranks: was 8, is now 2"]


# 2. Sums.


def tree(arrays):
    """The sum in numpy: the number n and n + half of the count, until one is left."""
    while len(arrays) > 1:
        half = len(arrays) // 2
        arrays = [left + right for left, right in zip(arrays[:half], arrays[half:], strict=True)]
    return arrays[0]


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 4])
def test_sums_are_those_of_one_tree_to_the_bit(ranks):
    draws = np.random.default_rng(3)
    shapes = [(3, 3, 5), (), (77,), (2, 2)]
    arrays = [
        [
            (draws.normal(size=shape) * 10.0 ** draws.integers(-6, 6)).astype("f4")
            for shape in shapes
        ]
        for _ in range(8)
    ]
    # The last one takes the place of statistics and counts, which are flat.
    arrays = [[*one[:-1], one[-1].reshape(-1)] for one in arrays]
    config = TrainConfig(batch_size=2, data=DataConfig(source="synthetic"), **virtual(8))
    expected = [tree(list(parts)) for parts in zip(*arrays, strict=True)]
    for found in run_world(own_scenarios.sums, ranks, config, arrays):
        assert [one.tobytes() for one in found] == [one.tobytes() for one in expected]


# 3. Steps and runs.


@pytest.mark.slow
@pytest.mark.parametrize(
    ("precision", "numbers"),
    [("float32", (1, 2, 4)), pytest.param("mixed_float16", (1, 2), marks=pytest.mark.long)],
)
def test_steps_have_the_same_bits_on_any_number_of_ranks(digits_folder, precision, numbers):
    config = scenarios.tiny_config(
        str(digits_folder),
        batch_size=8,
        compute=ComputeConfig(precision=precision),
        **virtual(4),
    )
    worlds = [run_world(scenarios.take_steps_of_a_run, ranks, config, 6) for ranks in numbers]
    expected = worlds[0][0]
    assert expected["images"] == 6 * 32
    for rank in (rank for world in worlds for rank in world):
        assert rank["loss"] == expected["loss"]
        assert rank["state"].keys() == expected["state"].keys()
        for name, array in expected["state"].items():
            assert rank["state"][name].tobytes() == array.tobytes(), name


VIRTUAL = ["--virtual-ranks.count", "4", "--batch-size", "16"]
AUGMENTED = (
    *("--data.rand-augment", "9", "--data.colour-jitter", "0.4", "--data.erase", "0.5"),
    *("--data.mixup", "0.2", "--data.cutmix", "1"),
)


def train(workplace, ranks, *args, small=True):
    options = ("train", *TINY, *VIRTUAL, "--ranks", str(ranks), *args)
    ended = fork_trainer(*options, cwd=workplace, ranks=ranks, small=small)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.long
@pytest.mark.parametrize("augmented", [(), AUGMENTED])
def test_a_run_whose_ranks_change_with_every_attempt_ends_with_the_same_bits(workplace, augmented):
    train(workplace, 2, "--name", "whole", *augmented)
    for ranks, steps in ((4, "7"), (1, "31"), (2, "90")):
        said = train(workplace, ranks, "--name", "parts", "--max-steps", steps, *augmented)
    assert "changed: --ranks: was 1, is now 2\n" in said
    whole, parts = (workplace / "runs" / name for name in ("whole", "parts"))
    assert final_state(parts) == final_state(whole)
    evaluations = [metrics(run, "evaluation")[-1] for run in (whole, parts)]
    for metric in ("top1", "top5", "validation_loss"):
        assert evaluations[0][metric] == evaluations[1][metric]
    losses = [
        {line["step"]: line["loss"] for line in metrics(run, "train")} for run in (whole, parts)
    ]
    # All intervals between two reports but those in which an attempt begins.
    for step in (5, 15, 20, 25, 30, 40, 45):
        assert losses[0][step] == losses[1][step]


RUNS = {
    "ResNet": (),
    "ResNet in float16": ("--compute.precision", "mixed_float16"),
    "ResNet in bfloat16": ("--compute.precision", "mixed_bfloat16"),
    "LARS": ("--optimizer.kind", "lars", "--optimizer.nesterov", "False"),
    "AdamW, micro-batches": (
        *("--optimizer.kind", "adamw", "--optimizer.nesterov", "False"),
        *("--optimizer.learning-rate", "0.01", "--optimizer.accumulation", "2"),
    ),
    "dropout": ("--model.builder", "tests.trainer.support.builders:good"),
    "segmentation": (
        *("--preset", "scenes", "--model.width", "4", "--model.image-size", "32"),
        *("--batch-size", "4", "--data.streams", "8"),
        *("--data.rand-augment", "9", "--data.colour-jitter", "0.4", "--data.erase", "0.5"),
    ),
    "multi-label": (
        *("--preset", "tiles", "--model.width", "4", "--model.image-size", "16"),
        *("--data.mixup", "0.2", "--data.cutmix", "1"),
    ),
    "Parquet": ("--data.source", "tfrecords", "--data.dir", "parquet"),
}
WORLDS = (1, 2, 4, 8)
SMALL = ("LARS", "AdamW, micro-batches", "Parquet")
"""What does not depend on the network."""


@pytest.mark.long
@pytest.mark.parametrize("name", RUNS)
def test_every_kind_of_run_has_the_same_bits_on_1_2_4_and_8_ranks(workplace, name):
    if name == "Parquet":
        for split, count in (("train", 200), ("validation", 30)):
            records = [noise_record(number, number % 3) for number in range(count)]
            parquet_files.write_split(workplace / "parquet", split, records, rows=20)
        parquet_files.describe(workplace / "parquet")
    common = ["--virtual-ranks.count", "8", "--batch-size", "8", "--data.streams", "8"]
    common += ["--max-steps", "12", "--evaluation.every-epochs", "0"]
    hashes = {}
    for ranks in WORLDS:
        options = (*common, *RUNS[name], "--name", f"on{ranks}")
        train(workplace, ranks, *options, small=name in SMALL)
        state = final_state(workplace / "runs" / f"on{ranks}")
        text = b"".join(name.encode() + state[name] for name in sorted(state))
        hashes[ranks] = hashlib.sha256(text).hexdigest()
    assert len(set(hashes.values())) == 1, hashes
