"""Readings of profiles: operations by type, and the phases of a timeline."""

import json

import pytest

from common.errors import UserError
from tools.benchmarks.operations import Options, by_type, read_rows, run
from tools.benchmarks.timeline import phases, read_events


def test_operations_are_added_up_by_type_without_waiting():
    table = {
        "cols": [{"id": "type"}, {"id": "operation"}, {"id": "total_self_time"}],
        "rows": [
            {"c": [{"v": "Conv2D"}, {"v": "a"}, {"v": 1.0}]},
            {"c": [{"v": "IDLE"}, None, {"v": 100.0}]},
            {"c": [{"v": "MatMul"}, {"v": "b"}, {"v": 5.0}]},
            {"c": [{"v": "Conv2D"}, {"v": "c"}, {"v": 2.0}]},
        ],
    }
    assert by_type(read_rows(table)) == [("MatMul", 0.625), ("Conv2D", 0.375)]


def test_a_page_that_is_not_served_is_told_with_what_serves_it():
    with pytest.raises(UserError, match=r"http://127\.0\.0\.1:9: .*run `make -C tools profile"):
        run(Options("http://127.0.0.1:9"))


def test_phases_of_a_timeline_are_those_of_the_gradients():
    def event(pid, ph, ts, name=None):
        return {"pid": pid, "ph": ph, "ts": ts, **({"name": name} if name else {})}

    named = {"ph": "M", "name": "process_name", "args": {"name": "while/gradients0_1of162"}}
    other = {"ph": "M", "name": "process_name", "args": {"name": "HorovodBroadcast_variable1"}}
    events = [
        *({**named, "pid": 1}, {**other, "pid": 2}),
        event(1, "B", 0, "NEGOTIATE_ALLREDUCE"),
        event(2, "B", 100, "NEGOTIATE_BROADCAST"),
        event(1, "E", 4000),
        event(2, "E", 5000),
        event(1, "B", 4000, "ALLREDUCE"),
        event(1, "B", 4500, "GLOO_ALLREDUCE"),
        event(1, "E", 6500),
        event(1, "E", 7000),
    ]
    # As Horovod leaves the file: the list is open.
    text = "[\n" + ",\n".join(map(json.dumps, events)) + ",\n"
    assert phases(read_events(text)) == {
        "NEGOTIATE_ALLREDUCE": [4.0],
        "ALLREDUCE": [3.0],
        "GLOO_ALLREDUCE": [2.0],
    }
