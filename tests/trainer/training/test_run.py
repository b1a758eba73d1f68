"""Runs that are stopped and continued, in the same or in other circumstances, or rolled back."""

import json
import re
import signal
from types import SimpleNamespace
from unittest.mock import MagicMock

import numpy as np
import pytest

from tests.trainer.support import run_scenarios
from tests.trainer.support.command import TINY, final_state, metrics, result
from tests.trainer.support.forked import fork_trainer
from tests.trainer.support.world import run_world
from trainer.checkpoints.folder import CheckpointFolder
from trainer.errors import TIME_LIMIT_STATUS, OutOfMemoryError
from trainer.training.run import Attempt

pytestmark = pytest.mark.slow


def train(workplace, *args, **options):
    ended = fork_trainer("train", *TINY, *args, cwd=workplace, **options)
    assert ended.returncode == 0, ended.stderr
    return ended


# 1. Stopped and continued.


def test_every_epoch_that_a_call_of_the_loop_ends_counts():
    attempt, saved = object.__new__(Attempt), []
    attempt._observers = []
    attempt._config = SimpleNamespace(log=SimpleNamespace(every_steps=100))
    attempt._reporter = attempt._totals = MagicMock()
    attempt._plan = SimpleNamespace(
        last_step=20, epoch_of=lambda step: step / 2, epoch_end=lambda epoch: 2 * epoch
    )
    # Weights are evaluated once, so the second epoch cannot end the run.
    attempt._validation = SimpleNamespace(end_epoch=lambda epoch, _: epoch == 1)
    attempt._saver = SimpleNamespace(
        landed=list, due=lambda _, epochs, *__: saved.append(list(epochs))
    )
    report = SimpleNamespace(steps=5, bad_step=None, stopped=False, paused=False)
    attempt._take_first = lambda *_: report
    attempt._take_steps = lambda *_: pytest.fail("the run continues")
    assert attempt._take_all(0) == 5
    assert saved == [[1, 2]]


def test_a_run_stopped_in_every_way_and_continued_ends_with_the_same_bits(workplace):
    options = ["--evaluation.every-epochs", "0"]
    train(workplace, *options, "--name", "whole")
    parts = ["train", *TINY, *options, "--name", "parts"]

    # By a step count.
    train(workplace, *options, "--name", "parts", "--max-steps", "7")
    # At its time limit: an attempt always takes a step, which takes longer than this.
    ended = fork_trainer(*parts, "--max-seconds", "0.01", cwd=workplace)
    assert ended.statuses == [TIME_LIMIT_STATUS] * 2, ended.stderr
    assert "--max-seconds 0.01 is reached: saving step 8" in ended.stdout
    assert "stopped after step 8 of 45; the state is saved" in ended.stdout
    # By a signal to the other rank: both stop after the same step, and save it.
    ended = fork_trainer(*parts, cwd=workplace, stop_at=(1, signal.SIGUSR1, 10))
    assert ended.statuses == [128 + signal.SIGUSR1] * 2, ended.stderr
    assert "the state is saved" in ended.stdout
    newest = CheckpointFolder(workplace / "runs" / "parts" / "checkpoints").newest()
    stopped = newest.step
    assert stopped == newest.meta["step"] > 10
    # By Ctrl-C, in another epoch.
    ended = fork_trainer(*parts, cwd=workplace, stop_at=(0, signal.SIGINT, 30))
    assert ended.statuses == [130, 130], ended.stderr
    assert "run the same command with --name parts" in ended.stdout
    assert re.search(r"stopped after step 31 of 45", ended.stdout)
    rest = train(workplace, *options, "--name", "parts", "--max-seconds", "3600")
    assert "changed" not in rest.stdout

    runs = workplace / "runs"
    assert final_state(runs / "parts") == final_state(runs / "whole")
    steps = [line["step"] for line in metrics(runs / "parts", "train")]
    assert steps == sorted(set(steps))
    assert [line["step"] for line in metrics(runs / "parts", "stop")] == [8, stopped, 31]
    assert [line["attempt"] for line in metrics(runs / "parts", "start")] == [1, 2, 3, 4, 5]
    assert result(runs / "parts")["attempts"] == 5
    assert result(runs / "parts")["top1"] == result(runs / "whole")["top1"]


