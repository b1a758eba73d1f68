"""mpirun's SIGCONT is the first word of an end, and other SIGCONTs are none."""

import os
import signal
import subprocess
import sys
import time

import pytest

from tests import ROOT
from trainer.distributed.signals import MPIRUN_PROGRAMS

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

    def __init__(self, folder, name):
        program = folder / name
        program.symlink_to(sys.executable)
        self.process = subprocess.Popen(
            [program, "-c", LAUNCHER, sys.executable, RANK],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        self.rank = int(self.process.stdout.readline())

    def send(self, name):
        self.process.stdin.write(f"{name}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "sent\n"

    def end(self):
        """Status of the rank and what it has said."""
        said, _ = self.process.communicate(timeout=60)
        status, _, words = said.strip().partition(" ")
        return int(status), words


@pytest.fixture
def launcher(tmp_path):
    started = []

    def start(name):
        started.append(Launcher(tmp_path, name))
        return started[-1]

    yield start
    for one in started:
        one.process.kill()
        with one.process:
            subprocess.run(["kill", "-9", str(one.rank)], capture_output=True, check=False)


@pytest.mark.parametrize("name", sorted(MPIRUN_PROGRAMS))
def test_the_sigcont_of_mpirun_asks_to_stop(launcher, name):
    mpirun = launcher(name)
    # On a busy machine a rank may seem to have stood still when the first comes.
    for _ in range(3):
        mpirun.send("SIGCONT")
        time.sleep(1.5)
    assert mpirun.end() == (3, "asked to stop")


def test_the_sigcont_of_anybody_else_does_not(launcher):
    shell = launcher("shell")
    shell.send("SIGCONT")
    time.sleep(1.5)
    shell.send("SIGKILL")
    assert shell.end() == (-signal.SIGKILL, "")


@pytest.mark.parametrize("seconds", [0.7, 3])
def test_a_rank_that_stood_still_goes_on_when_mpirun_wakes_it(launcher, seconds):
    mpirun = launcher("mpirun")
    mpirun.send("SIGSTOP")
    time.sleep(seconds)
    mpirun.send("SIGCONT")
    time.sleep(1)
    mpirun.send("SIGKILL")
    assert mpirun.end() == (-signal.SIGKILL, "")


def test_a_rank_goes_on_when_mpirun_itself_was_stopped_and_passes_its_sigcont_on(launcher):
    mpirun = launcher("mpirun")
    os.kill(mpirun.process.pid, signal.SIGSTOP)
    time.sleep(1)
    os.kill(mpirun.process.pid, signal.SIGCONT)
    mpirun.send("SIGCONT")
    time.sleep(1)
    mpirun.send("SIGKILL")
    assert mpirun.end() == (-signal.SIGKILL, "")
