"""Requests to a run while it trains: questions, answers and output."""

import os
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.trainer.support.launched import wait_until
from tests.trainer.support.written_run import write_run
from trainer.config import WatchdogConfig
from trainer.distributed import request_listener, run_requests
from trainer.distributed.rank import Rank
from trainer.distributed.request_listener import RequestListener, new_requests, python_stacks
from trainer.distributed.run_requests import (
    EXPIRY_SECONDS,
    LocalFiles,
    RankState,
    RunRequest,
    Stack,
    ask,
    show_stacks,
    stuck_text,
)
from trainer.distributed.watchdog import Heartbeat, Watchdog
from trainer.errors import RunRequestError
from trainer.stacks import StacksOptions, print_local_stacks

WAITS, WORKS = Heartbeat("train", 41, arrived=True), Heartbeat("train", 41, arrived=False)
MAIN = (Stack("MainThread", ("a.py:1 main: work()", "b.py:2 work: wait()")),)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(request_listener, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(run_requests, "ASK_SECONDS", 0.02)


def state(rank, heartbeat=WAITS, *, idle=400.0, size=2, node=None, stacks=MAIN):
    return RankState(rank, size, f"node{rank}", heartbeat, idle, stacks, node or {})


def listener(folder, rank=0, size=1):
    watchdog = Watchdog(WatchdogConfig(), Rank(rank, size, rank, size, "test"))
    started = RequestListener(watchdog, Rank(rank, size, rank, size, "test"))
    started.listen(folder)
    return started


@pytest.mark.parametrize("request_", [RunRequest("stacks"), RunRequest("profile", 5)])
def test_the_name_of_a_request_says_all(request_):
    assert RunRequest.parse(request_.file) == request_
    assert RunRequest.parse(request_.answer_file(3)) is None


@pytest.mark.parametrize("name", ["config.json", ".request-", ".request-abc-stacks-0"])
def test_other_files_are_no_requests(name):
    assert RunRequest.parse(name) is None


def test_no_two_requests_have_the_same_name():
    assert RunRequest("stacks").file != RunRequest("stacks").file


def test_a_state_is_read_as_it_was_written():
    one = state(1, node={0: (WORKS, 0.5)})
    assert RankState.from_json(one.to_json().encode()) == one
    with pytest.raises(ValueError, match="state of a rank"):
        RankState.from_json(b"[]")


def test_a_rank_that_waits_for_others_and_one_that_computes_say_so():
    assert "waits for the other ranks' parts of step 42" in state(0).words()
    assert "waits for data of step 42, or computes it" in state(0, WORKS).words()
    assert "phase 'evaluation'" in state(0, Heartbeat("evaluation", 41, arrived=False)).words()


def test_the_late_rank_is_named_across_nodes():
    said = stuck_text({0: state(0), 1: state(1, WORKS)}, [])
    assert "no progress for 6 min 40 s" in said
    assert "the late rank is rank 1: has not computed its part of step 42" in said


def test_a_rank_that_does_not_answer_is_told_from_a_mount_that_hangs():
    frozen = stuck_text({0: state(0, node={1: (WORKS, 60.0)})}, [1])
    assert "rank 1: has not answered; its last sign of life was 60.0 s ago, after step 41" in frozen
    assert "the late rank is rank 1: no sign of life for 60 s" in frozen
    assert "mount" in stuck_text({0: state(0, node={1: (WORKS, 1.0)})}, [1])
    assert "nothing else is known" in stuck_text({0: state(0)}, [1])


def test_a_run_that_takes_steps_has_no_late_rank():
    said = stuck_text(
        {0: state(0, idle=0.2), 1: state(1, Heartbeat("train", 39, arrived=True))}, []
    )
    assert said.startswith("the run makes progress")


@contextmanager
def hanging_thread(name):
    """A thread whose stack does not change, unlike the main thread's."""
    lock = threading.Lock()
    lock.acquire()
    thread = threading.Thread(target=lock.acquire, name=name)
    thread.start()
    try:
        yield
    finally:
        lock.release()
        thread.join()


def test_all_ranks_answer_and_nothing_is_left(tmp_path, capsys):
    # Both ranks are threads of this process, so both have the stack of the hanging thread.
    with hanging_thread("same stack"):
        ranks = [listener(tmp_path, rank, 2) for rank in range(2)]
        states, missing = show_stacks(LocalFiles(tmp_path), None, 20, print)
        for rank in ranks:
            rank.__exit__(None, None, None)
    assert (sorted(states), missing) == ([0, 1], [])
    assert list(tmp_path.iterdir()) == []
    said = capsys.readouterr().out
    assert said.count("thread same stack:\n") == 1
    assert said.count("thread same stack: as in rank") == 1


def test_a_rank_answers_while_one_of_its_threads_hangs(tmp_path):
    with hanging_thread("in a collective"), listener(tmp_path):
        states, _ = show_stacks(LocalFiles(tmp_path), None, 20, lambda _: None)
    assert "in a collective" in {stack.thread for stack in states[0].stacks}


def test_an_answer_that_is_incomplete_is_read_again_later():
    whole = state(0, size=1).to_json().encode()
    contents = iter([whole[:9], whole])

    class Mount(LocalFiles):
        def create(self, name):
            pass

        def read(self, prefix, known):
            return {f"{prefix}0.json": next(contents)}

        def remove(self, prefix, older_than=0.0):
            pass

    states, _ = show_stacks(Mount(Path()), None, 20, lambda _: None)
    assert states[0] == state(0, size=1)


def test_a_request_is_answered_by_whatever_clock_its_time_is(tmp_path):
    with listener(tmp_path):
        first = RunRequest("stacks")
        (tmp_path / first.file).touch()
        wait_until((tmp_path / first.answer_file(0)).exists, 10)
        request = RunRequest("stacks")
        scratch = tmp_path / "scratch"
        scratch.touch()
        os.utime(scratch, (0, 0))
        scratch.rename(tmp_path / request.file)
        wait_until((tmp_path / request.answer_file(0)).exists, 10)


def test_a_rank_that_is_silent_is_named_after_the_time_is_over(tmp_path):
    with listener(tmp_path, 0, 2):
        _, missing = show_stacks(LocalFiles(tmp_path), 2, 1, lambda _: None)
        assert missing == [1]
        with pytest.raises(RunRequestError, match="rank 1 has not answered"):
            print_local_stacks(StacksOptions(str(tmp_path), 1))
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_does_not_train_or_exist_is_told(tmp_path):
    with pytest.raises(RunRequestError, match="is it training"):
        print_local_stacks(StacksOptions(str(tmp_path), 0.1))
    with pytest.raises(RunRequestError, match="does not exist"):
        print_local_stacks(StacksOptions(str(tmp_path / "none"), 0.1))


def test_a_finished_run_is_refused_at_once(tmp_path):
    run = write_run(tmp_path / "run")
    with pytest.raises(RunRequestError, match=f"{run}: is finished; name the folder of a run"):
        print_local_stacks(StacksOptions(str(run), 30))
    with (run / "metrics.jsonl").open("a") as file:
        # It continues.
        file.write('{"event": "start", "step": 100, "attempt": 3}\n')
    with pytest.raises(RunRequestError, match="is it training"):
        print_local_stacks(StacksOptions(str(run), 0.1))


def test_nothing_is_written_unless_asked(tmp_path):
    run = tmp_path / "run"
    with listener(run):
        time.sleep(0.2)
        # Not even the folder, which may not exist yet.
        assert not run.exists()
        run.mkdir()
        time.sleep(0.2)
        assert list(run.iterdir()) == []


def test_an_old_request_is_ignored_and_a_new_one_found_once(tmp_path):
    old, new, known = RunRequest("stacks"), RunRequest("stacks"), set()
    for request in (old, new):
        (tmp_path / request.file).touch()
    past = time.time() - EXPIRY_SECONDS - 1
    os.utime(tmp_path / old.file, (past, past))
    assert new_requests(tmp_path, known) == [new]
    assert new_requests(tmp_path, known) == []


def test_what_others_have_left_long_ago_is_removed(tmp_path):
    left, fresh = tmp_path / RunRequest("stacks").answer_file(1), tmp_path / ".request-x"
    for path in (left, fresh):
        path.touch()
    past = time.time() - EXPIRY_SECONDS - 1
    os.utime(left, (past, past))
    assert list(ask(LocalFiles(tmp_path), RunRequest("stacks"), 0)) == []
    assert list(tmp_path.iterdir()) == [fresh]


def test_only_rank_0_is_asked_for_a_profile_and_answers_it_once(tmp_path):
    request = RunRequest("profile", 5)
    (tmp_path / request.file).touch()
    with listener(tmp_path, 0, 2) as chief, listener(tmp_path, 1, 2) as other:
        while chief.profile is None:
            time.sleep(0.01)
        assert chief.profile == request
        chief.answer_profile(error=None, step=9)
        assert chief.profile is None
        assert other.profile is None
    assert (tmp_path / request.answer_file(0)).read_text() == '{"error": null, "step": 9}'


def test_threads_that_only_watch_are_left_out_and_the_main_thread_comes_first():
    ended = threading.Event()
    for name in ("watchdog", "another"):
        threading.Thread(target=ended.wait, name=name).start()
    names = [stack.thread for stack in python_stacks()]
    ended.set()
    assert names[0] == "MainThread"
    assert "another" in names
    assert "watchdog" not in names
