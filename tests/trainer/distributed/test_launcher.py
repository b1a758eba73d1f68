"""Ranks of this machine: how they are started, stopped, seen through to their end, and started
again.
"""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests import ROOT
from tests.trainer.support.command import SMALL, TIMEOUT, TINY, final_state, metrics, result
from tests.trainer.support.forked import fork_trainer
from tests.trainer.support.launched import (
    has_loaded,
    ranks_of,
    wait_for_line,
    wait_until,
    wait_until_gone,
)
from trainer.distributed import launcher
from trainer.distributed.failures import Failure
from trainer.distributed.launcher import launch_with_restarts
from trainer.distributed.native_log import NativeLog
from trainer.distributed.restart_policy import AttemptResult
from trainer.report.run_data import read_run

LONG = [*TINY, "--name", "run", "--epochs", "4000", "--evaluation.every-epochs", "0"]
RESTARTED = [*TINY, "--epochs", "4", "--evaluation.every-epochs", "0", "--restarts", "3"]
CRASH = Failure(rank=1, step=12, status=1, explained=False, what="KeyError in feed.py, line 7")


ALLOCATE = """
import ctypes, resource
from trainer.distributed.launcher import keep_freed_memory

if {keep}:
    keep_freed_memory()
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
for turn in range(40):
    block = libc.malloc(48 << 20)
    ctypes.memset(block, 1, 48 << 20)
    libc.free(block)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
"""


def faults(work: str, *, keep: bool, **variables: str) -> int:
    """Pages that a process touched for the first time, while it used some memory 40 times."""
    command = [sys.executable, "-c", work.format(keep=keep)]
    env = {**os.environ, **variables}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_memory_that_a_rank_frees_is_used_again_unless_the_environment_says_otherwise():
    pages = 40 * (48 << 20) // os.sysconf("SC_PAGESIZE")
    assert faults(ALLOCATE, keep=True) < pages / 4
    assert faults(ALLOCATE, keep=False) > pages / 2
    assert faults(ALLOCATE, keep=True, MALLOC_TRIM_THRESHOLD_="131072") > pages / 2


ARROW = """
import resource
from trainer.distributed.launcher import keep_freed_memory

if {keep}:
    keep_freed_memory()
import numpy as np
import pyarrow as pa
for turn in range(40):
    blocks = [pa.allocate_buffer(3 << 20) for _ in range(8)]
    for block in blocks:
        np.frombuffer(block, np.uint8)[:] = 1
    del block, blocks
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
"""


def test_memory_that_arrow_frees_in_a_rank_is_used_again():
    pages = 40 * (24 << 20) // os.sysconf("SC_PAGESIZE")
    assert faults(ARROW, keep=True) < pages / 4
    assert faults(ARROW, keep=True, MIMALLOC_PURGE_DELAY="0") > pages / 2


POOLS = """
import ctypes, threading
from trainer.distributed.launcher import keep_freed_memory

if {keep}:
    keep_freed_memory()
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.fopen.restype = ctypes.c_void_p
together = threading.Barrier(8)

def work():
    together.wait()
    libc.malloc(1 << 16)
    together.wait()

threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
output = ctypes.c_void_p(libc.fopen(b"/dev/stdout", b"w"))
libc.malloc_info(0, output)
libc.fflush(output)
"""


def pools(*, keep: bool, **variables: str) -> int:
    """Pools of memory from which the main thread and eight others have allocated."""
    command = [sys.executable, "-c", POOLS.format(keep=keep)]
    env = {**os.environ, **variables}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    return done.stdout.count("<heap nr=")


def test_the_threads_of_a_rank_share_pools_of_memory_unless_the_environment_says_otherwise():
    assert pools(keep=False) > launcher.ARENAS
    assert pools(keep=True) == launcher.ARENAS
    assert pools(keep=True, MALLOC_ARENA_MAX="2") == 2


# 1. From attempt to attempt.