BEFORE_THE_RESULT = {
    "set-up": ["trainer.training.setup:set_up", "trainer.training.run:Attempt._restore"],
    "tracing the step": ["trainer.updates.strategy:Strategy.gradients"],
    "tracing an evaluation": ["trainer.training.evaluator:Evaluator._counts"],
    "the last save": ["trainer.training.run:Attempt._save_now"],
}
"""Functions of each phase, in the order in which attempts of a run are stopped there."""
WITH_THE_RESULT = [
    "trainer.training.validation:Validation._write",
    "trainer.extras.calibration.fit:calibrate_run",
    "trainer.run_folder:RunFolder.write_result",
    "trainer.report.write:write_report",
    "trainer.export.exporter:write_export",
    # Called in a plain graph.
    "tensorflow.python.saved_model.save:_trace_gradient_functions",
    "trainer.export.exporter:_replace",
]
"""Functions of the phases that an attempt completes, because nothing else is left to do."""


@pytest.mark.long
def test_a_run_that_is_stopped_in_every_phase_ends_as_documented_and_with_the_same_bits(workplace):
    options = ["--epochs", "1", "--evaluation.every-epochs", "1", "--calibration.temperature"]
    options += ["True", "--export", "True", "--log.report", "True", "--ranks", "1"]
    train(workplace, *options, "--name", "whole", ranks=1)
    run, parts = workplace / "runs" / "parts", ["train", *TINY, *options, "--name", "parts"]
    for phase, places in BEFORE_THE_RESULT.items():
        steps = ["--max-steps", "12"] if phase == "tracing an evaluation" else []
        ended = fork_trainer(*parts, *steps, cwd=workplace, ranks=1, stop_at=(0, 15, places))
        assert ended.returncode == 128 + signal.SIGTERM, (phase, ended.stderr)
        assert "stopping as soon as nothing is lost" in ended.stderr
        assert "stopped after step" in ended.stdout
        assert not (run / "result.json").exists()
    ended = fork_trainer(*parts, cwd=workplace, ranks=1, stop_at=(0, 15, WITH_THE_RESULT))
    assert ended.returncode == 0, ended.stderr
    assert "Traceback" not in ended.stderr
    assert (run / "export" / "export.json").exists()
    assert (run / "report.html").exists()
    assert final_state(run) == final_state(workplace / "runs" / "whole")
    assert result(run)["top1"] == result(workplace / "runs" / "whole")["top1"]


@pytest.mark.parametrize(("at", "ranks"), [(0, 2), pytest.param(10, 1, marks=pytest.mark.long)])
def test_a_run_that_is_out_of_memory_continues_once_in_smaller_micro_batches(workplace, at, ranks):
    def attempt(number, batch):
        args = ["train", *TINY, "--ranks", "1", "--batch-size", batch, "--name", f"run{batch}"]
        args += ["--max-steps", "20", "--checkpoint.every-steps", "5"]
        ended = run_world(run_scenarios.run_out_of_memory, ranks, args, str(workplace), at)
        assert len({status for status, _, _ in ended}) == 1, ended
        return ended[0]

    status, _, said = attempt(1, "16")
    assert status == OutOfMemoryError.exit_code, said
    assert "out of memory with micro-batches of 16 images (OOM when allocating tensor)" in said
    status, out, said = attempt(2, "16")
    assert status == 0, said
    assert "changed: out of memory in an earlier attempt: --optimizer.accumulation 2" in out
    run = workplace / "runs" / "run16"
    assert result(run)["steps"] == 20
    config = json.loads((run / "config.json").read_text())
    assert config["config"]["optimizer"]["accumulation"] == 2
    assert config["global_batch"] == 16 * ranks
    # Half of 32 images does not fit either, and no third size is tried.
    assert attempt(1, "32")[0] == OutOfMemoryError.exit_code
    status, _, said = attempt(2, "32")
    assert status == 1, said
    assert "out of memory, again, with micro-batches of 16 images" in said
    assert "lower --batch-size" in said


