"""Accuracy by global batch: what is trained, and its table."""

import pytest

from benchmarks.training.batches import PROBLEMS, Options, contenders, show
from trainer.presets import parse_train
from trainer.training.plan import EMBEDDED_EXAMPLES, make_plan


@pytest.mark.parametrize("preset", PROBLEMS)
def test_every_contender_is_a_training_at_the_rate_of_its_name(preset):
    for contender in contenders(Options(preset=preset)):
        args = ["--batch-size", str(contender.batch), *contender.arguments]
        config = parse_train([*args, "--preset", preset, "--epochs", "20"])
        plan = make_plan(config, 1, EMBEDDED_EXAMPLES[preset])
        assert f", {plan.schedule.peak:.3g}" in contender.optimizer
        assert config.optimizer.kind == contender.optimizer.partition(",")[0].lower()


def test_only_few_steps_are_tried_with_batch_norm_that_follows_faster():
    tried = {(each.batch, each.batch_norm_momentum) for each in contenders(Options())}
    assert tried == {(64, 0.9), (256, 0.9), (1024, 0.9), (1024, 0.5)}


def test_the_table_gives_the_first_epoch_that_reached_the_target_for_each_seed():
    ends = [
        {"steps": 60, "score": 0.96, "after_epochs": [0.5, 0.95, 0.94, 0.96]},
        {"steps": 60, "score": 0.9, "after_epochs": [0.5, 0.8, 0.94, 0.9]},
    ]
    row = {"batch": 1024, "optimizer": "LARS, 32", "batch_norm_momentum": 0.5, "rounds": ends}
    line = show({"options": {"target": 0.95, "preset": "digits"}, "rows": [row]}).splitlines()[-1]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells == ["1,024, 60", "LARS, 32", "0.5", "2, never", "90.0% to 96.0%"]
