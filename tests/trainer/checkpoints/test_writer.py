"""Saving in the background: the files, the waits, and the errors."""

import errno
import os
import threading
import time

import pytest
import tensorflow as tf

from trainer.checkpoints.filesystem import LocalFiles
from trainer.checkpoints.folder import CheckpointFolder
from trainer.checkpoints.format import META, STATE, read_checkpoint
from trainer.checkpoints.names import key_of
from trainer.checkpoints.snapshot import refill, snapshot
from trainer.checkpoints.writer import CheckpointWriter
from trainer.config import CheckpointConfig
from trainer.errors import CheckpointError, SupersededError

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class Gate(LocalFiles):
    """Files whose tensors are only written once the gate is open, and then fail if told to."""

    def __init__(self):
        self.open, self.reached = threading.Event(), threading.Event()
        self.open.set()
        self.error = None

    def write(self, path, chunks):
        if path.name == STATE:
            self.reached.set()
            assert self.open.wait(60)
            if self.error:
                raise self.error
        super().write(path, chunks)


@pytest.fixture
def gate():
    return Gate()


@pytest.fixture
def folder(tmp_path, gate):
    return CheckpointFolder(tmp_path / "checkpoints", gate)


@pytest.fixture
def variables():
    return {
        "kernel": tf.Variable(tf.zeros([100, 50])),
        "step": tf.Variable(0, dtype=tf.int64),
        "flag": tf.Variable(False),
    }


def take(variables, step):
    """Train one step."""
    variables["kernel"].assign(tf.fill(variables["kernel"].shape, float(step)))
    variables["step"].assign(step)
    variables["flag"].assign(bool(step % 2))


def writer_of(folder, **config):
    return CheckpointWriter(folder, folder.claim(), CheckpointConfig(**config))


def values(folder):
    """Steps on disk, oldest first; each must hold its own values and no others."""
    found = []
    for path in reversed(folder.paths()):
        step = key_of(path.name).step
        tensors = read_checkpoint(LocalFiles(), path).load()
        assert set(tensors["kernel"].ravel()) == {float(step)}
        assert tensors["step"] == step
        assert tensors["flag"] == bool(step % 2)
        found.append(step)
    return found


# 1. Files.


def test_a_save_holds_the_values_of_its_call_whatever_is_trained_meanwhile(folder, gate, variables):
    writer = writer_of(folder)
    take(variables, 1)
    gate.open.clear()
    meta = {"seconds": {"train": 1.0}}
    writer.save(1, variables, meta)
    for step in range(2, 50):
        take(variables, step)
        meta["seconds"]["train"] += 1
    gate.open.set()
    writer.close()
    assert values(folder) == [1]
    assert folder.newest().meta["seconds"] == {"train": 1.0}


@pytest.mark.slow
@pytest.mark.parametrize("when_busy", ["wait", "skip"])
def test_saves_that_never_end_are_true_to_their_steps(folder, when_busy):
    """Large variables that change in the graph, all the time."""
    big = {f"kernel{number}": tf.Variable(tf.zeros([500, 500])) for number in range(10)}

    @tf.function
    def train():
        for variable in big.values():
            variable.assign_add(tf.ones_like(variable))

    writer = writer_of(folder, keep=100, keep_best=False, when_busy=when_busy)
    for step in range(1, 41):
        train()
        writer.save(step, big, {"evaluation": None})
        train()
        for variable in big.values():
            variable.assign_sub(tf.ones_like(variable))
    writer.close()
    seen = [saved.step for saved in writer.check()]
    assert seen[-1] == 40
    assert len(seen) == 40 if when_busy == "wait" else len(seen) >= 2
    for path in folder.paths():
        for value in read_checkpoint(LocalFiles(), path).load().values():
            assert value.min() == value.max() == key_of(path.name).step


def test_a_snapshot_goes_into_the_memory_of_the_one_before(variables):
    buffers = snapshot(variables)
    places = {name: array.ctypes.data for name, array in buffers.items()}
    take(variables, 7)
    refill(buffers, variables)
    assert {name: array.ctypes.data for name, array in buffers.items()} == places
    assert buffers["kernel"].min() == buffers["kernel"].max() == 7
    assert (buffers["step"], buffers["flag"]) == (7, True)


def test_a_snapshot_of_other_variables_takes_other_memory(variables):
    buffers = snapshot(variables)
    other = {"kernel": tf.Variable(tf.ones([3, 5])), "bias": tf.Variable([2.0])}
    refill(buffers, other)
    assert {name: array.tolist() for name, array in buffers.items()} == {
        "kernel": [[1.0] * 5] * 3,
        "bias": [2.0],
    }


# 2. Waits.


def test_a_save_returns_before_anything_is_written_and_tells_when_it_is(folder, gate, variables):
    writer = writer_of(folder)
    gate.open.clear()
    take(variables, 1)
    writer.save(1, variables, {})
    assert gate.reached.wait(60)
    assert writer.check() == []
    assert folder.newest() is None
    gate.open.set()
    writer.wait()
    (saved,) = writer.check()
    assert (saved.step, saved.path.name) == (1, "step-0000000001.a1")
    assert saved.bytes == sum((saved.path / name).stat().st_size for name in (STATE, META))
    assert saved.seconds > 0
    assert writer.check() == []


