"""A rank that hangs ends itself and says where; one that only sleeps, or is slow, does not."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass

import pytest

from tests.trainer.support import disturbed_scenarios
from tests.trainer.support.command import TIMEOUT
from tests.trainer.support.launched import wait_until
from tests.trainer.support.world import run_world
from trainer.config import WatchdogConfig
from trainer.distributed import watchdog
from trainer.distributed.watchdog import Heartbeat, HeartbeatFiles, Watchdog, late_ranks
from trainer.errors import WATCHDOG_EXIT_CODE

pytestmark = pytest.mark.slow

PRELUDE = """
import ctypes, faulthandler, os, sys, threading, time
from pathlib import Path
from trainer.distributed import watchdog
from trainer.config import WatchdogConfig
from trainer.distributed.rank import Rank

watchdog.TICK_SECONDS = 0.05
watchdog.EXPLAIN_SECONDS = 1.0

def start(step=1, startup=30, rank=0, size=1):
    config = WatchdogConfig(step_seconds=step, startup_seconds=startup)
    return watchdog.Watchdog(config, Rank(rank, size, rank, size, "test"))

"""


def begin(code, *args, **options):
    return subprocess.Popen(
        [sys.executable, "-c", PRELUDE + code, *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


# 1. Who is ended.


def test_the_timer_in_c_outlasts_a_late_tick(monkeypatch):
    limits = []
    monkeypatch.setattr(
        watchdog.faulthandler, "dump_traceback_later", lambda limit, **_: limits.append(limit)
    )
    with Watchdog(WatchdogConfig(step_seconds=1, startup_seconds=1), None):
        wait_until(lambda: limits)
    assert limits[0] >= 3 * watchdog.TICK_SECONDS


@dataclass(frozen=True)
class Case:
    """A process with a watchdog, and how it ends."""

    code: str
    status: int
    words: tuple[str, ...] = ()
    """In its output to stderr, which is empty where there are none."""


CASES = {
    "a main thread that is stuck in training is ended with its stack": Case(
        """
def wait_for_peer():
    time.sleep(600)

with start() as dog, dog.phase("train"):
    dog.beat(41, arrived=False)
    wait_for_peer()
""",
        WATCHDOG_EXIT_CODE,
        (
            "rank 0: no progress for 1 s after step 41, in the phase 'train'",
            "--watchdog.step-seconds",
            "in wait_for_peer",
        ),
    ),
    "the same step told again and again is no progress": Case(
        """
with start() as dog, dog.phase("train"):
    while True:
        dog.beat(41, arrived=False)
        time.sleep(0.05)
""",
        WATCHDOG_EXIT_CODE,
        ("no progress for 1 s",),
    ),
    "slow steps and batches are progress": Case(
        """
with start(step=3, startup=3) as dog:
    with dog.phase("train"):
        for step in range(4):
            time.sleep(0.9)
            dog.beat(step, arrived=False)
    with dog.phase("evaluation"):
        for _ in range(4):
            time.sleep(0.9)
            dog.alive()
    for _ in range(4):
        with dog.phase("checkpoint"):
            time.sleep(0.9)
""",
        0,
    ),
    "outside of training the longer limit holds": Case(
        """
with start(step=1, startup=3) as dog:
    with dog.phase("compile"):
        time.sleep(2)
    with dog.phase("train"):
        dog.beat(1, arrived=False)
    time.sleep(600)
""",
        WATCHDOG_EXIT_CODE,
        (
            "no progress for 3 s after step 1, in the phase 'other work'",
            "--watchdog.startup-seconds",
        ),
    ),
    "a rank that waits for others lets the late one speak first": Case(
        """
watchdog.EXTRA_SECONDS = 1.0
with start() as dog, dog.phase("train"):
    dog.beat(41, arrived=True)
    time.sleep(600)
""",
        WATCHDOG_EXIT_CODE,
        ("no progress for 2 s",),
    ),
    "a lock of Python's that is never given back ends the process too": Case(
        """
with start(step=1, startup=2) as dog, dog.phase("train"):
    ctypes.PyDLL(None).sleep(600)
""",
        1,
        ("Timeout (0:00:02)!",),
    ),
    "0 switches it off": Case(
        """
with start(step=0, startup=1) as dog, dog.phase("train"):
    time.sleep(2)
    assert threading.active_count() == 1
""",
        0,
    ),
    "after its end it does nothing even if that was an error": Case(
        """
try:
    with start(startup=2) as dog, dog.phase("train"):
        raise KeyError("x")
except KeyError:
    time.sleep(4)
""",
        0,
    ),
}


@pytest.fixture(scope="module")
def processes():
    """A process for each case, all at once, as they do little but wait."""
    started = {name: begin(case.code) for name, case in CASES.items()}
    yield started
    for process in started.values():
        process.kill()
        process.communicate()


@pytest.mark.parametrize("name", CASES)
def test_who_is_ended_and_with_which_words(processes, name):
    case = CASES[name]
    _, err = processes[name].communicate(timeout=TIMEOUT)
    assert processes[name].returncode == case.status, err
    assert [words for words in case.words if words not in err] == []
    assert bool(err) == bool(case.words)


def test_time_spent_stopped_does_not_count():
    process = begin("""
with start(step=2) as dog, dog.phase("train"):
    print("ready", flush=True)
    time.sleep(1)
