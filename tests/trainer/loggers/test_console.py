"""The output of a run: a bar on a terminal, lines everywhere else."""

import os
import subprocess
import sys

import pytest

from tests import ROOT
from trainer.loggers.console import Console, detailed

SHOW = """
from trainer.loggers.console import Console
with Console(10, silent=False) as console:
    console.progress(5)
    console.say("said")
"""
UNDER_MPIRUN = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"}


@pytest.mark.parametrize(("env", "bar"), [({}, True), (UNDER_MPIRUN, False)])
def test_there_is_a_bar_on_a_terminal_unless_mpirun_has_made_it(env, bar):
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", SHOW],
        env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", **env},
        stdout=theirs,
    )
    os.close(theirs)
    assert process.wait() == 0
    shown = os.read(ours, 65536).decode()
    os.close(ours)
    assert "said" in shown
    assert ("\x1b" in shown) == ("5/10" in shown) == bar


VALUES = {"training_loss": 0.5, "images_per_second": 100.0, "data_wait_percent": 3.0, "loss": 0.5}


@pytest.mark.parametrize("detail", [False, True])
def test_a_line_has_the_time_that_is_left_and_details_on_request(capsys, detail):
    times = iter([10.0, 30.0, 50.0])
    console = Console(100, silent=False, detail=detail, clock=lambda: next(times))
    console.metrics(1, "epoch 0.05 of 5", VALUES)
    console.begin(1)
    console.metrics(21, "epoch 1.00 of 5", VALUES)
    console.metrics(100, "epoch 5.00 of 5", VALUES)
    first, middle, last = capsys.readouterr().out.splitlines()
    # 20 steps took 20 s, so 79 take 79 s.
    assert middle.endswith("  79 s left")
    assert "left" not in first + last
    for line in (first, middle, last):
        assert "loss 0.5000" in line
        assert "100.0 images/s" in line or "images/s 100.0" in line
        assert line.startswith("step") == ("data wait" in line) == detail


@pytest.mark.parametrize(
    ("env", "expected"),
    [({}, False), (UNDER_MPIRUN, True), ({"AZUREML_RUN_ID": "job"}, True),
     ({"HOROVOD_RANK": "0", "HOROVOD_SIZE": "2"}, False)],
)  # fmt: skip
def test_details_are_left_out_on_your_own_machine_alone(env, expected):
    assert detailed(env) == expected