@pytest.mark.parametrize("kind", ["adamw", pytest.param("lars", marks=pytest.mark.long)])
def test_the_state_of_every_optimizer_is_continued_to_the_bit(workplace, kind):
    options = [
        *("--optimizer.kind", kind, "--optimizer.nesterov", "False", "--ranks", "1"),
        *("--optimizer.rate-scaling", "none", "--optimizer.learning-rate", "0.01"),
        *("--optimizer.schedule", "polynomial", "--evaluation.every-epochs", "0"),
    ]
    train(workplace, *options, "--name", "whole", ranks=1)
    for steps in ("7", "90"):
        train(workplace, *options, "--name", "parts", "--max-steps", steps, ranks=1)
    runs = workplace / "runs"
    state = final_state(runs / "parts")
    assert state == final_state(runs / "whole")
    assert any(name.startswith(kind[:4]) for name in state)
    other = fork_trainer("train", *TINY, "--name", "parts", cwd=workplace, ranks=1)
    assert other.returncode == 4
    assert f"--optimizer.kind: was {kind}, is now momentum (the velocities" in other.stderr


def test_a_run_killed_just_before_its_result_gets_it_when_continued(workplace):
    args = ["--name", "run", "--max-steps", "4"]
    train(workplace, *args, ranks=1)
    run = workplace / "runs" / "run"
    expected = result(run)
    # As a shorter run of the same name has left it.
    (run / "result.json").write_text('{"steps": 3}')
    predictions = (run / "predictions.csv").read_text()
    (run / "predictions.csv").unlink()
    train(workplace, *args, ranks=1)
    again = result(run)
    assert (again["top1"], again["steps"]) == (expected["top1"], 4)
    assert again["training_seconds"] >= expected["seconds"]["train"]
    assert [line["step"] for line in metrics(run, "evaluation")] == [4]
    assert (run / "predictions.csv").read_text() == predictions


@pytest.mark.parametrize("ranks", [pytest.param(1, marks=pytest.mark.long), 2])
def test_bfloat16_learns_without_a_loss_scale_and_is_continued_to_the_bit(workplace, ranks):
    options = ["--compute.precision", "mixed_bfloat16", "--evaluation.every-epochs", "0"]
    train(workplace, *options, "--name", "whole", ranks=ranks)
    for steps in ("7", "90"):
        train(workplace, *options, "--name", "parts", "--max-steps", steps, ranks=ranks)
    whole, parts = (workplace / "runs" / name for name in ("whole", "parts"))
    assert final_state(parts) == final_state(whole)
    state = CheckpointFolder(whole / "checkpoints").newest().load()
    assert state["loss_scale"] == 1
    assert {state[name].dtype.name for name in state if "kernel" in name} == {"float32"}
    lines = metrics(whole, "train")
    assert not {"loss_scale", "skipped_steps"} & {key for line in lines for key in line}
    # Chance is 0.1.
    assert result(whole)["top1"] > 0.25


# 2. Continued in other circumstances.


def test_another_number_of_ranks_goes_on_with_the_same_global_batches(workplace):
    def train_part(name, ranks, steps, batch_size):
        args = (str(workplace), name, steps, batch_size)
        return run_world(run_scenarios.train_without_batch_norm, ranks, *args)[0]

    whole = train_part("whole", 2, 40, 30)
    # Within an epoch of 23.95 steps, then over its end. 3 does not divide the 4 streams.
    train_part("parts", 2, 6, 30)
    middle = train_part("parts", 3, 18, 20)
    parts = train_part("parts", 1, 40, 60)
    assert middle["meta"]["position"] == 18 * 60
    assert middle["meta"]["epoch_streams"] == 4
    starts = metrics(workplace / "runs" / "parts", "start")
    assert [line["ranks"] for line in starts] == [2, 3, 1]
    assert parts["tensors"].keys() == whole["tensors"].keys()
    for name, tensor in whole["tensors"].items():
        np.testing.assert_allclose(parts["tensors"][name], tensor, rtol=2e-4, atol=2e-5)