print("done")
""")
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGSTOP)
    time.sleep(3)
    process.send_signal(signal.SIGCONT)
    out, err = process.communicate(timeout=TIMEOUT)
    assert (process.returncode, out, err) == (0, "done\n", "")


def test_a_pipe_that_takes_no_more_does_not_keep_the_process():
    read, write = os.pipe()
    code = """
with start() as dog, dog.phase("train"):
    os.set_blocking(2, False)
    try:
        while True:
            os.write(2, bytes(4096))
    except BlockingIOError:
        os.set_blocking(2, True)
    time.sleep(600)
"""
    process = subprocess.Popen([sys.executable, "-c", PRELUDE + code], stderr=write)
    try:
        assert process.wait(timeout=TIMEOUT) == WATCHDOG_EXIT_CODE
    finally:
        process.kill()
        os.close(read)
        os.close(write)


# 2. Who is late.


def test_a_frozen_rank_is_named_by_the_one_that_waits(tmp_path):
    code = f"""
watchdog.HEARTBEAT_SECONDS, watchdog.SILENT_SECONDS = 0.1, 1.0
watchdog.EXTRA_SECONDS = 0.0
with start(step=6, rank=int(sys.argv[1]), size=2) as dog, dog.phase("train"):
    dog.share(Path({str(tmp_path)!r}))
    dog.beat(7, arrived=True)
    print("ready", flush=True)
    time.sleep(600)
"""
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    ranks = [begin(code, str(rank), env=env) for rank in range(2)]
    try:
        for process in ranks:
            assert process.stdout.readline() == "ready\n"
        time.sleep(0.3)
        ranks[1].send_signal(signal.SIGSTOP)
        _, err = ranks[0].communicate(timeout=TIMEOUT)
    finally:
        for process in ranks:
            process.kill()
            process.communicate()
    assert ranks[0].returncode == WATCHDOG_EXIT_CODE
    assert "rank 0: the late rank is rank 1: no sign of life for" in err


WAITS, WORKS = Heartbeat("train", 41, arrived=True), Heartbeat("train", 41, arrived=False)


@pytest.mark.parametrize(
    ("heartbeats", "size", "words"),
    [
        ({0: (WAITS, 1.0), 1: (WAITS, 9.0)}, 2, "rank 1: no sign of life for 9 s"),
        ({0: (WAITS, 1.0), 1: (WORKS, 1.0)}, 2, "rank 1: has not computed its part of step 42"),
        (
            {0: (Heartbeat("checkpoint", 41, arrived=False), 1.0), 1: (WORKS, 1.0)},
            2,
            "rank 0: is in the phase 'checkpoint'",
        ),
        (
            {0: (WAITS, 1.0), 1: (Heartbeat("train", 40, arrived=True), 1.0)},
            2,
            "rank 1: is at step 40",
        ),
        ({0: (WAITS, 1.0), 1: (WAITS, 1.0)}, 2, "all ranks are at the same point"),
        ({0: (WAITS, 1.0), 1: (WAITS, 1.0)}, 8, "one of the 6 ranks whose state is not known"),
    ],
    ids=["silent", "computing", "elsewhere", "behind", "equal", "other nodes"],
)
def test_the_late_rank_is_told_from_those_that_wait(heartbeats, size, words):
    found = late_ranks(heartbeats, size)
    assert words in found
    assert found.count("rank ") == words.count("rank ")


@pytest.mark.slow
def test_the_loop_knows_whether_it_waits_and_counts_no_step_early():
    waiting, late = run_world(disturbed_scenarios.stall_one_rank, 2, 2.0, 1)
    assert (3, True) in waiting
    assert late.count((3, False)) > late.count((3, True))


# 3. The files by which ranks know each other.


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return [HeartbeatFiles(tmp_path / "run", rank, 2) for rank in range(2)]


def test_ranks_read_what_each_wrote_last(files):
    files[0].write(WORKS)
    files[0].write(WAITS)
    assert {rank: heartbeat for rank, (heartbeat, _) in files[1].read().items()} == {0: WAITS}
    assert 0 <= files[1].read()[0][1] < 5


def test_nothing_is_left_when_the_last_rank_has_ended(files):
    for heartbeats in files:
        heartbeats.write(WORKS)
    files[0].close()
    assert list(files[1].read()) == [1]
    files[1].close()
    assert not files[0].folder.exists()


def test_what_a_killed_attempt_has_left_is_not_taken_for_a_rank(files):
    files[0].write(WORKS)
    file = files[0].folder / "rank-0"
    left = json.loads(file.read_text())
    file.write_text(json.dumps({**left, "at": left["at"] - 60}))
    assert files[1].read() == {}
    # That of a machine that has been started again since, and of an earlier version.
    file.write_text(json.dumps({**left, "at": left["at"] + 60}))
    assert files[1].read() == {}
    del left["at"]
    file.write_text(json.dumps(left))
    assert files[1].read() == {}


def test_a_clock_that_is_set_does_not_make_heartbeats_old(files):
    files[0].write(WORKS)
    os.utime(files[0].folder / "rank-0", (0, 0))
    assert files[1].read()[0][1] < 5


def test_a_folder_of_another_users_is_not_written_to(files, monkeypatch):
    monkeypatch.setattr(watchdog.os, "getuid", lambda: 12345)
    files[0].write(WORKS)
    assert not list(files[0].folder.iterdir())


def test_heartbeats_that_cannot_be_written_are_done_without(files):
    files[0].folder.rmdir()
    files[0].write(WORKS)
    assert files[0].read() == {}
    files[0].close()
