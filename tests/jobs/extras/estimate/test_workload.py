"""What a training asks of its nodes, and the epochs that a global batch costs."""

import json
from dataclasses import replace
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import ConfigError
from jobs.extras.estimate.limits import decoding, decoding_ms
from jobs.extras.estimate.workload import EPOCHS_TO_TARGET, DataSet, activations, epochs_to_target
from jobs.spec.from_options import REPOSITORY
from tests.jobs.extras.estimate.support import workload
from trainer.data.manifest import SIDES, Manifest, Normalization, Origin, Shard, Sides, Split
from trainer.presets import parse_train
from trainer.training.plan import make_plan

PLAIN = Normalization((0.0,) * 3, (1.0,) * 3)
BATCHES = st.integers(1, 70_000)


@given(BATCHES, BATCHES)
def test_a_larger_batch_never_needs_fewer_epochs(one, other):
    small, large = sorted((one, other))
    few, many = epochs_to_target(small), epochs_to_target(large)
    assert many is None or few <= many


@pytest.mark.parametrize("batch", [3_264, 4_096, 8_192, 13_056, 32_768, 65_536])
def test_epochs_at_a_reference_point_are_mlperfs(batch):
    assert epochs_to_target(batch) == EPOCHS_TO_TARGET[batch]


def test_beyond_the_last_reference_point_nothing_is_known():
    assert epochs_to_target(65_537) is None
    assert workload().epochs_to_same_accuracy(100_000) is None


def test_a_recipe_is_told_the_growth_of_its_batch():
    recipe = workload()
    assert recipe.epochs_to_same_accuracy(256) == recipe.epochs_to_same_accuracy(3_264) == 90
    assert recipe.epochs_to_same_accuracy(8_192) == pytest.approx(90 * 42 / 35)


def test_a_recipe_for_a_large_batch_has_its_epochs_already():
    lars = workload(preset="imagenet-lars-8192")
    epochs = lars.config.epochs
    assert lars.epochs_to_same_accuracy(8_192) == lars.epochs_to_same_accuracy(2_048) == epochs
    assert lars.epochs_to_same_accuracy(32_768) == pytest.approx(epochs * 56 / 42)


def test_precision_is_called_as_the_gpu_computes_it():
    mixed, plain = workload(), workload("--compute.precision", "float32")
    assert mixed.precision_on("V100") == mixed.precision_on("A100") == "amp"
    assert (plain.precision_on("V100"), plain.precision_on("A100")) == ("fp32", "tf32")


def test_options_of_the_trainer_are_heeded():
    assert workload("--epochs", "30").config.epochs == 30
    assert workload(model="resnet101").model == "ResNet-101"


@pytest.mark.parametrize("pieces", [1, 2, 4])
def test_the_batch_of_an_update_is_that_of_the_trainer_however_it_is_divided(pieces):
    program = ("--batch-size", "128", "--optimizer.accumulation", str(pieces))
    planned = workload(*program)
    trained = make_plan(parse_train(["--preset", "imagenet-ndv2", *program]), 8, planned.images)
    assert planned.batch_per_gpu * 8 == trained.global_batch


def test_images_bytes_and_pixels_are_those_of_the_manifest():
    short, long = [0] * len(SIDES), [0] * len(SIDES)
    short[SIDES.index(2048)], long[SIDES.index(3072)] = 10, 10
    split = Split(
        (Shard("a", 10, 60_000_000, ""),), (10,), ("JPEG",), sides=Sides(tuple(short), tuple(long))
    )
    manifest = Manifest(("a",), PLAIN, {"train": split}, Origin("x"))
    data = DataSet.of(manifest, "photos")
    assert (data.images, data.gigabytes, data.bytes_per_image) == (10, 0.06, 6e6)
    assert data.megapixels == pytest.approx(2560 * 3584 / 1e6)
    assert data.name == f"photos, version {manifest.version}"
    for other, words in ((replace(split, sides=Sides()), "--images"), (None, "no training")):
        splits = {"train": other} if other else {}
        with pytest.raises(ConfigError, match=words):
            DataSet.of(replace(manifest, splits=splits), "photos")


def test_activations_are_those_that_were_published():
    """Radosavovic et al. 2020, Designing Network Design Spaces: 11.1, 16.2 and 22.6 million."""
    found = [round(activations(f"ResNet-{depth}") / 1e6, 1) for depth in (50, 101, 152)]
    assert found == [11.1, 16.2, 22.6]


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (
            ("--model.network", "EfficientNetB0"),
            "EfficientNetB0, whose throughput was not measured, only that of ResNet-50",
        ),
        (("--model.depth", "18"), "trains classification --depth 18,"),
        (("--model.image-size", "64"), "--image-size 64"),
        (("--model.width", "32"), "--width 32"),
        (("--averaging.every", "4"), "trains classification --averaging.every 4,"),
    ],
)
def test_a_training_of_which_nothing_was_measured_is_refused(program, words):
    with pytest.raises(ConfigError, match=words):
        workload(*program)


def test_checkpoints_are_saved_by_epochs_or_by_the_clock_whichever_is_sooner():
    recipe = workload()
    slow, fast = 1000.0, 100_000.0
    assert recipe.checkpoint_hours(slow) == pytest.approx(10 / 60)
    assert recipe.checkpoint_hours(fast) == pytest.approx(recipe.images / fast / 3600)
    none = workload("--checkpoint.every-epochs", "0", "--checkpoint.every-minutes", "0")
    assert none.checkpoint_hours(fast) == float("inf")


def test_the_cost_of_decoding_is_the_one_that_was_measured():
    measured = json.loads((REPOSITORY / "tools/benchmarks/results/decoding.json").read_text())
    assert decoding() == measured["fitted"]
    for name, (megapixels, megabytes) in measured["sizes"].items():
        cpu = median(one["cpu_ms"] for one in measured["samples"][name])
        assert decoding_ms(megapixels, megabytes) == pytest.approx(cpu, rel=0.25), name
