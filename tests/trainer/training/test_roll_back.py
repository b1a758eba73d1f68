"""A loss that is not finite: stop, or go back to a checkpoint and leave the images since out."""

import json

import pytest

from tests.trainer.support import scenarios
from tests.trainer.support.command import final_state, metrics, result
from tests.trainer.support.world import run_world
from trainer.checkpoints.folder import CheckpointFolder
from trainer.data.builtin.digits import prepare_digits

pytestmark = pytest.mark.slow


@pytest.fixture
def runs(tmp_path):
    prepare_digits(str(tmp_path / "data"))
    return tmp_path


def train(runs, name, poisoned, **checkpoint):
    (found,) = run_world(scenarios.roll_back, 1, str(runs), name, poisoned, checkpoint)
    return found


def test_training_goes_on_from_the_newest_checkpoint_with_the_images_after_the_bad_ones(runs):
    # The 13th batch is bad: back to step 10, and on with the 14th; then the 21st: back to 15.
    found = train(runs, "run", [12, 20], on_non_finite="roll-back")
    whole = train(runs, "whole", [])
    assert found["error"] is None
    assert found["used"][:30] == whole["used"]
    left_out = (13 - 10) + (21 - 3 - 15)
    assert len(found["used"]) == 30 + left_out

    run = runs / "run"
    back = metrics(run, "roll_back")
    assert [(line["bad_step"], line["step"], line["images"]) for line in back] == [
        (13, 10, 3 * 32),
        (18, 15, 3 * 32),
    ]
    steps = [line["step"] for line in metrics(run, "train")]
    assert steps == list(range(2, 31, 2))
    assert result(run)["steps"] == 30
    meta = CheckpointFolder(run / "checkpoints").newest().meta
    assert (meta["roll_backs"], meta["skipped_batches"]) == (2, left_out)
    assert meta["position"] == (30 + left_out) * 32
    assert json.dumps(meta).count("NaN") == 0
    assert final_state(run) != final_state(runs / "whole")


def test_a_run_that_was_rolled_back_continues_where_it_would_have_been(runs):
    whole = train(runs, "whole", [12], on_non_finite="roll-back")
    policy = {"on_non_finite": "roll-back"}
    (first,) = run_world(scenarios.roll_back, 1, str(runs), "parts", [12], policy, 16)
    rest = train(runs, "parts", [])
    assert first["used"] + rest["used"] == whole["used"]
    assert final_state(runs / "parts") == final_state(runs / "whole")


def test_it_stops_with_the_word_what_was_tried_when_it_comes_too_often(runs):
    found = train(runs, "run", [12, 14, 16], on_non_finite="roll-back", rollbacks=2)
    assert "step " in found["error"]
    assert "rolled back 2 times" in found["error"]
    assert "step-0000000010" in found["error"]
    assert len(metrics(runs / "run", "roll_back")) == 2


def test_before_the_first_checkpoint_there_is_nothing_to_go_back_to(runs):
    found = train(runs, "run", [3], on_non_finite="roll-back")
    assert "nothing is saved yet" in found["error"]
