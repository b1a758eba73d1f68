"""Runs that are continued in other circumstances than they began in."""

import numpy as np
import pytest

from tests.trainer.support import scenarios
from tests.trainer.support.command import TINY, metrics, result, run_trainer
from tests.trainer.support.world import run_world
from trainer.data.builtin.digits import prepare_digits

pytestmark = pytest.mark.slow


def test_another_number_of_ranks_goes_on_with_the_same_global_batches(tmp_path):
    prepare_digits(str(tmp_path / "data"))

    def train(name, ranks, steps, batch_size):
        args = (str(tmp_path), name, steps, batch_size)
        return run_world(scenarios.train_without_batch_norm, ranks, *args)[0]

    whole = train("whole", 2, 60, 32)
    # In the middle of an epoch of 45 steps, and over its end.
    train("parts", 2, 15, 32)
    middle = train("parts", 1, 30, 64)
    parts = train("parts", 4, 60, 16)
    assert middle["meta"]["position"] == 30 * 64
    assert [line["ranks"] for line in metrics(tmp_path / "parts", "start")] == [2, 1, 4]
    assert parts["tensors"].keys() == whole["tensors"].keys()
    for name, tensor in whole["tensors"].items():
        np.testing.assert_allclose(parts["tensors"][name], tensor, rtol=2e-4, atol=2e-5)


def test_more_epochs_and_another_log_interval_are_said_and_followed(tmp_path):
    args = [*TINY, "--name", "run", "--ranks", "1"]
    first = run_trainer("train", *args, "--epochs", "1", cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    more = run_trainer("train", *args, "--epochs", "2", "--log.every-steps", "7", cwd=tmp_path)
    assert more.returncode == 0, more.stderr
    assert "changed: --log.every-steps: 5 then, 7 now" in more.stdout
    assert "changed: --epochs: 1 then, 2 now (another result than without" in more.stdout
    run = tmp_path / "runs" / "run"
    assert result(run)["epochs"] >= 2
    steps = [line["step"] for line in metrics(run, "train")]
    assert steps == [*range(5, 45, 5), 45, *range(49, 90, 7), 90]
    # What it goes on with is what the next one is compared to.
    again = run_trainer("train", *args, "--epochs", "2", "--log.every-steps", "7", cwd=tmp_path)
    assert "changed" not in again.stdout
    assert "is finished already" in again.stdout
