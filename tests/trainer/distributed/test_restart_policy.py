"""The reaction of a launcher to a run's end, and the messages of failed ranks."""

import signal

import pytest

from trainer.distributed.failures import Failure
from trainer.distributed.restart_policy import (
    LONGEST_DELAY,
    AttemptResult,
    decide_restart,
    describe_exit,
)
from trainer.errors import TIME_LIMIT_STATUS

KILLED = AttemptResult((-9, 6))
CRASH = Failure(rank=1, step=12, status=1, explained=False, what="KeyError in feed.py, line 7")
CRASHED = AttemptResult((1, 6), (CRASH,))


def saved(before, after):
    return AttemptResult((-9, 6), saved_before=before, saved=after)


# 1. The decision.


@pytest.mark.parametrize(
    "ending",
    [
        KILLED,
        AttemptResult((-9,)),
        AttemptResult((-int(signal.SIGSEGV),)),
        AttemptResult((6, 6)),
        AttemptResult((7,)),
        AttemptResult((7, 6), saved_before=22, saved=22),
        CRASHED,
        AttemptResult((1,)),
    ],
    ids=["killed", "alone", "segfault", "lost peers", "hung", "later", "crashed", "untold"],
)
def test_what_chance_may_have_caused_is_started_again(ending):
    decision = decide_restart([ending], 3)
    assert decision.restart
    assert "starting again" in decision.reason


@pytest.mark.parametrize("status", [2, 3, 4, 5])
def test_an_error_that_says_what_to_mend_is_not_tried_again(status):
    assert not decide_restart([AttemptResult((6, status))], 3).restart
    assert not decide_restart([AttemptResult((status,))], 3).restart


def test_an_explained_error_without_a_status_of_its_own_is_not_tried_again():
    told = Failure(rank=0, step=0, status=1, explained=True, what="UserError in engine.py")
    assert not decide_restart([AttemptResult((1, 6), (told,))], 3).restart
    # The rank told it, and then hung on its way out.
    assert not decide_restart([AttemptResult((7, 6), (told,))], 3).restart


def test_a_run_out_of_memory_is_started_again_at_once_even_without_restarts():
    decision = decide_restart([AttemptResult((9, 6))], 0)
    assert (decision.restart, decision.delay) == (True, 0.0)
    assert "smaller micro-batches" in decision.reason


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1])
def test_a_stop_that_was_asked_for_is_kept(number):
    assert not decide_restart([AttemptResult((128 + number, 128 + number))], 3).restart
    # One rank had no handler yet.
    assert not decide_restart([AttemptResult((-number, 6))], 3).restart


def test_a_run_that_has_used_its_time_is_not_started_again():
    assert not decide_restart([AttemptResult((TIME_LIMIT_STATUS, 6))], 3).restart


def test_success_is_the_end():
    decision = decide_restart([KILLED, AttemptResult((0, 0))], 3)
    assert (decision.restart, decision.reason) == (False, "")


def test_the_same_error_at_the_same_step_is_no_chance():
    decision = decide_restart([CRASHED, CRASHED], 3)
    assert not decision.restart
    assert "KeyError in feed.py, line 7, after step 12, occurred twice" in decision.reason


def test_the_same_error_of_another_rank_is_the_same():
    other = Failure(rank=0, step=12, status=1, explained=False, what=CRASH.what)
    assert not decide_restart([CRASHED, AttemptResult((1,), (other,))], 3).restart


def test_another_error_or_step_is_tried_again():
    elsewhere = Failure(rank=1, step=13, status=1, explained=False, what=CRASH.what)
    assert decide_restart([CRASHED, AttemptResult((1,), (elsewhere,))], 3).restart
    other = Failure(rank=1, step=12, status=1, explained=False, what="OSError in run.py, line 3")
    assert decide_restart([CRASHED, AttemptResult((1,), (other,))], 3).restart
    assert decide_restart([CRASHED, KILLED, CRASHED], 3).restart


def test_an_error_that_followed_a_kill_is_not_the_cause():
    ending = AttemptResult((-9, 1), (CRASH,))
    assert decide_restart([ending, ending], 3).restart


def test_an_end_without_a_word_comes_twice_at_most():
    assert not decide_restart([AttemptResult((1,)), AttemptResult((1,))], 3).restart
    moved = AttemptResult((1,), saved_before=None, saved=22)
    assert decide_restart([AttemptResult((1,)), moved], 3).restart


def test_the_pause_doubles_up_to_a_minute():
    history, delays = [], []
    for _ in range(9):
        history.append(KILLED)
        delays.append(decide_restart(history, 100).delay)
    assert delays == [1, 2, 4, 8, 16, 32, LONGEST_DELAY, LONGEST_DELAY, LONGEST_DELAY]


def test_it_ends_after_so_many_times_without_a_newer_checkpoint():
    assert decide_restart([KILLED] * 3, 3).restart
    decision = decide_restart([KILLED] * 4, 3)
    assert not decision.restart
    assert "no newer checkpoint after 3 restarts in a row" in decision.reason


def test_a_newer_checkpoint_begins_the_count_anew():
    history = [KILLED, KILLED, saved(None, 22)]
    assert decide_restart(history, 3).delay == 1
    assert "from the checkpoint of step 22" in decide_restart(history, 3).reason
    history += [saved(22, 22), saved(22, 22)]
    assert decide_restart(history, 3).delay == 4
    history += [saved(22, 22)]
    assert not decide_restart(history, 3).restart


def test_without_restarts_nothing_is_said():
    decision = decide_restart([KILLED], 0)
    assert (decision.restart, decision.reason) == (False, "")


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (-9, "rank 1 was killed by SIGKILL (out of memory?)"),
        (-11, "rank 1 was killed by SIGSEGV"),
        (-35, "rank 1 was killed by signal 35"),
        (7, "rank 1 ended with status 7"),
    ],
)
def test_an_end_is_described_by_status_or_signal(status, words):
    assert describe_exit(1, status) == words


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [([0, 0], 0), ([6, 5], 5), ([6, -9], 137), ([6], 6), ([143, 143], 143), ([0, 3], 3)],
)
def test_the_launchers_status_is_the_cause_not_the_consequence(statuses, expected):
    assert AttemptResult(tuple(statuses)).status == expected
