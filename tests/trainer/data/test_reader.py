"""Storage that fails: for a moment, for good, and under a run of two ranks."""

import hashlib
import io
import os
import pickle
import re
import shutil
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
import tensorflow as tf

from common.waiting import wait_until
from tests import ROOT
from tests.trainer.support.command import TIMEOUT, TINY
from tests.trainer.support.forked import fork_trainer
from tests.trainer.support.slow_reads import compile_library
from trainer.config import DataConfig
from trainer.data import reader
from trainer.data.corruption import find_damage
from trainer.data.formats import tfrecord
from trainer.data.manifest import load_manifest
from trainer.data.order import Segment
from trainer.data.pipeline import make_order
from trainer.data.reader import read_segments, training_records, unreadable
from trainer.data.source import Source

CONFIG = DataConfig(source="digits", dir=".", streams=4, shuffle_window=50)
SHARD = "train-00003-of-00008.tfrecord"


@pytest.fixture
def source(digits_folder, tmp_path, monkeypatch):
    """The digits in a folder of their own, and pauses too short to wait for."""
    monkeypatch.setattr(reader, "PAUSES", (0.01, 0.02))
    shutil.copytree(digits_folder, tmp_path / "set")
    split = load_manifest(tmp_path / "set").splits["train"]
    return Source(tmp_path / "set", split, 10, 16, CONFIG, 0)


def an_epoch(source, epochs=1):
    records = training_records(source, make_order(source, 1), 0, 0).unbatch()
    return [(record.numpy(),) for (record,) in records.take(epochs * source.split.examples)]


def everything(source):
    segments = source.segments(0, source.split.examples)
    return [(record.numpy(),) for (record,) in read_segments(source, segments).unbatch()]


def mend_after(monkeypatch, attempts, mend):
    """Mend the storage when an attempt, counted from 1, has failed."""
    real, lock, warned = reader._warn, threading.Lock(), []

    def warn(source, segments, number, *rest):
        with lock:
            warned.append(number)
            if number == attempts:
                mend()
        return real(source, segments, number, *rest)

    monkeypatch.setattr(reader, "_warn", warn)
    return warned


def vanish(path):
    path.rename(path.with_suffix(".away"))


def reappear(path):
    if not path.exists():
        shutil.copy(path.with_suffix(".away"), path)


@pytest.mark.slow
@pytest.mark.parametrize("read", [an_epoch, everything])
@pytest.mark.parametrize("attempts", [1, 2])
def test_a_shard_that_comes_back_in_time_is_read_as_if_nothing_had_been(
    source, monkeypatch, capfd, read, attempts
):
    whole = read(source)
    path = source.folder / SHARD
    vanish(path)
    warned = mend_after(monkeypatch, attempts, lambda: reappear(path))
    assert read(source) == whole
    assert max(warned) == attempts
    out = capfd.readouterr().out
    assert re.search(
        rf"{SHARD}.*: could not be read \(attempt 1 of 3\), trying again in 0.01 s", out
    )
    assert (f"(attempt {attempts + 1} of 3)" in out) is False


def test_a_warning_needs_no_terminal(source, monkeypatch):
    class Gone(io.StringIO):
        def write(self, text):
            raise BrokenPipeError

    monkeypatch.setattr("sys.stdout", Gone())
    reader._warn(source, [Segment(0, 0, 1)], 1, 0.01, OSError("lost"))


def test_without_trouble_nothing_is_said(source, capfd):
    an_epoch(source)
    everything(source)
    assert capfd.readouterr().out == ""


def cut(path, at):
    path.write_bytes(path.read_bytes()[:at])


