"""A run that is disturbed again and again ends like one that was left alone.

`make -C tools chaos SEED=0 KILLS=20 TRAINING=digits` disturbs the whole preset, and with JSON=FILE
writes what tools/benchmarks/results/ keeps of it. With RANKS=any, each attempt has another number
of ranks.
"""

import io
import os
import subprocess
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path

import pytest

from tests.trainer.support.chaos import (
    PHASES,
    SIGNALS,
    TARGETS,
    TRAININGS,
    WatchedRun,
    chaos,
    counts,
    finish,
    plan,
)
from tests.trainer.support.command import TINY, metrics
from tools.benchmarks.measure import to_json
from tools.benchmarks.tables import chaos as table
from trainer.diagnostics.environment import environment


def test_each_signal_comes_in_each_phase_before_any_comes_again():
    every = {(signal.name, phase) for signal in SIGNALS for phase in PHASES}
    for seed in range(20):
        faults = plan(seed, 20)
        assert {(fault.signal, fault.phase) for fault in faults[: len(every)]} == every
        assert {fault.target for fault in faults} <= set(TARGETS)
    assert plan(3, 20) == plan(3, 20) != plan(4, 20)


def test_a_single_rank_gets_only_faults_that_show():
    shown = [fault for seed in range(20) for fault in plan(seed, 20) if 1 in counts(fault)]
    assert {fault.phase for fault in shown} == {"start-up", "step", "save"}
    assert {fault.target for fault in shown if fault.signal == "SIGSTOP"} == {"launcher"}
    assert all(counts(fault) for seed in range(20) for fault in plan(seed, 20))


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
    ended = command(tmp_path, "exit 0")
    with pytest.raises(AssertionError, match="use more --epochs"):
        ended.require(lambda: False, 30, "it reaches the phase")


@pytest.mark.slow
@pytest.mark.long
def test_a_disturbed_run_ends_with_the_bytes_of_an_undisturbed_one(tmp_path):
    asked = os.environ.get("CHAOS_KILLS")
    seed, kills = (int(os.environ["CHAOS_SEED"]), int(asked)) if asked else (17, 2)
    options = [*TRAININGS[os.environ.get("CHAOS_TRAINING") or "digits"]]
    options += (
        ["--epochs", "40"]
        if asked
        else [*TINY, "--restarts", "3", "--epochs", "20", "--evaluation.every-epochs", "5"]
    )
    any_ranks = os.environ.get("CHAOS_RANKS") == "any"
    say = partial(print, flush=True)
    compared = chaos(tmp_path, seed, kills, options, say, any_ranks=any_ranks)
    told = {"seed": seed, "kills": kills, "training": os.environ.get("CHAOS_TRAINING")}
    told |= {"ranks": os.environ["CHAOS_RANKS"]} if os.environ.get("CHAOS_RANKS") else {}
    facts = {"benchmark": "chaos", "environment": environment(), "options": told}
    data = {**facts, **asdict(compared), "load_average_after": os.getloadavg()}
    print(f"\n{table(data)}\n{compared}")
    if os.environ.get("CHAOS_JSON"):
        Path(os.environ["CHAOS_JSON"]).write_text(to_json(data) + "\n")
    assert compared.undisturbed_state == compared.disturbed_state
    assert len(compared.recoveries) == kills
    if any_ranks:
        starts = metrics(tmp_path / "runs" / "disturbed", "start")
        assert len({start["ranks"] for start in starts}) > 1
    assert all(recovery.seconds > 0 for recovery in compared.recoveries)
    steps = [line["step"] for line in metrics(tmp_path / "runs" / "disturbed", "train")]
    whole = [line["step"] for line in metrics(tmp_path / "runs" / "whole", "train")]
    # A stop reports its step as well; none is missing or there twice.
    assert steps == sorted(set(steps))
    assert set(whole) <= set(steps)
