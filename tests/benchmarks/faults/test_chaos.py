"""A training that is disturbed again and again ends like one that was left alone."""

import io
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.faults.chaos import (
    PHASES,
    SIGNALS,
    TARGETS,
    TRAININGS,
    Fault,
    Recovery,
    chaos,
    finish,
    plan,
    table,
)
from benchmarks.faults.watched_run import WatchedRun
from common.errors import UserError
from tests.trainer.support.command import TINY, metrics


def test_each_signal_comes_in_each_phase_before_any_comes_again():
    every = {(signal.name, phase) for signal in SIGNALS for phase in PHASES}
    for seed in range(20):
        faults = plan(seed, 20)
        assert {(fault.signal, fault.phase) for fault in faults[: len(every)]} == every
        assert len(faults) == 20
        assert {fault.target for fault in faults} <= set(TARGETS)


def test_a_seed_makes_one_plan_and_another_seed_another():
    assert plan(3, 20) == plan(3, 20)
    assert plan(3, 20) != plan(4, 20)
    targets = Counter(fault.target for seed in range(20) for fault in plan(seed, 20))
    assert min(targets.values()) > 100


def test_the_table_says_what_was_done_and_how_long_it_took():
    recoveries = [
        Recovery(Fault("SIGKILL", "rank 1", "save"), 30, None, 21, 11.25),
        Recovery(Fault("SIGTERM", "launcher", "step"), 44, 143, 45, 9.0),
    ]
    lines = table(recoveries).splitlines()
    assert [cell.strip() for cell in lines[2].split("|")[1:-1]] == [
        *("1", "SIGKILL", "rank 1", "save", "30", "continued", "21", "11.2"),
    ]
    assert "ended with 143" in lines[3]


@pytest.mark.parametrize(
    ("statuses", "again", "last"), [((0,), 0, 0), ((143, 143, 0), 2, 0), ((143, 1, 0), 1, 1)]
)
def test_a_stopped_run_is_given_again_and_a_failed_one_is_not(statuses, again, last):
    class Run:
        left, started = list(statuses), 0

        def wait(self, _):
            return self.left.pop(0)

        def again(self):
            self.started += 1

    run = Run()
    assert finish(run) == last
    assert run.started == again


def command(folder: Path, script: str) -> WatchedRun:
    """A run whose command is a shell script."""

    class Scripted(WatchedRun):
        def _start(self):
            self._started = time.time()
            return subprocess.Popen(["/bin/sh", "-c", script], cwd=folder)

    return Scripted(folder, "scripted", (), log=io.BytesIO())


def test_the_command_is_given_again_while_a_phase_is_waited_for(tmp_path):
    # The first command was told to stop, takes a step and ends; only the second reaches the phase.
    watched = command(tmp_path, "if mkdir first; then exit 143; else touch phase; sleep 60; fi")
    try:
        watched.require((tmp_path / "phase").exists, 30, "it reaches the phase")
        assert watched.process.poll() is None
    finally:
        watched.kill()


def test_a_run_that_finishes_before_the_phase_is_an_error(tmp_path):
    watched = command(tmp_path, "exit 0")
    with pytest.raises(UserError, match="use more --epochs"):
        watched.require(lambda: False, 30, "it reaches the phase")


def test_a_phase_that_never_comes_is_named(tmp_path):
    watched = command(tmp_path, "sleep 60")
    try:
        with pytest.raises(UserError, match=r"waited 0 s in vain until it saves"):
            watched.require(lambda: False, 0.2, "it saves")
    finally:
        watched.kill()


@pytest.mark.slow
@pytest.mark.long
def test_a_disturbed_run_ends_with_the_bytes_of_an_undisturbed_one(tmp_path):
    said = []
    options = [*TRAININGS["digits"], *TINY, "--restarts", "3", "--epochs", "20"]
    options += ["--evaluation.every-epochs", "5"]
    compared = chaos(tmp_path, 17, 2, options, said.append)
    assert compared.undisturbed_state == compared.disturbed_state
    assert len(compared.recoveries) == 2
    assert all(recovery.seconds > 0 for recovery in compared.recoveries)
    steps = [line["step"] for line in metrics(tmp_path / "runs" / "disturbed", "train")]
    whole = [line["step"] for line in metrics(tmp_path / "runs" / "whole", "train")]
    # A stop reports its step as well; none is missing or there twice.
    assert steps == sorted(set(steps))
    assert set(whole) <= set(steps)
    assert len(said) == 4
