"""A request to stop reaches the loop whatever else has gone wrong; mpirun's SIGCONT is one, other
SIGCONTs are not.
"""

import io
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests import ROOT
from tests.trainer.support.launched import wait_until
from trainer.distributed.signals import MPIRUN_PROGRAMS, StopRequest
from trainer.errors import STOP_SIGNALS

pytestmark = pytest.mark.slow


class DeadTerminal(io.StringIO):
    def write(self, text):
        raise OSError(5, "Input/output error")


def test_a_dead_terminal_does_not_keep_the_request_from_the_loop(monkeypatch):
    told = []
    stop = StopRequest()
    stop.attach(lambda: told.append("stop"))
    monkeypatch.setattr("sys.stderr", DeadTerminal())
    stop._handle(signal.SIGTERM, None)
    assert told == ["stop"]
    assert stop.signal == signal.SIGTERM


def test_a_request_that_came_before_the_loop_is_passed_on_when_it_comes():
    stop = StopRequest()
    stop._handle(signal.SIGTERM, None)
    told = []
    stop.attach(lambda: told.append("stop"))
    assert told == ["stop"]


def test_a_second_sigterm_changes_nothing():
    told = []
    stop = StopRequest()
    stop.attach(lambda: told.append("stop"))
    stop._handle(signal.SIGTERM, None)
    stop._handle(signal.SIGTERM, None)
    assert told == ["stop"]


def test_a_second_interrupt_ends_the_process(monkeypatch):
    ended = []
    monkeypatch.setattr("os._exit", ended.append)
    stop = StopRequest()
    stop._handle(signal.SIGINT, None)
    assert not ended
    stop._handle(signal.SIGINT, None)
    assert ended == [130]


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_the_signals_are_handled_once_installed(number):
    before = {other: signal.getsignal(other) for other in STOP_SIGNALS}
    try:
        stop = StopRequest()
        stop.install()
        signal.raise_signal(number)
        assert stop.signal == number
    finally:
        for other in STOP_SIGNALS:
            signal.signal(other, before[other])


RANK = """
import signal, sys, threading
from trainer.distributed import signals

signals.hold_sigcont()
threading.Thread(target=threading.Event().wait, daemon=True).start()
signal.signal(signal.SIGTERM, lambda *_: (print("asked to stop", flush=True), sys.exit(3)))
signals.listen_for_mpirun()
print("ready", flush=True)
while True:
    signal.pause()
"""


STOPPED_AT_ONCE = RANK.replace(
    'signals.listen_for_mpirun()\nprint("ready", flush=True)\n',
    """import os
look = signals._launcher

def stopped():
    print("ready", flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)
    return look()

signals._launcher = stopped
signals.listen_for_mpirun()
""",
)
"""A rank that is stopped as soon as its listening thread runs."""


LAUNCHER = """
import os, signal, subprocess, sys, time

rank = subprocess.Popen([sys.argv[1], "-c", sys.argv[2]], stdout=subprocess.PIPE, text=True)
rank.stdout.readline()
print(rank.pid, flush=True)
for line in sys.stdin:
    os.kill(rank.pid, getattr(signal, line.strip()))
    print("sent", flush=True)
print(rank.wait(), rank.stdout.read(), flush=True)
"""


class Launcher:
    """A launcher of one rank, by a name of its own."""

    def __init__(self, folder, name, rank=RANK):
        program = folder / name
        program.symlink_to(sys.executable)
        self.process = subprocess.Popen(
            [program, "-c", LAUNCHER, sys.executable, rank],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        self.rank = int(self.process.stdout.readline())

    def ask(self, name):
        """Let it send a signal to its rank as soon as it runs."""
        self.process.stdin.write(f"{name}\n")
        self.process.stdin.flush()

    def send(self, name):
        self.ask(name)
        assert self.process.stdout.readline() == "sent\n"

    def rank_has_ended(self):
        return ") Z " in Path(f"/proc/{self.rank}/stat").read_text()

    def end(self):
        """Status of the rank and its output."""
        said, _ = self.process.communicate(timeout=60)
        status, _, words = said.strip().partition(" ")
        return int(status), words


@pytest.fixture
def launcher(tmp_path):
    started = []

    def start(name, rank=RANK):
        started.append(Launcher(tmp_path, name, rank))
        return started[-1]

    yield start
    for started_launcher in started:
        started_launcher.process.kill()
        with started_launcher.process, suppress(ProcessLookupError):
            os.kill(started_launcher.rank, signal.SIGKILL)


def test_the_sigcont_of_mpirun_asks_to_stop(launcher):
    launchers = [launcher(name) for name in sorted(MPIRUN_PROGRAMS)]
    running = launchers

    def all_have_ended():
        nonlocal running
        running = [mpirun for mpirun in running if not mpirun.rank_has_ended()]
        # On a busy machine a rank may seem to have stood still when one comes.
        for mpirun in running:
            mpirun.send("SIGCONT")
        return not running

    wait_until(all_have_ended, pause=0.7)
    assert {mpirun.end() for mpirun in launchers} == {(3, "asked to stop")}


def test_the_sigcont_of_anybody_else_does_not(launcher):
    shell = launcher("shell")
    for _ in range(2):
        shell.send("SIGCONT")
        time.sleep(0.7)
    shell.send("SIGKILL")
    assert shell.end() == (-signal.SIGKILL, "")


@pytest.mark.parametrize("seconds", [0.7, 2])
def test_a_rank_that_stood_still_goes_on_when_mpirun_wakes_it(launcher, seconds):
    mpirun = launcher("mpirun")
    mpirun.send("SIGSTOP")
    time.sleep(seconds)
    mpirun.send("SIGCONT")
    time.sleep(1)
    mpirun.send("SIGKILL")
    assert mpirun.end() == (-signal.SIGKILL, "")


def test_a_rank_goes_on_when_mpirun_was_stopped_and_passes_its_sigcont_on(launcher):
    mpirun = launcher("mpirun")
    os.kill(mpirun.process.pid, signal.SIGSTOP)
    time.sleep(1)
    mpirun.ask("SIGCONT")
    os.kill(mpirun.process.pid, signal.SIGCONT)
    assert mpirun.process.stdout.readline() == "sent\n"
    time.sleep(1)
    mpirun.send("SIGKILL")
    assert mpirun.end() == (-signal.SIGKILL, "")


def test_a_rank_that_stood_still_before_it_listened_goes_on_when_woken(launcher):
    mpirun = launcher("mpirun", STOPPED_AT_ONCE)
    stat = Path(f"/proc/{mpirun.rank}/stat")
    wait_until(lambda: ") T " in stat.read_text())
    time.sleep(1)
    mpirun.send("SIGCONT")
    time.sleep(1)
    mpirun.send("SIGKILL")
    assert mpirun.end() == (-signal.SIGKILL, "")
