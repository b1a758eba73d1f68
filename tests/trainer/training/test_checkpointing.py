"""When a run is saved, and what all ranks continue from."""

import errno
import os

import numpy as np
import pytest
import tensorflow as tf

from trainer.checkpoints.filesystem import LocalFiles
from trainer.checkpoints.folder import CheckpointFolder
from trainer.checkpoints.format import STATE
from trainer.config import CheckpointConfig
from trainer.distributed.communicator import Alone
from trainer.errors import CheckpointError
from trainer.training.checkpointing import Saver


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class Failing(LocalFiles):
    """Files whose tensors cannot be written once there is an error."""

    error = None

    def write(self, path, chunks):
        if path.name == STATE and self.error:
            raise self.error
        super().write(path, chunks)


class Follower(Alone):
    """A rank that is not the first."""

    rank = 1


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def files():
    return Failing()


@pytest.fixture
def folder(tmp_path, files):
    return CheckpointFolder(tmp_path / "checkpoints", files)


@pytest.fixture
def variables():
    return {"kernel": tf.Variable(tf.zeros([3])), "step": tf.Variable(0, dtype=tf.int64)}


@pytest.fixture
def begin(folder, clock, variables):
    savers = []

    def begin_one(world=None, **config):
        config = {"every_minutes": 0.0, "every_epochs": 0, **config}
        facts = [lambda step: {"fact": step}]
        saver = Saver(
            CheckpointConfig(**config), folder, world or Alone(), variables, facts, clock=clock
        )
        saver.begin()
        savers.append(saver)
        return saver

    yield begin_one
    for saver in savers:
        if saver._writer:
            saver._writer._error = None
        saver.close()


# 1. When.


def test_by_the_clock_so_many_minutes_after_the_save_before(begin, clock, variables):
    saver = begin(every_minutes=2.0)
    for now, due in ((119.0, False), (120.0, True), (500.0, True)):
        clock.now = now
        assert (saver.late, saver.urgent, saver.due(7)) == (due, due, due)
    saver.save(7)
    clock.now = 619.0
    assert not saver.late
    clock.now = 620.0
    assert saver.late


def test_the_minutes_count_from_the_first_step(folder, clock, variables):
    saver = Saver(CheckpointConfig(every_minutes=1.0), folder, Alone(), variables, clock=clock)
    clock.now = 1000.0
    saver.begin()
    assert not saver.late
    saver.close()


def test_by_steps_and_no_call_passes_over_one(begin):
    saver = begin(every_steps=10)
    assert [step for step in range(1, 35) if saver.due(step)] == [10, 20, 30]
    assert [saver.limit_steps(step, 100) for step in (0, 1, 9, 10, 19)] == [10, 9, 1, 10, 1]
    assert saver.limit_steps(3, 2) == 2
    assert begin().limit_steps(3, 100) == 100


def test_by_epochs_when_one_has_just_ended(begin):
    saver = begin(every_epochs=2)
    assert [epoch for epoch in range(1, 7) if saver.due(9, [epoch])] == [2, 4, 6]
    assert saver.due(9, [2, 3])
    assert not saver.due(9)


def test_never_where_nothing_is_asked_for(begin, clock):
    saver = begin()
    clock.now = 1e9
    assert not any(saver.due(step, [step]) for step in range(1, 50))


def test_a_step_is_saved_once_and_one_that_was_restored_not_again(begin, folder, variables):
    saver = begin()
    saver.save(5)
    saver.save(5)
    saver.close()
    assert [saved.step for saved in saver.landed()] == [5]
    again = begin()
    assert again.restore()["step"] == 5
    again.save(5)
    again.close()
    assert again.landed() == []
    assert len(folder.paths()) == 1


def test_only_the_first_rank_saves(begin, folder, clock, variables):
    saver = begin(Follower(), every_minutes=1.0)
    clock.now = 1e9
    assert not saver.late
    saver.save(5)
    saver.save_now(6)
    assert saver.landed() == []
    assert folder.paths() == []


class Parts:
    """Divided state of no tensors; counts how often all ranks must have met."""

    def __init__(self):
        self.meetings, self.shapes = 0, {}

    def gather(self):
        self.meetings += 1
        return {}

    def scatter(self, tensors):
        self.meetings += 1


@pytest.mark.parametrize("first", ["save", "save_now"])
def test_ranks_meet_equally_often_whatever_was_saved_before(folder, variables, first):
    """Otherwise they would wait for each other forever."""
    meetings = []
    for world in (Alone(), Follower()):
        parts = Parts()
        saver = Saver(CheckpointConfig(), folder, world, variables, divided=[parts])
        saver.begin()
        getattr(saver, first)(5)
        saver.save(5)
        saver.close()
        meetings.append(parts.meetings)
    assert meetings[0] == meetings[1] == 2


# 2. The checkpoint to continue from.


def test_without_a_checkpoint_the_variables_stay(begin, variables):
    variables["kernel"].assign([1.0, 2.0, 3.0])
    assert begin().restore() is None
    assert variables["kernel"].numpy().tolist() == [1.0, 2.0, 3.0]


def test_the_newest_is_restored_even_if_it_is_still_being_written(begin, variables):
    saver = begin()
    for step in (1, 2):
        variables["kernel"].assign(np.full(3, step, np.float32))
        saver.save(step)
    variables["kernel"].assign(np.full(3, 9, np.float32))
    meta = saver.restore()
    assert (meta["step"], meta["fact"]) == (2, 2)
    assert set(variables["kernel"].numpy()) == {2.0}


# 3. What cannot be saved.


def test_a_full_disk_at_the_end_is_an_error_with_what_to_do(begin, files, variables):
    saver = begin()
    files.error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    saver.save(5)
    with pytest.raises(CheckpointError, match="disk is full, so the state after step 6 is lost"):
        saver.save_now(6)
    files.error = None
    saver.save_now(6)
    assert [saved.step for saved in saver.landed()] == [6]


def test_an_error_in_the_background_is_told_at_the_next_step(begin, files, variables):
    saver = begin()
    files.error = OSError(errno.EIO, os.strerror(errno.EIO))
    saver.save(5)
    saver._writer._changed.acquire()
    saver._writer._changed.wait_for(lambda: not saver._writer._writing, 60)
    saver._writer._changed.release()
    assert saver.urgent
    assert not saver.late
    with pytest.raises(CheckpointError, match="step 5 cannot be saved"):
        saver.landed()
