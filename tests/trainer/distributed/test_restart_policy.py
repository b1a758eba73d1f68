"""What a launcher makes of a run's end, and what a failed rank tells it."""

import os
import signal
import subprocess
import sys

import pytest

from common.errors import UserError
from trainer.distributed import launcher
from trainer.distributed.failures import PIPE, Failure, read_failures, tell_failure
from trainer.distributed.launcher import launch_with_restarts
from trainer.distributed.restart_policy import (
    LONGEST_DELAY,
    AttemptResult,
    decide_restart,
    describe_exit,
)
from trainer.errors import DataError, PeerError
from trainer.run_folder import RunFolder

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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1])
def test_a_stop_that_was_asked_for_is_kept(number):
    assert not decide_restart([AttemptResult((128 + number, 128 + number))], 3).restart
    # One rank had no handler yet.
    assert not decide_restart([AttemptResult((-number, 6))], 3).restart


def test_success_is_the_end():
    decision = decide_restart([KILLED, AttemptResult((0, 0))], 3)
    assert (decision.restart, decision.reason) == (False, "")


def test_the_same_error_at_the_same_step_is_no_chance():
    decision = decide_restart([CRASHED, CRASHED], 3)
    assert not decision.restart
    assert "KeyError in feed.py, line 7, after step 12, came twice" in decision.reason


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
    assert "3 times in a row brought no newer checkpoint" in decision.reason


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


# 2. What a rank tells.


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
    assert crash.what.startswith("ZeroDivisionError in test_restart_policy.py, line ")
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


# 3. The launcher between the attempts.


@pytest.fixture
def attempts(monkeypatch):
    """Ends that attempts are to have; the arguments of those that were made."""
    ends, made = [], []

    def run_ranks(args, ranks, signals):
        made.append(list(args))
        end = ends.pop(0)
        return end(signals) if callable(end) else end

    monkeypatch.setattr(launcher, "run_ranks", run_ranks)
    return ends, made


def test_a_crashed_attempt_is_followed_by_one_that_continues_it(attempts, capsys):
    ends, made = attempts
    ends += [AttemptResult((-9, 6)), AttemptResult((0, 0))]
    args = ["train", "--name", "run", "--resume", "never"]
    assert launch_with_restarts(args, 2, lambda: None, 3) == 0
    assert made == [args, [*args, "--resume", "auto"]]
    assert "starting again from its start in 1 s" in capsys.readouterr().err


def test_a_broken_run_keeps_the_status_of_its_end(attempts, capsys):
    ends, made = attempts
    ends += [AttemptResult((1,), (CRASH,)), AttemptResult((1,), (CRASH,))]
    assert launch_with_restarts(["train"], 1, lambda: None, 3) == 1
    assert len(made) == 2
    assert "not started again" in capsys.readouterr().err


def test_a_request_to_stop_during_an_attempt_is_its_last(attempts):
    ends, made = attempts

    def stopped(signals):
        signal.raise_signal(signal.SIGTERM)
        # What a rank that is killed while it saves ends with.
        return AttemptResult((-9, 143))

    ends += [stopped]
    assert launch_with_restarts(["train"], 2, lambda: None, 3) == 137
    assert len(made) == 1


def test_a_request_to_stop_during_a_pause_ends_it(attempts, monkeypatch):
    ends, made = attempts
    ends += [AttemptResult((-9, 6))]
    pauses = []

    def interrupt(seconds):
        pauses.append(seconds)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(launcher.time, "sleep", interrupt)
    assert launch_with_restarts(["train"], 2, lambda: None, 3) == 130
    assert len(made) == len(pauses) == 1


def test_handlers_are_as_before_when_the_launcher_is_done(attempts):
    before = signal.getsignal(signal.SIGTERM)
    attempts[0].append(AttemptResult((0,)))
    launch_with_restarts(["train"], 1, lambda: None, 3)
    assert signal.getsignal(signal.SIGTERM) == before


def test_the_launcher_starts_its_ranks_without_loading_tensorflow_itself():
    modules = "trainer.training.setup, trainer.distributed.launcher"
    code = f"import sys, {modules}; sys.exit('tensorflow' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
