"""The run that is estimated: its steps, its data and what decoding takes."""

import json
from dataclasses import replace
from statistics import median

import pytest

from common.errors import ConfigError
from jobs.extras.estimate.workload import DataSize, decoding, decoding_ms
from jobs.spec.from_options import REPOSITORY
from tests.jobs.extras.estimate.support import workload
from trainer.data.manifest import SIDES, Manifest, Normalization, Origin, Shard, Sides, Split

PLAIN = Normalization((0.0,) * 3, (1.0,) * 3)


def test_options_of_the_trainer_are_heeded():
    assert workload("--epochs", "30").config.epochs == 30
    assert workload(model="resnet101").model == "ResNet-101"


def test_images_bytes_and_pixels_are_those_of_the_manifest():
    short, long = [0] * len(SIDES), [0] * len(SIDES)
    short[SIDES.index(2048)], long[SIDES.index(3072)] = 10, 10
    split = Split(
        (Shard("a", 10, 60_000_000, ""),), (10,), ("JPEG",), sides=Sides(tuple(short), tuple(long))
    )
    manifest = Manifest(("a",), PLAIN, {"train": split}, Origin("x"))
    data = DataSize.of(manifest, "photos")
    assert (data.images, data.gigabytes, data.bytes_per_image) == (10, 0.06, 6e6)
    assert data.megapixels == pytest.approx(2560 * 3584 / 1e6)
    assert data.name == f"photos, version {manifest.version}"
    for other, words in ((replace(split, sides=Sides()), "--images"), (None, "no training")):
        splits = {"train": other} if other else {}
        with pytest.raises(ConfigError, match=words):
            DataSize.of(replace(manifest, splits=splits), "photos")


def test_checkpoints_are_saved_by_epochs_or_by_the_clock_whichever_is_sooner():
    recipe = workload()
    slow, fast = 1000.0, 100_000.0
    assert recipe.checkpoint_hours(slow) == pytest.approx(10 / 60)
    assert recipe.checkpoint_hours(fast) == pytest.approx(recipe.data.images / fast / 3600)
    none = workload("--checkpoint.every-epochs", "0", "--checkpoint.every-minutes", "0")
    assert none.checkpoint_hours(fast) == float("inf")


def test_the_cost_of_decoding_is_the_one_that_was_measured():
    measured = json.loads((REPOSITORY / "tools/benchmarks/results/decoding.json").read_text())
    assert decoding() == measured["fitted"]
    for name, (megapixels, megabytes) in measured["sizes"].items():
        cpu = median(one["cpu_ms"] for one in measured["samples"][name])
        data = DataSize(1, megabytes / 1000, megapixels)
        assert decoding_ms(data) == pytest.approx(cpu, rel=0.25), name