@pytest.fixture
def attempts(monkeypatch):
    """Results that attempts are to have; the arguments of those that were made."""
    results, made = [], []

    def run_ranks(args, ranks, signals, **_):
        made.append(list(args))
        result = results.pop(0)
        return result(signals) if callable(result) else result

    monkeypatch.setattr(launcher, "run_ranks", run_ranks)
    return results, made


def launch(args, ranks=2):
    return launch_with_restarts(args, ranks, lambda: None, 3)


def test_a_crashed_attempt_is_followed_by_one_that_continues_it(attempts, capsys):
    results, made = attempts
    results += [AttemptResult((-9, 6)), AttemptResult((0, 0))]
    args = ["train", "--name", "run", "--resume", "never"]
    assert launch(args) == 0
    assert made == [args, [*args, "--resume", "auto"]]
    assert "starting again from its start in 1 s" in capsys.readouterr().err


def test_a_broken_run_keeps_the_status_of_its_end(attempts, capsys):
    results, made = attempts
    results += [AttemptResult((1,), (CRASH,)), AttemptResult((1,), (CRASH,))]
    assert launch(["train"], ranks=1) == 1
    assert len(made) == 2
    assert "not started again" in capsys.readouterr().err


def test_a_request_to_stop_during_an_attempt_is_its_last(attempts):
    results, made = attempts

    def stopped(signals):
        signal.raise_signal(signal.SIGTERM)
        # The status of a rank that is killed while it saves.
        return AttemptResult((-9, 143))

    results += [stopped]
    assert launch(["train"]) == 137
    assert len(made) == 1


def test_a_request_to_stop_during_a_pause_ends_it(attempts, monkeypatch):
    results, made = attempts
    results += [AttemptResult((-9, 6))]
    pauses = []

    def interrupt(seconds):
        pauses.append(seconds)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(launcher.time, "sleep", interrupt)
    assert launch(["train"]) == 130
    assert len(made) == len(pauses) == 1


def test_handlers_are_as_before_when_the_launcher_is_done(attempts):
    before = signal.getsignal(signal.SIGTERM)
    attempts[0].append(AttemptResult((0,)))
    launch(["train"], ranks=1)
    assert signal.getsignal(signal.SIGTERM) == before


def test_the_launcher_starts_its_ranks_without_loading_tensorflow_itself():
    modules = "trainer.training.setup, trainer.distributed.launcher"
    code = f"import sys, {modules}; sys.exit('tensorflow' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_output_of_a_rank_is_read_to_its_end_when_the_terminal_is_gone(monkeypatch):
    # Otherwise the rank would wait for ever in a print, once its pipe is full.
    lines = iter(["first\n", "second\n"])
    gone = MagicMock()
    gone.write.side_effect = BrokenPipeError
    monkeypatch.setattr(sys, "stderr", gone)
    launcher._relay(lines, NativeLog(None, 1), 1)
    assert next(lines, None) is None


# 2. Requests to stop.


@pytest.mark.slow
def test_ctrl_c_ends_all_ranks_with_the_state_saved_and_says_how_to_go_on(workplace, start):
    process = start("train", *LONG, "--log.report", "True", cwd=workplace, module=SMALL)
    wait_for_line(process, "step +5 ")
    # Tells where rank 1 is, and changes nothing.
    os.kill(ranks_of(process)[1], signal.SIGUSR2)
    wait_for_line(process, "step +10 ")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 130, err
    assert re.search(r"\[rank 1\] .*trainer/training/run.py", err)
    assert "the state is saved" in out
    assert "run the same command with --name run" in out
    assert "ended with status" not in err
    run = workplace / "runs" / "run"
    assert final_state(run)
    step = metrics(run, "stop")[0]["step"]
    assert f"Stopped after step {step}" in (run / "report.html").read_text()
    assert not (run / "predictions.csv").exists()