def test_a_save_waits_for_the_one_before(folder, gate, variables):
    writer = writer_of(folder)
    gate.open.clear()
    for step in (1, 2, 3):
        take(variables, step)
        threading.Timer(0.1, gate.open.set).start()
        writer.save(step, variables, {})
    writer.close()
    assert values(folder) == [1, 2, 3]


def test_of_saves_that_cannot_be_written_yet_the_newest_is_kept(folder, gate, variables):
    writer = writer_of(folder, when_busy="skip")
    for first in (1, 11):
        gate.open.clear()
        gate.reached.clear()
        take(variables, first)
        writer.save(first, variables, {})
        assert gate.reached.wait(60)
        for step in range(first + 1, first + 5):
            take(variables, step)
            writer.save(step, variables, {})
        gate.open.set()
        writer.wait()
        assert [saved.step for saved in writer.check()] == [first, first + 4]
    assert values(folder) == [5, 11, 15]


def test_a_save_at_once_is_on_disk_when_it_returns(folder, gate, variables):
    writer = writer_of(folder)
    take(variables, 1)
    writer.save(1, variables, {})
    take(variables, 2)
    assert writer.save_now(2, variables, {})
    assert values(folder) == [1, 2]
    take(variables, 3)
    writer.save(3, variables, {})
    assert writer.save_now(3, variables, {})
    assert [saved.step for saved in writer.check()] == [1, 2, 3]
    # A checkpoint that exists is not written again.
    gate.error = OSError(errno.EIO, os.strerror(errno.EIO))
    assert writer.save_now(3, variables, {})


def test_what_is_too_old_goes_and_the_index_says_what_is_there(folder, variables):
    writer = writer_of(folder, keep=1, keep_best=True, keep_every_steps=4)
    for step in range(1, 8):
        take(variables, step)
        writer.save(step, variables, {"evaluation": {"top1": 0.9 if step == 2 else 0.5}})
    writer.close()
    assert values(folder) == [2, 4, 7]
    assert (folder.folder / "index.json").exists()


def test_reserved_memory_is_what_the_first_save_is_copied_into(folder, variables):
    writer = writer_of(folder, when_busy="skip")
    writer.reserve(variables)
    before = {id(array) for tensors in writer._free for array in tensors.values()}
    take(variables, 1)
    writer.save(1, variables, {})
    writer.wait()
    assert {id(array) for tensors in writer._free for array in tensors.values()} == before
    assert len(before) == 2 * len(variables)
    assert values(folder) == [1]


# 3. What becomes of errors.


def test_a_full_disk_is_told_and_the_run_goes_on(folder, gate, variables, capsys):
    writer = writer_of(folder, keep=1)
    take(variables, 1)
    writer.save(1, variables, {})
    writer.wait()
    gate.error = FULL
    for step in (2, 3):
        take(variables, step)
        writer.save(step, variables, {})
        writer.wait()
        warning = capsys.readouterr().out
        assert f"step {step} was not saved (No space left on device)" in warning
        assert "it needs 20,009 bytes" in warning
        assert "are free" in warning
    assert [saved.step for saved in writer.check()] == [1]
    assert values(folder) == [1]
    assert not writer.save_now(4, variables, {})
    gate.error = None
    take(variables, 4)
    assert writer.save_now(4, variables, {})
    assert values(folder) == [4]


def test_a_full_disk_and_a_lost_terminal_do_not_end_the_run(folder, gate, variables, monkeypatch):
    def lost(*_, **__):
        raise BrokenPipeError

    writer = writer_of(folder)
    monkeypatch.setattr("builtins.print", lost)
    gate.error = FULL
    writer.save(1, variables, {})
    writer.wait()
    assert writer.check() == []


def test_any_other_error_is_raised_by_whatever_is_called_next(folder, gate, variables):
    gate.error = OSError(errno.EIO, os.strerror(errno.EIO))
    for call in ("check", "wait", "save", "save_now", "close"):
        writer = writer_of(folder)
        writer.save(1, variables, {})
        while writer._error is None:
            time.sleep(0.01)
        arguments = [2, variables, {}] if call.startswith("save") else []
        with pytest.raises(CheckpointError, match=r"step 1 cannot be saved \(.*Input/output error"):
            getattr(writer, call)(*arguments)


def test_an_attempt_that_was_overtaken_is_told_so(folder, variables):
    writer = writer_of(folder)
    CheckpointFolder(folder.folder).claim()
    writer.save(1, variables, {})
    with pytest.raises(SupersededError, match="attempt 2 of this run has begun"):
        writer.wait()
    assert folder.paths() == []


def test_a_save_after_a_failure_to_delete_what_is_old_is_refused(folder, variables, monkeypatch):
    writer = writer_of(folder, keep=1)
    writer.save(1, variables, {})
    writer.wait()

    def remove_tree(path):
        raise OSError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(folder._files, "remove_tree", remove_tree)
    take(variables, 2)
    writer.save(2, variables, {})
    with pytest.raises(CheckpointError, match="older checkpoints cannot be deleted"):
        writer.wait()
    assert folder.newest().step == 2
