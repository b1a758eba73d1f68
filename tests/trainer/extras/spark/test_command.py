"""`ml-trainer spark`, with a session on this machine."""

import signal

import pytest

from tests.trainer.support.command import TIMEOUT, TINY, final_state, run_trainer, start_trainer
from tests.trainer.support.launched import wait_for_line, wait_until

pytestmark = pytest.mark.spark


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_driver_that_is_ended_leaves_no_process_and_the_state_saved(
    spark_path, workplace, ranks_of_spark, number
):
    args = [*TINY, "--epochs", "4000", "--evaluation.every-epochs", "0", "--name", "run"]
    command = ["spark", "--num-proc", "2", "--", *args]
    process = start_trainer(*command, cwd=workplace, env=spark_path)
    try:
        wait_for_line(process, "step +20 ")
        assert len(ranks_of_spark(workplace)) == 2
        process.send_signal(number)
        _, err = process.communicate(timeout=TIMEOUT)
    finally:
        process.kill()
    if number == signal.SIGTERM:
        assert process.returncode == 143
        assert "the same command with --name run continues it" in err
    wait_until(lambda: not ranks_of_spark(workplace), 120)
    assert final_state(workplace / "runs" / "run")


def test_options_of_the_training_are_checked_before_a_session_starts(tmp_path):
    done = run_trainer("spark", "--num-proc", "0", "--", "--epochs", "2", cwd=tmp_path)
    assert (done.returncode, "--num-proc: 0 must be at least 1" in done.stderr) == (2, True)
    done = run_trainer("spark", "--num-proc", "2", "--", "--epoch", "2", cwd=tmp_path)
    assert (done.returncode, "--epoch" in done.stderr) == (2, True)