@pytest.mark.slow
def test_interrupt_while_ranks_start_ends_them_without_a_traceback(workplace, start):
    process = start("train", *TINY, "--name", "run", cwd=workplace)
    wait_for_line(process, "starting 2 ranks")
    wait_until(lambda: len(ranks_of(process)) == 2)
    ranks = ranks_of(process)
    # A library that is loaded long before TensorFlow, and after Python itself has started.
    wait_until(lambda: all(has_loaded(pid, "/numpy/") for pid in ranks.values()))
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert not (workplace / "runs").exists()


STUBBORN = """
import sys
from trainer.distributed.launcher import launch

sys.exit(launch([], 2, "tests.trainer.support.stubborn"))
"""


def test_second_interrupt_leaves_at_once():
    command = [sys.executable, "-c", STUBBORN]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=ROOT, **pipes) as process:
        wait_for_line(process, "ready")
        ranks = ranks_of(process)
        process.send_signal(signal.SIGINT)
        wait_for_line(process, "asked to stop")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 130
    assert "steps since the last checkpoint are lost" in err
    assert len(ranks) == 2
    assert not any(Path(f"/proc/{pid}").exists() for pid in ranks.values())


@pytest.mark.long
def test_state_is_saved_when_the_terminal_and_the_launcher_are_gone(workplace):
    # The run's console is a terminal of its own, which is then taken away, as by a lost connection.
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", SMALL, "train", *LONG],
        cwd=workplace, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=theirs, stderr=theirs,
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
    assert final_state(workplace / "runs" / "run")


# 3. Crashes.


@pytest.mark.slow
def test_a_run_that_is_killed_and_frozen_completes_with_the_same_bits(workplace, start):
    undisturbed = fork_trainer("train", *RESTARTED, "--name", "whole", cwd=workplace)
    assert undisturbed.returncode == 0, undisturbed.stderr

    limit = ["--watchdog.step-seconds", "5"]
    process = start("train", *RESTARTED, *limit, "--name", "run", cwd=workplace, module=SMALL)
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
    assert re.search(r"rank 0: no progress for \d+ s after step \d+, in the phase 'train'", err)
    assert "rank 0: the late rank is rank 1: no sign of life" in err
    assert "rank 0 ended with status 7" in err
    assert "rank 1 did not end within" in err
    assert not any(Path(f"/proc/{pid}").exists() for pid in (killed | frozen).values())
    runs = workplace / "runs"
    assert result(runs / "run")["attempts"] == 3
    assert [line["attempt"] for line in metrics(runs / "run", "start")] == [1, 2, 3]
    assert final_state(runs / "run") == final_state(runs / "whole")
    # No step is missing or twice in the reported metrics.
    whole = [line["step"] for line in metrics(runs / "whole", "train")]
    assert [line["step"] for line in metrics(runs / "run", "train")] == whole
    assert list(read_run(runs / "run").curve("train", "loss").steps) == whole
    assert points(runs / "run" / "tblogs") == whole
    assert result(runs / "run")["best"] == result(runs / "whole")["best"]


def points(folder):
    """Steps of the losses that TensorBoard has of all attempts."""
    steps = []
    for attempt in sorted(folder.iterdir()):
        seen = EventAccumulator(str(attempt), purge_orphaned_data=False)
        seen.Reload()
        if "train/loss" in seen.Tags()["scalars"]:
            steps += [point.step for point in seen.Scalars("train/loss")]
    return steps


@pytest.mark.long
def test_a_run_that_is_killed_early_and_breaks_twice_is_given_up(workplace, start):
    (workplace / "file").touch()
    broken = ["--ranks", "1", "--log.tensorboard-dir", "file"]
    process = start("train", *RESTARTED, *broken, "--name", "run", cwd=workplace, module=SMALL)
    wait_for_line(process, "starting; loading")
    wait_until(lambda: bool(ranks_of(process)))
    os.kill(ranks_of(process)[0], signal.SIGKILL)
    out, err = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 1
    assert "rank 0 was killed by SIGKILL" in err
    assert err.count("starting again from its start") == out.count("starting; loading") == 2
    assert re.search(
        r"not started again: \w+ in \w+\.py, line \d+, after step 1, occurred twice", err
    )
