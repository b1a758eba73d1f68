"""Runs that are killed, frozen or broken, over the real command line."""

import os
import re
import signal
import time
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.trainer.support.command import TIMEOUT, TINY, final_state, metrics, result, run_trainer
from tests.trainer.support.launched import ranks_of, wait_for_line
from trainer.report.run_data import read_run

pytestmark = pytest.mark.slow

RESTARTED = [*TINY, "--epochs", "4", "--evaluation.every-epochs", "0", "--restarts", "3"]


def test_a_run_whose_ranks_are_killed_and_frozen_completes_by_itself_with_the_same_bits(
    tmp_path, start
):
    undisturbed = run_trainer("train", *RESTARTED, "--name", "whole", cwd=tmp_path)
    assert undisturbed.returncode == 0, undisturbed.stderr

    limit = ["--watchdog.step-seconds", "5"]
    process = start("train", *RESTARTED, *limit, "--name", "run", cwd=tmp_path)
    wait_for_line(process, "step +25 ")
    killed = ranks_of(process)
    os.kill(killed[1], signal.SIGKILL)
    wait_for_line(process, "continues at step 23")
    wait_for_line(process, "step +30 ")
    frozen = ranks_of(process)
    assert not set(killed.values()) & set(frozen.values())
    os.kill(frozen[1], signal.SIGSTOP)
    _, err = process.communicate(timeout=TIMEOUT)

    assert process.returncode == 0, err
    assert "rank 1 was killed by SIGKILL (out of memory?)" in err
    assert "another rank ended" in err
    assert "starting again from the checkpoint of step 23 in 1 s (1 of 3 in a row)" in err
    assert re.search(r"rank 0: no progress for \d s after step \d+, in the phase 'train'", err)
    assert "rank 0: late is rank 1: no sign of life" in err
    assert "rank 0 ended with status 7" in err
    assert "rank 1 did not end after the failure: killed" in err
    assert not any(Path(f"/proc/{pid}").exists() for pid in (killed | frozen).values())
    runs = tmp_path / "runs"
    assert result(runs / "run")["attempts"] == 3
    assert [line["attempt"] for line in metrics(runs / "run", "start")] == [1, 2, 3]
    assert final_state(runs / "run") == final_state(runs / "whole")
    # No step is missing or twice in what was reported.
    whole = [line["step"] for line in metrics(runs / "whole", "train")]
    assert [line["step"] for line in metrics(runs / "run", "train")] == whole
    assert list(read_run(runs / "run").curve("train", "loss").steps) == whole
    assert points(runs / "run" / "tblogs") == whole
    assert result(runs / "run")["best"] == result(runs / "whole")["best"]


def points(folder):
    """Steps of the losses that TensorBoard has of all attempts."""
    found = []
    for attempt in sorted(folder.iterdir()):
        seen = EventAccumulator(str(attempt), purge_orphaned_data=False)
        seen.Reload()
        if "train/loss" in seen.Tags()["scalars"]:
            found += [point.step for point in seen.Scalars("train/loss")]
    return found


def test_a_run_that_was_killed_early_and_then_breaks_twice_at_one_step_is_given_up(tmp_path, start):
    (tmp_path / "file").touch()
    broken = ["--ranks", "1", "--log.tensorboard-dir", "file"]
    process = start("train", *RESTARTED, *broken, "--name", "run", cwd=tmp_path)
    wait_for_line(process, "starting 1 rank")
    while not ranks_of(process):
        time.sleep(0.05)
    os.kill(ranks_of(process)[0], signal.SIGKILL)
    out, err = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 1
    assert "rank 0 was killed by SIGKILL" in err
    assert err.count("starting again from its start") == out.count("starting 1 rank") == 2
    assert re.search(r"not started again: \w+ in \w+\.py, line \d+, after step 1, came twice", err)
