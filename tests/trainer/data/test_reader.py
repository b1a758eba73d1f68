"""Storage that fails: for a moment, for good, and under a run of two ranks."""

import re
import shutil
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
import tensorflow as tf

from benchmarks.data.slow_storage import compile_library
from tests.trainer.support.command import TINY, final_state, run_trainer, start_trainer
from trainer.config import DataConfig
from trainer.data import reader
from trainer.data.corruption import find_damage
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


def an_epoch(source):
    records = training_records(source, make_order(source, 1), 0, 0)
    return [record.numpy() for record in records.take(source.split.examples)]


def everything(source):
    segments = source.segments(0, source.split.examples)
    return [record.numpy() for record in read_segments(source, segments)]


def mend_after(monkeypatch, attempts, mend):
    """Mend the storage when an attempt, counted from 1, has failed."""
    real, lock, warned = reader._warn, threading.Lock(), []

    def warn(source, segments, number, pause):
        with lock:
            warned.append(number)
            if number == attempts:
                mend()
        return real(source, segments, number, pause)

    monkeypatch.setattr(reader, "_warn", warn)
    return warned


def vanish(path):
    path.rename(path.with_suffix(".away"))


def reappear(path):
    if not path.exists():
        shutil.copy(path.with_suffix(".away"), path)


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
    assert re.search(rf"{SHARD}.*: could not be read \(attempt 1 of 3\), again in 0.01 s", out)
    assert (f"(attempt {attempts + 1} of 3)" in out) is False


def test_without_trouble_nothing_is_said(source, capfd):
    an_epoch(source)
    everything(source)
    assert capfd.readouterr() == ("", "")


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
        "its data do not fit their checksum",
    ),
}


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


def test_once_reading_has_failed_for_good_no_other_window_is_waited_for(source, monkeypatch):
    monkeypatch.setattr(reader, "PAUSES", (0.5, 0.5))
    for path in source.folder.glob("train-*"):
        path.unlink()
    start = time.monotonic()
    # A batch asks for each of its records; each of 29 windows would take a second to fail.
    records = training_records(source, make_order(source, 1), 0, 0)
    batches = records.map(tf.strings.length, num_parallel_calls=1).batch(400)
    with pytest.raises(tf.errors.InvalidArgumentError):
        next(iter(batches))
    assert time.monotonic() - start < 6


def test_a_record_that_is_looked_for_is_read_once_and_not_waited_for(source, monkeypatch):
    monkeypatch.setattr(reader, "PAUSES", (100.0, 100.0))
    (source.folder / SHARD).unlink()
    fault = find_damage(source, lambda place: (3, place), [7])
    assert fault == f"{SHARD}, record 7: cannot be read (No such file or directory)"


def test_segments_longer_than_a_window_are_read_in_pieces(source):
    whole = replace(source, config=replace(CONFIG, shuffle_window=10_000))
    assert everything(source) == everything(whole)
    middle = [Segment(2, 70, 105)]
    records = [record.numpy() for record in read_segments(source, middle)]
    assert records == list(source.records(middle[0], source.origin(2)))
    assert len(records) == 105


# Over the command line.


@pytest.fixture(scope="session")
def slow_reads(tmp_path_factory):
    """The library under which reads of shards are slow, or fail."""
    return compile_library(tmp_path_factory.mktemp("library"))


@pytest.mark.slow
def test_reads_that_fail_now_and_then_change_nothing(tmp_path, digits_folder, slow_reads):
    args = [*TINY, "--data.dir", str(digits_folder), "--epochs", "4", "--ranks", "1"]
    done = run_trainer("train", *args, "--name", "calm", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    # Only of the training's own shards, as reading in Python is not tried again.
    env = {
        "LD_PRELOAD": str(slow_reads),
        "SLOW_READ_FAIL_EVERY": "23",
        "SLOW_READ_MATCH": "/train-",
    }
    done = run_trainer("train", *args, "--name", "stormy", cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (
        len(re.findall(r"warning: train-.*could not be read \(attempt 1 of 3\)", done.stdout)) > 2
    )
    assert "Input/output error" in done.stderr
    runs = tmp_path / "runs"
    assert final_state(runs / "stormy") == final_state(runs / "calm")


@pytest.mark.slow
def test_storage_that_fails_for_good_ends_the_run_by_the_name_of_a_shard(
    tmp_path, digits_folder, slow_reads
):
    args = [*TINY, "--data.dir", str(digits_folder), "--ranks", "1"]
    env = {"LD_PRELOAD": str(slow_reads), "SLOW_READ_FAIL_EVERY": "1", "SLOW_READ_MATCH": "/train-"}
    done = run_trainer("train", *args, cwd=tmp_path, env=env)
    assert done.returncode == 3, done.stdout + done.stderr
    assert re.search(r"train-\d+-of-00008.tfrecord, record 0: .*Input/output error", done.stderr)
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["gone", "cut inside a record"])
def test_a_shard_lost_under_two_ranks_ends_both_by_its_name(tmp_path, digits_folder, damage):
    shutil.copytree(digits_folder, tmp_path / "set")
    args = [*TINY, "--data.dir", "set", "--epochs", "2000"]
    process = start_trainer("train", *args, cwd=tmp_path)
    try:
        assert any(re.search("step +5 ", line) for line in process.stdout)
        DAMAGE[damage][0](tmp_path / "set" / SHARD)
        start = time.monotonic()
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert time.monotonic() - start < 60
    assert process.returncode == 3, out + err
    assert re.search(rf"{SHARD}, record \d+: cannot be read.*found by rank", err), err
    assert "copy or prepare the shard again" in err
    assert "Traceback" not in err
    assert not [pid for pid in Path("/proc").iterdir() if _belongs_to(pid, process.pid)]


def _belongs_to(pid, launcher):
    try:
        return b"TRAINER_LAUNCHER_PID=%d\0" % launcher in (pid / "environ").read_bytes()
    except OSError:
        return False
