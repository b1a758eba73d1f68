"""Logs are read from the last position, line by line, despite interruptions."""

import pytest

from jobs.azure.run_history import CHUNK
from jobs.errors import AccessError, MissingError, UnreachableError
from jobs.following.log_stream import LONGEST_LINE, LogStream, process_logs, rank_of

RANK_0, RANK_1 = "user_logs/std_log_process_00.txt", "user_logs/std_log_process_01.txt"


class Storage:
    """Growing log files at URLs that may fail."""

    def __init__(self):
        self.files = {}
        self.failure = None
        self.asked = []

    def __call__(self, address, offset):
        self.asked.append((address, offset))
        if self.failure is not None:
            raise self.failure
        content = self.files[address]
        return None if offset > len(content) else content[offset : offset + CHUNK]


@pytest.fixture
def storage():
    return Storage()


def texts(logs, *names):
    return [
        (line.rank, line.text) for line in logs.more({name: name for name in names or (RANK_0,)})
    ]


def test_ranks_are_those_of_the_names():
    assert rank_of(RANK_1) == 1
    assert rank_of("user_logs/std_log_process_15.txt") == 15
    assert rank_of("user_logs/std_log.txt") == 0
    for other in ("system_logs/lifecycler/execution.txt", "user_logs/std_log_process_00.txt.1"):
        assert rank_of(other) is None


def test_files_are_in_order_of_ranks_and_others_are_left_out():
    names = ["user_logs/std_log_process_10.txt", RANK_1, "system_logs/x.txt", RANK_0]
    assert [rank for _, rank in process_logs(names, lambda _: True)] == [0, 1, 10]
    assert [rank for _, rank in process_logs(names, lambda rank: rank > 0)] == [1, 10]


def test_a_line_is_given_once_when_it_is_whole(storage):
    logs = LogStream(storage)
    storage.files[RANK_0] = b"one\ntw"
    assert texts(logs) == [(0, "one")]
    storage.files[RANK_0] += b"o\nthree\n"
    assert texts(logs) == [(0, "two"), (0, "three")]
    assert texts(logs) == []


def test_what_has_no_end_of_line_comes_at_the_end(storage):
    logs = LogStream(storage)
    storage.files[RANK_0] = b"one\nTraceback"
    assert texts(logs) == [(0, "one")]
    assert [line.text for line in logs.rest()] == ["Traceback"]
    assert list(logs.rest()) == []


def test_a_cut_connection_repeats_and_loses_nothing(storage):
    logs = LogStream(storage)
    storage.files[RANK_0] = b"one\ntwo\n"
    texts(logs)
    storage.files[RANK_0] += b"three\n"
    storage.failure = UnreachableError("cut")
    assert texts(logs) == []
    assert "cut" in str(logs.refused)
    storage.failure = None
    assert texts(logs) == [(0, "three")]
    assert logs.refused is None


def test_a_signature_that_has_run_out_is_followed_by_a_new_address(storage):
    logs = LogStream(storage)
    storage.files["old"] = storage.files["new"] = b"one\n"
    assert [line.text for line in logs.more({RANK_0: "old"})] == ["one"]
    storage.failure = AccessError("expired", 403)
    assert list(logs.more({RANK_0: "old"})) == []
    storage.failure = None
    storage.files["new"] += b"two\n"
    assert [line.text for line in logs.more({RANK_0: "new"})] == ["two"]


def test_a_file_that_is_listed_but_not_written_is_waited_for(storage):
    logs = LogStream(storage)
    storage.failure = MissingError("not there", 404)
    assert texts(logs) == []
    assert logs.refused is None


@pytest.mark.parametrize(
    "before", [b"first\n", b"a long line of the first life\nhalf", b"x\n" * 999]
)
def test_a_file_that_was_begun_anew_is_read_from_its_start(storage, before):
    logs = LogStream(storage)
    storage.files[RANK_0] = before
    texts(logs)
    storage.files[RANK_0] = b"second life\n"
    assert texts(logs) == [(0, "second life")]


def test_only_the_ranks_that_are_asked_for_are_read(storage):
    logs = LogStream(storage, lambda rank: rank == 1)
    storage.files = {RANK_0: b"zero\n", RANK_1: b"one\n"}
    assert texts(logs, RANK_0, RANK_1) == [(1, "one")]
    assert {address for address, _ in storage.asked} == {RANK_1}


def test_a_file_of_many_chunks_is_read_whole(storage):
    logs = LogStream(storage)
    lines = 3 * CHUNK // 1001
    storage.files[RANK_0] = (b"x" * 1000 + b"\n") * lines
    assert texts(logs) == [(0, "x" * 1000)] * lines
    assert len(storage.asked) == 4


def test_a_line_without_end_is_given_in_parts(storage):
    logs = LogStream(storage)
    storage.files[RANK_0] = b"x" * (LONGEST_LINE + 1)
    assert [len(text) for _, text in texts(logs)] == [LONGEST_LINE + 1]


def test_a_progress_bar_shows_its_last_state_and_bad_bytes_are_marked(storage):
    logs = LogStream(storage)
    storage.files[RANK_0] = b"10%\r50%\r99%\r\n\xff\n"
    assert texts(logs) == [(0, "99%"), (0, "\ufffd")]
