"""The file of metrics, one JSON document a line."""

import json

import pytest

from trainer.loggers.metrics_file import MetricsFile


@pytest.fixture
def metrics(tmp_path):
    return MetricsFile(tmp_path / "metrics.jsonl")


def test_lines_come_back_in_the_order_they_were_appended(metrics):
    metrics.append("start", 0, {"attempt": 1})
    metrics.append("train", 20, {"loss": 2.5})
    lines = [{k: v for k, v in line.items() if k != "time"} for line in metrics.lines()]
    assert lines == [
        {"event": "start", "step": 0, "attempt": 1},
        {"event": "train", "step": 20, "loss": 2.5},
    ]


def test_every_line_is_json_of_its_own(metrics):
    metrics.append("train", 1, {"text": "two\nlines\u2028"})
    metrics.append("train", 2, {})
    lines = metrics.path.read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [1, 2]


def test_a_file_that_is_not_there_has_no_lines(metrics):
    assert metrics.lines() == []
    assert metrics.attempts() == 0


def test_attempts_are_the_starts(metrics):
    for event in ("start", "train", "start", "evaluation", "start"):
        metrics.append(event, 0, {})
    assert metrics.attempts() == 3


def test_half_a_last_line_is_passed_over(metrics):
    metrics.append("start", 0, {})
    metrics.append("train", 20, {})
    text = metrics.path.read_text()
    metrics.path.write_text(text[:-9])
    assert [line["event"] for line in metrics.lines()] == ["start"]


def test_a_line_after_half_a_line_is_whole(metrics):
    metrics.append("start", 0, {})
    with metrics.path.open("a") as file:
        file.write('{"event": "tra')
    metrics.rewind(0)
    metrics.append("start", 0, {})
    assert [line["event"] for line in metrics.lines()] == ["start", "start"]


def test_a_rewind_drops_what_was_written_after_the_step(metrics):
    for step in (10, 20, 30):
        metrics.append("train", step, {})
    metrics.rewind(20)
    assert [line["step"] for line in metrics.lines()] == [10, 20]


def test_a_rewind_keeps_every_start(metrics):
    metrics.append("start", 0, {})
    metrics.append("train", 10, {})
    metrics.append("start", 10, {})
    metrics.append("train", 20, {})
    metrics.rewind(0)
    assert [(line["event"], line["step"]) for line in metrics.lines()] == [
        ("start", 0),
        ("start", 10),
    ]


def test_a_rewind_keeps_the_checkpoint_that_the_run_continues_from(metrics):
    for step in (10, 20, 30):
        metrics.append("train", step, {})
        metrics.append("checkpoint", step, {"seconds": {"train": 1.0}})
    metrics.rewind(20)
    kept = [line["step"] for line in metrics.lines() if line["event"] == "checkpoint"]
    assert kept == [10, 20]


def test_a_rewind_changes_nothing_in_the_lines_that_stay(metrics):
    metrics.append("train", 10, {"loss": 0.1, "epoch": 1 / 3})
    before = metrics.path.read_bytes()
    metrics.append("train", 20, {})
    metrics.rewind(10)
    assert metrics.path.read_bytes() == before


def test_a_rewind_leaves_nothing_beside_the_file(metrics):
    metrics.append("train", 10, {})
    metrics.rewind(10)
    assert [path.name for path in metrics.path.parent.iterdir()] == ["metrics.jsonl"]


def test_every_line_is_json_that_any_parser_reads(tmp_path):
    file = MetricsFile(tmp_path / "metrics.jsonl")
    file.append("train", 3, {"gradient_norm": float("inf"), "loss": float("nan"), "rate": 1.5})
    (line,) = file.path.read_text().splitlines()

    def refuse(constant):
        raise ValueError(constant)

    read = json.loads(line, parse_constant=refuse)
    assert read["rate"] == 1.5
    assert not read.keys() & {"gradient_norm", "loss"}
