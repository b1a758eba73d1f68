"""Worlds: how ranks are started, find each other, stop together and fail together."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import ROOT
from tests.trainer.support.command import TINY, final_state, metrics, result, run_trainer
from tests.trainer.support.launched import ranks_of, wait_for_line, wait_until_gone
from trainer.distributed.restart_policy import AttemptResult

pytestmark = pytest.mark.slow


def test_stopped_and_continued_run_ends_with_the_same_bits(tmp_path, start):
    tiny = [*TINY, "--epochs", "20", "--evaluation.every-epochs", "0"]
    undisturbed = run_trainer("train", *tiny, "--name", "whole", cwd=tmp_path)
    assert undisturbed.returncode == 0, undisturbed.stderr

    # In the middle of an epoch by a step count; then in the middle of another by Ctrl-C.
    for steps in ("7", "31"):
        part = run_trainer("train", *tiny, "--name", "parts", "--max-steps", steps, cwd=tmp_path)
        assert part.returncode == 0, part.stderr
    process = start("train", *tiny, "--name", "parts", cwd=tmp_path)
    wait_for_line(process, "compiled")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "run the same command with --name parts" in out
    stopped_at = int(re.search(r"stopped after step (\d+) of 450", out)[1])
    assert 31 < stopped_at < 450
    last = run_trainer("train", *tiny, "--name", "parts", cwd=tmp_path)
    assert last.returncode == 0, last.stderr

    runs = tmp_path / "runs"
    assert final_state(runs / "parts") == final_state(runs / "whole")
    steps = [line["step"] for line in metrics(runs / "parts", "train")]
    assert steps == sorted(set(steps))
    assert [line["attempt"] for line in metrics(runs / "parts", "start")] == [1, 2, 3, 4]
    assert result(runs / "parts")["attempts"] == 4
    assert result(runs / "parts")["top1"] == result(runs / "whole")["top1"]


def test_a_signal_to_one_rank_stops_all_after_the_same_step(tmp_path, start):
    args = ["train", *TINY, "--name", "run", "--epochs", "400", "--log.report", "True"]
    process = start(*args, cwd=tmp_path)
    wait_for_line(process, "step +5 ")
    # Tells where rank 1 is, and changes nothing.
    os.kill(ranks_of(process)[1], signal.SIGUSR2)
    wait_for_line(process, "step +10 ")
    os.kill(ranks_of(process)[1], signal.SIGUSR1)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGUSR1, err
    assert re.search(r"\[rank 1\] .*trainer/training/loop.py", err)
    assert "the state is saved" in out
    assert "ended with status" not in err
    run = tmp_path / "runs" / "run"
    assert final_state(run)
    assert (
        f"Stopped after step {metrics(run, 'stop')[0]['step']}" in (run / "report.html").read_text()
    )
    assert not (run / "predictions.csv").exists()


def test_interrupt_while_ranks_start_ends_them_without_a_traceback(tmp_path, start):
    process = start("train", *TINY, "--name", "run", cwd=tmp_path)
    wait_for_line(process, "starting 2 ranks")
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert not (tmp_path / "runs").exists()


def test_state_is_saved_when_the_terminal_and_the_launcher_are_gone(tmp_path):
    # The run's console is a terminal of its own, which is then taken away, as by a lost connection.
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "trainer", "train", *TINY, "--name", "run", "--epochs", "4000"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=theirs, stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    seen = b""
    while b"step     20" not in seen:
        seen += os.read(ours, 65536)
    ranks = ranks_of(process)
    os.close(ours)
    process.kill()
    process.wait()
    wait_until_gone(ranks)
    assert final_state(tmp_path / "runs" / "run")


def test_second_interrupt_leaves_at_once(tmp_path, start):
    process = start("train", *TINY, "--name", "run", "--epochs", "400", cwd=tmp_path)
    wait_for_line(process, "step +5 ")
    ranks = ranks_of(process)
    # Frozen ranks cannot finish their step, so the first request cannot be met.
    for pid in ranks.values():
        os.kill(pid, signal.SIGSTOP)
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=10)
    assert process.returncode == 130
    assert "steps since the last checkpoint are lost" in err
    assert not any(Path(f"/proc/{pid}").exists() for pid in ranks.values())


def test_a_run_killed_just_before_its_result_gets_it_when_continued(tmp_path):
    args = ["train", *TINY, "--ranks", "1", "--name", "run", "--max-steps", "4"]
    assert run_trainer(*args, cwd=tmp_path).returncode == 0
    expected = result(tmp_path / "runs" / "run")
    # As a shorter run of the same name has left it.
    (tmp_path / "runs" / "run" / "result.json").write_text('{"steps": 3}')
    predictions = tmp_path / "runs" / "run" / "predictions.csv"
    before = predictions.read_text()
    predictions.unlink()
    done = run_trainer(*args, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    again = result(tmp_path / "runs" / "run")
    assert (again["top1"], again["steps"]) == (expected["top1"], 4)
    assert again["training_seconds"] >= expected["seconds"]["train"]
    assert [line["step"] for line in metrics(tmp_path / "runs" / "run", "evaluation")] == [4]
    assert predictions.read_text() == before


def test_bad_data_of_one_rank_end_the_other_with_a_pointer_to_the_cause(tmp_path):
    from trainer.data.builtin.digits import prepare_digits

    prepare_digits(str(tmp_path / "data" / "digits"))
    shard = next((tmp_path / "data" / "digits").glob("train-00003*"))
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 0xFF
    shard.write_bytes(content)
    done = run_trainer("train", *TINY, "--name", "run", cwd=tmp_path)
    assert done.returncode == 3, done.stderr
    assert re.search(r"train-00003-of-00008.tfrecord, record \d+: cannot be read", done.stderr)
    assert "another rank ended" in done.stderr


def test_ranks_end_when_their_launcher_is_killed(tmp_path, start):
    process = start("train", *TINY, "--name", "run", "--epochs", "4000", cwd=tmp_path)
    wait_for_line(process, "step +5 ")
    ranks = ranks_of(process)
    process.kill()
    wait_until_gone(ranks)
    assert final_state(tmp_path / "runs" / "run")


def test_gloo_under_mpirun_trains_as_one_world(tmp_path, start):
    # What mpirun sets is all that a rank sees of it.
    processes = [
        start(
            "train",
            *TINY,
            "--name",
            "run",
            "--max-steps",
            "3",
            cwd=tmp_path,
            env={
                "OMPI_COMM_WORLD_RANK": str(rank),
                "OMPI_COMM_WORLD_SIZE": "2",
                "OMPI_COMM_WORLD_LOCAL_RANK": str(rank),
                "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
                "PMIX_NAMESPACE": f"test-{os.getpid()}",
            },
        )
        for rank in range(2)
    ]
    outputs = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    assert result(tmp_path / "runs" / "run")["ranks"] == 2
    assert "2 ranks" in outputs[0][0]
    assert "step" not in outputs[1][0]


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [([0, 0], 0), ([6, 5], 5), ([6, -9], 137), ([6], 6), ([143, 143], 143), ([0, 3], 3)],
)
def test_the_launchers_status_is_the_cause_not_the_consequence(statuses, expected):
    assert AttemptResult(tuple(statuses)).status == expected
