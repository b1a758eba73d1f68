"""Runs on Spark, on two executors of this machine."""

import os
import signal
import threading
import time

import pytest

from common.errors import ConfigError
from tests.trainer.support import disturbed
from tests.trainer.support.command import TINY, final_state, metrics
from tests.trainer.support.forked import fork_trainer
from tests.trainer.support.launched import wait_until
from trainer.extras.spark import driver
from trainer.extras.spark.driver import BarrierStage, TrainingError, run

pytestmark = [pytest.mark.spark, pytest.mark.slow]

MODULE = "tests.trainer.support.disturbed"
ARGS = [*TINY, "--epochs", "4", "--evaluation.every-epochs", "0", "--name", "run"]


@pytest.fixture(scope="session")
def expected(digits_folder, tmp_path_factory):
    """The state that the launcher's two ranks end with."""
    folder = tmp_path_factory.mktemp("launched")
    done = fork_trainer("train", *ARGS, "--data.dir", str(digits_folder), cwd=folder)
    assert done.returncode == 0, done.stderr
    return final_state(folder / "runs" / "run")


@pytest.fixture
def train(spark, digits_folder, tmp_path, monkeypatch):
    """Train with relative folders of a driver in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "digits").symlink_to(digits_folder)

    def train_in_folder(*more, restarts=3):
        args = [*ARGS, "--data.dir", "digits", "--runs-dir", "runs", *more]
        return run(spark, args, 2, restarts, module=MODULE)

    return train_in_folder


def test_a_run_ends_with_the_bits_of_the_launcher(train, expected, tmp_path, capsys):
    folder = train()
    assert folder == tmp_path / "runs" / "run"
    assert final_state(folder) == expected
    assert "trained 90 steps" in capsys.readouterr().out
    assert not list(folder.glob(".*-*"))


@pytest.mark.parametrize("what", ["rank", "executor"])
def test_a_run_of_which_something_is_killed_ends_with_the_same_bits(
    train, expected, tmp_path, capsys, what
):
    disturbed.ask(tmp_path / "runs", 1, 46, what)
    folder = train()
    assert final_state(folder) == expected
    assert len(metrics(folder, "start")) == 2
    assert "starting again from the checkpoint of step" in capsys.readouterr().err


def test_an_error_of_the_configuration_is_raised_before_anything_starts(train, tmp_path):
    with pytest.raises(ConfigError, match="--epochs"):
        train("--epochs", "none")
    assert not (tmp_path / "runs").exists()


def test_an_explained_error_of_a_rank_is_not_repeated(train, tmp_path, capsys):
    disturbed.ask(tmp_path / "runs", 1, 0, "refuses")
    with pytest.raises(TrainingError) as caught:
        train()
    assert caught.value.exit_code == ConfigError.exit_code
    said = capsys.readouterr()
    assert said.out.count("starting 2 ranks") == 1
    assert "[rank 1]   - --option: does not fit this machine" in said.err


def test_ctrl_c_saves_the_state_and_leaves_no_process(train, tmp_path, ranks_of_spark):
    runs = tmp_path / "runs"
    disturbed.ask(runs, 0, 46, "waits")

    def interrupt():
        wait_until((runs / "waiting").exists)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(TrainingError, match="was stopped") as caught:
        train("--epochs", "4000")
    assert caught.value.exit_code == 130
    assert not ranks_of_spark(runs)
    assert final_state(runs / "run")


def test_too_few_slots_are_refused_in_seconds(spark, monkeypatch):
    monkeypatch.setattr(driver, "SLOT_SECONDS", 1.0)
    began = time.monotonic()
    with pytest.raises(ConfigError, match="3 ranks, but Spark has 2 slots"):
        BarrierStage(spark, 3)
    assert time.monotonic() - began < 30