DAMAGE = {
    "gone": (Path.unlink, "record 0: cannot be read (No such file or directory)"),
    "cut inside a record": (lambda path: cut(path, -5), "the file ends within it"),
    "cut between records": (
        lambda path: cut(path, 0),
        "record 0: cannot be read (the shard ends before it)",
    ),
    "a flipped byte": (
        lambda path: path.write_bytes(
            path.read_bytes()[:2000] + b"\xff" + path.read_bytes()[2001:]
        ),
        "its data do not match their checksum",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("read", [an_epoch, everything])
@pytest.mark.parametrize("damage", DAMAGE)
def test_what_stays_damaged_is_named_after_the_third_attempt(source, capfd, read, damage):
    break_, words = DAMAGE[damage]
    break_(source.folder / SHARD)
    with pytest.raises(tf.errors.InvalidArgumentError) as raised:
        read(source)
    found = unreadable(raised.value)
    assert re.match(rf"{SHARD}, record \d+: cannot be read \(", found), found
    assert words in found
    out, err = capfd.readouterr()
    assert "(attempt 2 of 3)" in out
    assert "Traceback" not in err


def test_what_could_be_read_in_the_end_is_named_by_its_shard_alone(source, monkeypatch):
    path = source.folder / SHARD
    vanish(path)
    real = reader._find_fault

    def find(*args):
        reappear(path)
        return real(*args)

    monkeypatch.setattr(reader, "_find_fault", find)
    with pytest.raises(tf.errors.InvalidArgumentError) as raised:
        everything(source)
    assert unreadable(raised.value) == f"{SHARD}: could not be read in 3 attempts"


def test_other_errors_are_not_taken_for_unreadable_records():
    assert unreadable(tf.errors.InvalidArgumentError(None, None, "assertion failed: [no]")) is None
    assert unreadable(ValueError("something else")) is None


def test_once_reading_has_failed_for_good_no_other_window_is_begun(source, capfd):
    for path in source.folder.glob("train-*"):
        path.unlink()
    # A batch asks for each of its records, which lie in 29 windows of 4 streams.
    records = training_records(source, make_order(source, 1), 0, 0).unbatch()
    batches = records.map(tf.strings.length, num_parallel_calls=1).batch(400)
    with pytest.raises(tf.errors.InvalidArgumentError):
        next(iter(batches))
    assert 1 <= capfd.readouterr().out.count("(attempt 1 of 3)") <= 8


def test_a_record_that_is_looked_for_is_read_once_and_not_waited_for(source, monkeypatch):
    monkeypatch.setattr(reader, "PAUSES", (100.0, 100.0))
    (source.folder / SHARD).unlink()
    fault = find_damage(source, lambda position: (3, position), [7])
    assert fault == f"{SHARD}, record 7: cannot be read (No such file or directory)"


def test_a_window_that_cannot_be_read_again_leaves_an_image_without_its_place(source):
    def locate(_: int) -> tuple[int, int]:
        raise OSError(5, "Input/output error")

    assert find_damage(source, locate, [7]) is None


def test_a_window_is_read_on_from_where_the_last_one_ended(source, monkeypatch):
    read = []
    frames = tfrecord.read_frames

    def counted(*args, **options):
        for frame in frames(*args, **options):
            read.append(frame.offset)
            yield frame

    monkeypatch.setattr(tfrecord, "read_frames", counted)
    reader_, shard = source.format.reader(1), source.split.shards[0]
    path = str(source.path(0))
    records = [
        record
        for first in range(0, 150, 50)
        for record in reader_.records(path, shard, 0, first, 50)
    ]
    assert records == list(source.records(Segment(0, 0, 150), source.path(0)))
    assert read[:150] == sorted(set(read))


def test_the_threads_that_read_end_with_the_iterator(source):
    # Those of an iterator that an earlier test left to the garbage collector are not meant.
    before = set(threading.enumerate())

    def reading() -> bool:
        started = set(threading.enumerate()) - before
        return any(thread.name.startswith("reader") for thread in started)

    iterator = iter(training_records(source, make_order(source, 1), 0, 0))
    next(iterator)
    assert reading()
    del iterator
    assert wait_until(lambda: not reading(), 20)


def test_segments_longer_than_a_window_are_read_in_pieces(source):
    whole = replace(source, config=replace(CONFIG, shuffle_window=10_000))
    assert everything(source) == everything(whole)
    middle = [Segment(2, 70, 105)]
    records = list(read_segments(source, middle).unbatch().as_numpy_iterator())
    assert records == list(source.records(middle[0], source.path(2)))
    assert len(records) == 105


# In a process whose reads fail, and over the command line.


@pytest.fixture(scope="session")
def slow_reads(tmp_path_factory):
    """The library under which reads of shards are slow, or fail."""
    return compile_library(tmp_path_factory.mktemp("library"))


READ = """
import hashlib, pickle, sys
import tensorflow as tf
from trainer.data import reader
from trainer.data.pipeline import make_order

reader.PAUSES = (0.01, 0.02)
source = pickle.loads(bytes.fromhex(sys.argv[1]))
records = reader.training_records(source, make_order(source, 1), 0, 0).unbatch()
try:
    content = b"".join(r.numpy() for (r,) in records.take(4 * source.split.examples))
    print("read", hashlib.sha256(content).hexdigest())
except tf.errors.InvalidArgumentError as error:
    print("failed", reader.unreadable(error))
"""


def read_with_failures(source, library, every):
    """Read 4 epochs in a process of which one of so many reads fails."""
    env = {
        **os.environ,
        "LD_PRELOAD": str(library),
        "SLOW_READ_FAIL_EVERY": str(every),
        "SLOW_READ_MATCH": "/train-",
        "TF_CPP_MIN_LOG_LEVEL": "0",
    }
    command = [sys.executable, "-c", READ, pickle.dumps(source).hex()]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True)


@pytest.mark.slow
def test_reads_that_fail_now_and_then_change_nothing(source, slow_reads):
    done = read_with_failures(source, slow_reads, 23)
    assert done.stdout.count("could not be read (attempt 1 of 3)") >= 2
    assert "trying again in 0.01 s: Input/output error" in done.stdout
    undisturbed = hashlib.sha256(b"".join(r for (r,) in an_epoch(source, epochs=4))).hexdigest()
    assert done.stdout.splitlines()[-1] == f"read {undisturbed}"


@pytest.mark.slow
def test_a_shard_lost_under_two_ranks_ends_both_by_its_name(tmp_path, digits_folder):
    shutil.copytree(digits_folder, tmp_path / "set")

    told = tmp_path / "runs" / "run" / "metrics.jsonl"

    def lose_a_shard():
        wait_until(lambda: told.exists() and '"train"' in told.read_text(), TIMEOUT)
        (tmp_path / "set" / SHARD).unlink()

    losing = threading.Thread(target=lose_a_shard)
    losing.start()
    args = [*TINY, "--data.dir", "set", "--epochs", "2000", "--name", "run"]
    ended = fork_trainer("train", *args, cwd=tmp_path)
    losing.join()
    assert ended.returncode == 3, ended.stderr
    assert re.search(rf"{SHARD}, record \d+: cannot be read.*found by rank", ended.stderr)
    assert "copy or prepare the shard again" in ended.stderr
    assert "Traceback" not in ended.stderr