def test_more_epochs_and_another_log_interval_are_said_and_followed(workplace):
    train(workplace, "--name", "run", "--epochs", "1", ranks=1)
    more = ["--name", "run", "--epochs", "2", "--log.every-steps", "7"]
    output = train(workplace, *more, ranks=1).stdout
    assert "changed: --log.every-steps: was 5, is now 7" in output
    assert "changed: --epochs: was 1, is now 2 (this changes the result" in output
    run = workplace / "runs" / "run"
    assert result(run)["epochs"] >= 2
    steps = [line["step"] for line in metrics(run, "train")]
    assert steps == [*range(5, 45, 5), 45, *range(49, 90, 7), 90]
    # The next attempt is compared to the options of this one.
    output = train(workplace, *more, ranks=1).stdout
    assert "changed" not in output
    assert "is finished already" in output


# 3. Data that break one rank.


def test_bad_data_of_one_rank_end_the_other_with_a_pointer_to_the_cause(workplace):
    shard = next((workplace / "data" / "digits").glob("train-00003*"))
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 0xFF
    shard.write_bytes(content)
    ended = fork_trainer("train", *TINY, "--name", "run", cwd=workplace)
    assert sorted(ended.statuses) == [3, 6], ended.stderr
    assert ended.returncode == 3
    assert re.search(r"train-00003-of-00008.tfrecord, record \d+: cannot be read", ended.stderr)
    assert "another rank ended" in ended.stderr


# 4. A loss that is not finite: stop, or go back to a checkpoint and leave the images since out.


def roll_back(workplace, name, poisoned, *, steps=30, **checkpoint):
    args = (str(workplace), name, poisoned, checkpoint, steps)
    (outcome,) = run_world(run_scenarios.roll_back, 1, *args)
    return outcome


@pytest.fixture(scope="module")
def rolled_back(digits_folder, tmp_path_factory):
    """A run whose 13th and 21st batch are bad; its folder, and the batches that it used."""
    workplace = tmp_path_factory.mktemp("rolled-back")
    (workplace / "data").mkdir()
    (workplace / "data" / "digits").symlink_to(digits_folder)
    outcome = roll_back(workplace, "run", [12, 20], on_non_finite="roll-back")
    assert outcome["error"] is None
    return workplace / "runs" / "run", outcome["used"]


def test_training_goes_back_and_on_with_the_images_after_the_bad_ones(rolled_back, workplace):
    # Back to step 10, and on with the 14th batch; then back to 15.
    run, used = rolled_back
    whole = roll_back(workplace, "whole", [])
    assert used[:30] == whole["used"]
    left_out = (13 - 10) + (21 - 3 - 15)
    assert len(used) == 30 + left_out

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
    assert final_state(run) != final_state(workplace / "runs" / "whole")


def test_a_run_that_was_rolled_back_continues_where_it_would_have_been(rolled_back, workplace):
    run, used = rolled_back
    policy = {"on_non_finite": "roll-back"}
    # The second time it goes back to the checkpoint of step 15, as the whole run did.
    first = roll_back(workplace, "parts", [12], steps=15, **policy)
    rest = roll_back(workplace, "parts", [20 - len(first["used"])], **policy)
    assert first["used"] + rest["used"] == used
    assert final_state(workplace / "runs" / "parts") == final_state(run)


def test_what_comes_too_often_stops_and_says_what_was_tried(workplace):
    policy = {"on_non_finite": "roll-back", "rollbacks": 2}
    outcome = roll_back(workplace, "run", [12, 14, 16], **policy)
    assert "step " in outcome["error"]
    assert "rolled back 2 times" in outcome["error"]
    assert "step-0000000010" in outcome["error"]
    assert len(metrics(workplace / "runs" / "run", "roll_back")) == 2


def test_before_the_first_checkpoint_there_is_nothing_to_go_back_to(workplace):
    outcome = roll_back(workplace, "run", [3], on_non_finite="roll-back")
    assert "nothing is saved yet" in outcome["error"]
