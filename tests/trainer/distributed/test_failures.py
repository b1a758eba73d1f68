"""The messages of a failing rank to its launcher."""

import os

import pytest

from common.errors import UserError
from trainer.distributed.failures import PIPE, read_failures, tell_failure
from trainer.errors import DataError, PeerError
from trainer.run_folder import RunFolder


@pytest.fixture
def pipe(monkeypatch):
    """The end that the launcher reads."""
    read, write = os.pipe()
    monkeypatch.setenv(PIPE, str(write))
    monkeypatch.setenv("HOROVOD_RANK", "1")
    monkeypatch.setenv("HOROVOD_SIZE", "2")
    yield read
    os.close(read)
    os.close(write)


def caught(error):
    try:
        raise error
    except type(error) as raised:
        return raised


def test_failures_arrive_with_rank_step_and_kind(pipe):
    tell_failure(caught(ZeroDivisionError("by 7")), 12)
    tell_failure(caught(DataError("set: missing")), 13)
    crash, explained = read_failures(pipe)
    assert (crash.rank, crash.step, crash.status, crash.explained) == (1, 12, 1, False)
    assert crash.what.startswith("ZeroDivisionError in test_failures.py, line ")
    assert (explained.step, explained.status, explained.explained) == (13, 3, True)


def test_the_message_of_an_error_does_not_make_it_another(pipe):
    for number in range(2):
        tell_failure(caught(OSError(f"attempt {number}")), 5)
    first, second = read_failures(pipe)
    assert first == second


def test_the_place_of_an_error_is_in_the_trainer(pipe):
    try:
        RunFolder(None)
    except TypeError as error:
        tell_failure(error, 0)
    assert read_failures(pipe)[0].what.startswith("TypeError in run_folder.py, line ")


def test_a_lost_peer_is_not_a_failure_of_its_own(pipe):
    tell_failure(caught(PeerError("another rank ended")), 12)
    assert read_failures(pipe) == ()


def test_a_launcher_that_is_gone_does_not_hide_the_error(pipe, monkeypatch):
    ends = os.pipe()
    monkeypatch.setenv(PIPE, str(ends[1]))
    os.close(ends[0])
    tell_failure(caught(KeyError("x")), 0)
    os.close(ends[1])


def test_a_rank_of_another_launcher_tells_nothing(monkeypatch):
    monkeypatch.delenv(PIPE, raising=False)
    tell_failure(caught(UserError("no")), 0)
