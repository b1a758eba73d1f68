"""A preparation by several processes, interrupted in every way at any moment: the result has the
same bytes as that of one that was left alone.
"""

import os
import random
import signal
import subprocess
import sys
import time
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests import ROOT
from tests.trainer.support.command import TIMEOUT, run_trainer
from tests.trainer.support.data_sets.image_folders import content, finished_shards, write_images

pytestmark = pytest.mark.slow

HELD_OUT = 260
INTERRUPTIONS = 6


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Images that take long to convert, most of them in the split that is not looked at before."""
    folder = tmp_path_factory.mktemp("interrupted")
    write_images(folder / "in", {"train/cat": 30, "val/cat": 1})
    held_out = folder / "in" / "val" / "dog"
    held_out.mkdir()
    for number in range(HELD_OUT):
        path = held_out / f"{number}.png"
        if number < 5:
            pixels = np.random.default_rng(number).integers(0, 256, (240, 240, 4)).astype(np.uint8)
            Image.fromarray(pixels).save(path, compress_level=1)
        else:
            os.link(held_out / f"{number % 5}.png", path)
    for text, inside in (("no image", "train/cat"), ("", "val/dog")):
        (folder / "in" / inside / "bad.jpg").write_text(text)
    return folder


def arguments(output, processes):
    return ["prepare", "folder", "--input", "in", "--output", output, "--shard-mb", "1",
            "--max-rejected", "2", "--processes", str(processes)]  # fmt: skip


@pytest.fixture(scope="module")
def undisturbed(folder):
    """The files of an uninterrupted preparation."""
    done = run_trainer(*arguments("undisturbed", 2), cwd=folder)
    assert done.returncode == 0, done.stderr
    found = content(folder / "undisturbed")
    assert len(found) >= 30
    assert found.keys() >= {"manifest.json", "rejected.csv"}
    return found


class Attempt:
    """A command that writes, in a session of its own as a terminal gives it."""

    def __init__(self, folder, output, processes):
        self.output = folder / output
        self._process = subprocess.Popen(
            [sys.executable, "-m", "trainer", *arguments(output, processes)],
            cwd=folder,
            # A killed process cannot remove its scratch files.
            env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(folder)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.pid = self._process.pid

    def wait_until(self, is_so):
        """Whether something became so before the command ended."""
        until = time.monotonic() + TIMEOUT
        while not is_so():
            assert time.monotonic() < until
            if self._process.poll() is not None:
                return False
            time.sleep(0.005)
        return True

    def wait_for_shards(self, count):
        """Whether so many shards were finished before the command ended."""
        return self.wait_until(lambda: len(finished_shards(self.output)) >= count)

    def can_be_interrupted(self):
        """Whether it handles SIGTERM, which Python itself does not."""
        status = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        caught = next(line.split()[1] for line in status if line.startswith("SigCgt"))
        return bool(int(caught, 16) >> (signal.SIGTERM - 1) & 1)

    def end(self):
        """Exit status, output, and errors."""
        out, err = self._process.communicate(timeout=TIMEOUT)
        return self._process.returncode, out, err


def children_of(pid):
    """The processes that one has started."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_running(pid):
    try:
        # The name, in brackets, may hold anything.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def have_ended(pids):
    """Whether all processes end within a time that a busy machine keeps too.

    One that its adopter has yet to reap has ended.
    """
    until = time.monotonic() + TIMEOUT
    while any(is_running(pid) for pid in pids):
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def interrupt(attempt, number):
    """End a command, check how it ends, and return how many shards are finished."""
    children = children_of(attempt.pid)
    # Ctrl-C is for all processes of a terminal; a system asks, or kills, the first one.
    (os.killpg if number == signal.SIGINT else os.kill)(attempt.pid, number)
    status, _, err = attempt.end()
    assert have_ended(children)
    finished = len(finished_shards(attempt.output))
    if (attempt.output / "manifest.json").exists():
        # It had done its work, and was about to end.
        return 0
    if number == signal.SIGKILL:
        assert status == -number
        return finished
    assert status == 128 + number
    assert err == (
        f"error: interrupted with {finished} shards finished; run the same command again to"
        " continue\n"
    )
    return finished


def test_the_number_of_processes_does_not_change_a_byte(folder, undisturbed):
    done = run_trainer(*arguments("by-1", 1), cwd=folder)
    assert done.returncode == 0, done.stderr
    assert content(folder / "by-1") == undisturbed


def test_a_command_interrupted_again_and_again_ends_with_the_same_bytes(folder, undisturbed):
    source = random.Random(0)
    done, in_the_middle = 0, 0
    for turn in count():
        output = f"interrupted-{turn}"
        while done < INTERRUPTIONS:
            attempt = Attempt(folder, output, source.choice([1, 2, 3]))
            assert attempt.wait_until(attempt.can_be_interrupted)
            # Before the first shard, or behind some more, in the middle of one or between two.
            enough = len(finished_shards(attempt.output)) + source.randint(0, 6)
            if not attempt.wait_for_shards(enough):
                assert attempt.end()[0] == 0
                break
            time.sleep(source.uniform(0, 0.05))
            finished = interrupt(
                attempt, source.choice([signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
            )
            done += 1
            in_the_middle += 0 < finished < len(undisturbed) - 3
            if (folder / output / "manifest.json").exists():
                break
        last = run_trainer(*arguments(output, 2), cwd=folder)
        assert last.returncode == 0, last.stderr
        assert content(folder / output) == undisturbed
        if done == INTERRUPTIONS:
            break
    assert in_the_middle >= 2


def test_a_killed_process_is_told_and_the_same_command_continues(folder, undisturbed):
    attempt = Attempt(folder, "killed", 2)
    assert attempt.wait_for_shards(1)
    children = children_of(attempt.pid)
    os.kill(children[0], signal.SIGKILL)
    status, _, err = attempt.end()
    assert status == 1
    assert err == (
        "error: a process was killed while writing, perhaps out of memory; try fewer --processes\n"
    )
    assert have_ended(children)
    done = run_trainer(*arguments("killed", 2), cwd=folder)
    assert done.returncode == 0, done.stderr
    assert content(folder / "killed") == undisturbed


@pytest.mark.long
def test_a_second_command_is_refused_while_the_first_writes(folder, undisturbed):
    attempt = Attempt(folder, "twice", 2)
    assert attempt.wait_for_shards(1)
    os.killpg(attempt.pid, signal.SIGSTOP)
    second = run_trainer(*arguments("twice", 2), cwd=folder)
    os.killpg(attempt.pid, signal.SIGCONT)
    assert second.returncode == 1
    assert second.stderr == "error: twice: another process is writing there; wait for it\n"
    assert attempt.end()[0] == 0
    assert content(folder / "twice") == undisturbed


WAITING = """
import sys, time
from trainer.data.prepare.pool import work_through

def work(seconds, advance):
    time.sleep(seconds)

if __name__ == "__main__":
    with work_through(work, [0, 0, 100], 3, "sleeping", 3) as results:
        for _ in results:
            print("done", flush=True)
"""


def test_processes_end_with_the_one_that_started_them(tmp_path):
    (tmp_path / "waiting.py").write_text(WAITING)
    with subprocess.Popen(
        [sys.executable, "waiting.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout
        assert [process.stdout.readline() for _ in range(2)] == [b"done\n"] * 2
        children = children_of(process.pid)
        process.kill()
    assert len(children) == 3
    assert have_ended(children)
