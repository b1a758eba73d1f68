"""Ranks that update on their own and average their states: held in real worlds of Horovod ranks."""

import re
import signal
from dataclasses import replace

import numpy as np
import pytest

from tests.trainer.extras.averaging import scenarios as averaging_scenarios
from tests.trainer.support import scenarios
from tests.trainer.support.command import TINY, final_state, metrics, result
from tests.trainer.support.forked import fork_trainer
from tests.trainer.support.scenarios import same
from tests.trainer.support.world import run_world
from trainer import cli
from trainer.config import DataConfig, OptimizerConfig, TrainConfig
from trainer.extras.averaging.leaf import AveragingOptions
from trainer.training.plan import make_plan


def local(**options):
    return {"averaging": AveragingOptions(**options)}


def averaged(every):
    """The last arguments of `scenarios.weighted_steps` for averages from the first step on."""
    return 2000, "none", "momentum", local(every=every, together_until=0.0), every


# 1. When.


def test_dry_run_says_when_ranks_are_averaged(capsys):
    cli.main(["train", "--dry-run", "--averaging.every", "8", "--epochs", "10"])
    # 225 steps; half of them, and on to the next multiple of 8.
    said = capsys.readouterr().out
    assert re.search(r"averages +every 8 steps, after 120 that sum gradients", said)
    cli.main(["train", "--dry-run"])
    assert "averages" not in capsys.readouterr().out


def test_after_the_steps_that_sum_gradients_the_ranks_are_equal_at_multiples_and_at_the_end():
    config = TrainConfig(
        batch_size=10,
        epochs=2,
        data=DataConfig(source="synthetic"),
        optimizer=OptimizerConfig(warmup_epochs=0),
        **local(every=4),
    )
    plan = make_plan(config, 1, 190)
    # Half of 38 steps is 19; the next multiple of 4 is 20.
    equal = [*range(21), 24, 28, 32, 36, 38]
    assert sorted({plan.equal_after(step) for step in range(39)}) == equal
    assert [plan.equal_after(step) for step in (20, 21, 24, 37)] == [20, 24, 24, 38]
    # A trial of few steps ends where the whole run averages.
    for most, together, end in ((7, 0.0, 8), (37, 0.0, 38), (7, 0.5, 7)):
        trial = replace(config, max_steps=most, **local(every=4, together_until=together))
        assert make_plan(trial, 1, 190).last_step == end


# 2. Steps.


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["adamw", pytest.param("momentum", marks=pytest.mark.long)])
def test_between_averages_ranks_differ_and_after_each_all_state_is_equal_to_the_bit(
    digits_folder, kind
):
    config = scenarios.tiny_config(
        str(digits_folder), optimizer=OptimizerConfig(kind=kind, warmup_epochs=0.5)
    )
    left, right = run_world(averaging_scenarios.take_steps, 2, config, 4, 12, 2, "small")
    equal = [same(a, b) for a, b in zip(left["states"], right["states"], strict=True)]
    assert equal == [False, True] * 3
    assert left["exchanges"] == right["exchanges"] == 3
    # The losses of all steps and ranks arrive with the average.
    assert [images for _, images in left["losses"]] == [0, 4 * 2 * 32] * 3
    assert left["losses"] == right["losses"]


@pytest.mark.long
def test_averages_after_every_step_equal_the_sum_of_gradients(digits_folder):
    config = scenarios.tiny_config(str(digits_folder), batch_size=16)
    ours, others = (
        run_world(averaging_scenarios.take_steps, 2, config, every, 10, 10, "plain")[0]
        for every in (1, 0)
    )
    assert ours["losses"][0][0] == pytest.approx(others["losses"][0][0], rel=1e-5)
    for a, b in zip(ours["states"][-1], others["states"][-1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.long
def test_a_single_rank_trains_as_without_averages_to_the_bit(digits_folder):
    config = scenarios.tiny_config(str(digits_folder))
    (ours,) = run_world(averaging_scenarios.take_steps, 1, config, 3, 9, 9, "small")
    (others,) = run_world(averaging_scenarios.take_steps, 1, config, 0, 9, 9, "small")
    assert same(ours["states"][0], others["states"][0])


@pytest.mark.long
def test_overflow_leaves_out_a_step_of_one_rank_and_the_average_halves_the_scale_for_all():
    fine = [1.0, 1.0]
    # A weight of 1e4 leaves the loss finite, but not its gradient in float16 at a scale of 2**15.
    weights = [fine, fine, fine, [1.0, 1e4], fine, fine]
    left, right = run_world(
        scenarios.weighted_steps, 2, "mixed_float16", weights, (-1, -1), *averaged(2)
    )
    for states in (left, right):
        assert [state["skipped"] for state in states] == [0, 1, 0]
        scales = [state["loss_scale"] / states[0]["loss_scale"] for state in states]
        assert scales == [1, 0.5, 0.5]
        assert [state["finite_steps"] for state in states] == [2, 0, 2]
    for a, b in zip(left, right, strict=True):
        assert same(a["state"], b["state"])


@pytest.mark.long
def test_a_rank_that_is_not_finite_stops_all_with_the_next_average_and_is_named():
    weights = [[1.0, 1.0]] * 9
    ranks = run_world(scenarios.weighted_steps, 2, "float32", weights, (1, 1), *averaged(3))
    for states in ranks:
        assert [state["bad_step"] for state in states] == [None, 5]
        assert states[-1]["bad_ranks"] == [1]


# 3. Runs.

LOCAL = [
    *TINY,
    *("--averaging.every", "4", "--averaging.together-until", "0.3", "--epochs", "2"),
    *("--checkpoint.every-steps", "5", "--checkpoint.keep", "20"),
]


@pytest.mark.long
def test_a_run_is_saved_and_evaluated_after_averages_and_continues_to_the_bit(workplace):
    def train(*args, **options):
        return fork_trainer("train", *LOCAL, *args, cwd=workplace, **options)

    assert train("--name", "whole").returncode == 0
    runs = workplace / "runs"
    saved = {int(path.name[5:15]) for path in (runs / "whole" / "checkpoints").glob("step-*")}
    # 45 steps, of which 16 sum their gradients: later savings wait for the next average.
    assert saved == {5, 10, 15, 20, 24, 28, 32, 36, 40, 45}
    assert [line["step"] for line in metrics(runs / "whole", "evaluation")] == [24, 45]

    # Calls of other lengths change nothing.
    parts = ["--name", "parts", "--log.every-steps", "7", "--checkpoint.every-steps", "4"]
    assert train(*parts, "--max-steps", "22").returncode == 0
    # One rank is told to stop between two averages.
    stopped = train(*parts, stop_at=(1, signal.SIGTERM, 30))
    assert stopped.statuses == [143, 143], stopped.stderr
    # It said so after step 30 or soon after; both left with the average that followed.
    (step,) = re.findall(r"stopped after step (\d+) of 45", stopped.stdout)
    assert int(step) % 4 == 0
    assert train(*parts).returncode == 0
    assert final_state(runs / "parts") == final_state(runs / "whole")
    assert result(runs / "parts")["top1"] == result(runs / "whole")["top1"]
