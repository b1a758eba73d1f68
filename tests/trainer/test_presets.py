"""Presets for large batches: MLPerf's rows, and whose figures they are."""

import pytest

from tests.trainer.support.random_configs import changed
from trainer.presets import PRESETS, preset_warnings
from trainer.training.plan import make_plan

IMAGENET = 1_281_167
ROWS = {
    4096: (10.0, 5, 0.9, 2e-4, 13_137, 42),
    8192: (17.0, 5, 0.9, 2e-4, 6_095, 44),
    13056: (12.8, 9, 0.94, 2.5e-5, 4_710, 47),
    32768: (21.2, 16, 0.94, 2.5e-5, 2_267, 57),
}
"""Base rate, warm-up in epochs, momentum, weight decay, decay steps, and the epochs of the slowest
run, of rcps_resnet.json (mlcommons/logging, training_1.1.0)."""


@pytest.mark.parametrize("batch", ROWS)
def test_a_preset_carries_its_row_of_mlperf(batch):
    rate, warmup, momentum, decay, decay_steps, slowest = ROWS[batch]
    config = PRESETS[f"imagenet-lars-{batch}"]
    ranks = batch // config.batch_size
    plan = make_plan(config, ranks, IMAGENET)
    optimizer = config.optimizer
    assert (plan.global_batch, ranks % 8) == (batch, 0)
    assert (optimizer.kind, optimizer.trust, optimizer.schedule) == ("lars", 0.001, "polynomial")
    assert (plan.schedule.peak, plan.schedule.end) == (rate, 0.0001)
    assert (optimizer.warmup_epochs, optimizer.momentum, optimizer.weight_decay) == (
        *(warmup, momentum, decay),
    )
    assert optimizer.label_smoothing == 0.1
    # The decay steps with or without the warm-up, whichever is the first that is long enough.
    readings = [decay_steps, decay_steps + plan.schedule.warmup_steps]
    whole = next(steps for steps in readings if steps * batch / IMAGENET > slowest - 0.05)
    assert plan.total_steps == pytest.approx(whole, rel=0.003)
    assert config.epochs >= slowest


def test_another_global_batch_than_that_of_the_preset_is_said():
    config = PRESETS["imagenet-lars-8192"]
    assert preset_warnings(config, 32) == []
    (warning,) = preset_warnings(config, 8)
    assert (
        "is for a global batch of 8,192 images, but 8 ranks x --batch-size 256 make 2,048"
        in warning
    )
    assert preset_warnings(changed(config, {"batch_size": 1024}), 8) == []


@pytest.mark.parametrize("name", ["digits", "imagenet-1gpu", "imagenet-ndv2"])
def test_presets_whose_rate_follows_the_batch_fit_every_number_of_ranks(name):
    assert all(preset_warnings(PRESETS[name], ranks) == [] for ranks in (1, 3, 64))
