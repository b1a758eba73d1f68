"""The output of a run: a bar on a terminal, lines everywhere else."""

import os
import re
import subprocess
import sys
from dataclasses import replace

import pytest

from tests import ROOT
from trainer.presets import PRESETS
from trainer.training.console import Console, detailed
from trainer.training.plan import make_plan

PLAN = make_plan(replace(PRESETS["digits"], epochs=5), 2, 1_000)
STEPS = PLAN.last_step
SHOW = """
import sys
from dataclasses import replace
from trainer.training.console import Console
from trainer.presets import PRESETS
from trainer.training.plan import make_plan
plan = make_plan(replace(PRESETS["digits"], epochs=5), 2, 1_000)
steps = plan.last_step
times = iter([10.0, *[30.0] * 9])
detail = sys.argv[1] == "detail"
with Console(plan, silent=False, detail=detail, clock=lambda: next(times)) as console:
    console.begin(0)
    console.metrics(steps // 2, {"images_per_second": 512.34, "train_top1": 0.871})
    console.progress(steps // 2)
    console._bar.refresh()
    console.evaluation(steps // 2, ["top-1 91.23% (largest class 10.00%)"], 0.5, 360)
    console.progress(steps // 2)
    console._bar.refresh()
    console.say("said")
"""
UNDER_MPIRUN = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"}


def on_a_terminal(env, detail, columns):
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", SHOW, detail],
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "TERM": "xterm",
            "COLUMNS": str(columns),
            **env,
        },
        stdout=theirs,
    )
    os.close(theirs)
    assert process.wait() == 0
    shown = os.read(ours, 65536).decode()
    os.close(ours)
    assert "said" in shown
    # Without control sequences, one line for each state of the bar.
    return shown, [
        line.strip() for line in re.split(r"[\r\n]+", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown))
    ]


@pytest.mark.parametrize(("env", "bar"), [({}, True), (UNDER_MPIRUN, False)])
def test_there_is_a_bar_on_a_terminal_unless_mpirun_has_made_it(env, bar):
    shown, lines = on_a_terminal(env, "", 100)
    assert ("\x1b" in shown) == any("━" in line for line in lines) == bar


@pytest.mark.parametrize("columns", [80, 100, 140])
def test_a_bar_counts_epochs_and_images_and_shows_the_metric_and_the_time_left(columns):
    _, lines = on_a_terminal({}, "", columns)
    bars = [line for line in lines if "━" in line]
    training, held_out = (next(line for line in bars if text in line) for text in ("train", "held"))
    for line, metric in ((training, "train top-1 87.1%"), (held_out, "held-out top-1 91.23%")):
        assert re.match(r"epoch 2\.\d\d of 5 ━", line)
        assert re.search(rf"━ .*512 images/s  {metric}  21 s left$", line)
        assert bool(re.search(r"2,\d+ of 5,000 images", line)) == (columns >= 100)
        assert "step" not in line
        assert len(line) <= columns


def test_a_bar_counts_steps_in_detail():
    _, lines = on_a_terminal({}, "detail", 120)
    assert any(f"{STEPS // 2}/{STEPS} steps" in line for line in lines if "━" in line)


VALUES = {"training_loss": 0.5, "images_per_second": 100.0, "data_wait_percent": 3.0, "loss": 0.5}


@pytest.mark.parametrize("detail", [False, True])
def test_a_line_has_the_time_that_is_left_and_details_on_request(capsys, detail):
    times = iter([10.0, 30.0, 50.0])
    console = Console(PLAN, silent=False, detail=detail, clock=lambda: next(times))
    console.metrics(1, VALUES)
    console.begin(1)
    console.metrics(31, VALUES)
    console.metrics(STEPS, VALUES)
    first, middle, last = capsys.readouterr().out.splitlines()
    # 30 steps took 20 s, so the other 48 take 32 s.
    assert middle.endswith("  32 s left")
    assert "left" not in first + last
    for line in (first, middle, last):
        assert "loss 0.5000" in line
        assert "images/s 100.0" in line
        assert re.search(r"epoch \d\.\d\d of 5  +[\d,]+ of 5,000 images  ", line)
        assert line.startswith("step") == ("data wait" in line) == detail


@pytest.mark.parametrize(
    ("env", "expected"),
    [({}, False), (UNDER_MPIRUN, True), ({"AZUREML_RUN_ID": "job"}, True),
     ({"HOROVOD_RANK": "0", "HOROVOD_SIZE": "2"}, False)],
)  # fmt: skip
def test_details_are_left_out_on_your_own_machine_alone(env, expected):
    assert detailed(env) == expected


def test_a_line_is_printed_as_it_is(capsys):
    Console(PLAN, silent=False).say("classes [b]x[/b] and :a:, :cat:")
    assert capsys.readouterr().out == "classes [b]x[/b] and :a:, :cat:\n"
