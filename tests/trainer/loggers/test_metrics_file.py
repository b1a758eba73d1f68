"""The file of metrics, one JSON document a line."""

import errno
import io
import json
import os
from pathlib import Path

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


def test_a_rewind_keeps_all_starts_and_what_was_written_up_to_the_step(metrics):
    assert metrics.attempts() == 0
    metrics.append("start", 0, {})
    for step in (10, 20):
        metrics.append("train", step, {"loss": 0.1, "epoch": 1 / 3})
        metrics.append("checkpoint", step, {"seconds": {"train": 1.0}})
    before = metrics.path.read_text().splitlines()
    metrics.append("start", 20, {})
    metrics.append("train", 30, {})
    metrics.rewind(10)
    # The lines that stay are the same to the byte.
    kept = metrics.path.read_text().splitlines()
    assert kept[:-1] == before[:3]
    assert json.loads(kept[-1])["event"] == "start"
    assert metrics.attempts() == 2
    assert [path.name for path in metrics.path.parent.iterdir()] == ["metrics.jsonl"]


def test_half_a_line_is_passed_over_and_a_line_after_it_is_whole(metrics):
    metrics.append("start", 0, {})
    with metrics.path.open("a") as file:
        file.write('{"event": "tra')
    assert [line["event"] for line in metrics.lines()] == ["start"]
    metrics.rewind(0)
    metrics.append("start", 0, {})
    assert [line["event"] for line in metrics.lines()] == ["start", "start"]


def test_every_line_is_json_that_any_parser_reads(tmp_path):
    file = MetricsFile(tmp_path / "metrics.jsonl")
    file.append("train", 3, {"gradient_norm": float("inf"), "loss": float("nan"), "rate": 1.5})
    (line,) = file.path.read_text().splitlines()

    def refuse(constant):
        raise ValueError(constant)

    read = json.loads(line, parse_constant=refuse)
    assert read["rate"] == 1.5
    assert not read.keys() & {"gradient_norm", "loss"}


def test_a_full_disk_loses_lines_with_a_single_warning(metrics, monkeypatch, capsys):
    metrics.append("start", 0, {})
    write, full = Path.open, [True]

    class Full(io.TextIOWrapper):
        def write(self, text):
            super().write(text[:9])
            self.flush()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def opened(path, mode="r", **options):
        file = write(path, mode, **options)
        return Full(file.detach()) if full and mode == "a" else file

    monkeypatch.setattr(Path, "open", opened)
    for step in (1, 2):
        metrics.append("train", step, {})
    full.clear()
    metrics.append("train", 3, {})
    assert [line["step"] for line in metrics.lines()] == [0, 3]
    assert capsys.readouterr().out.count("warning: ") == 1


def test_a_line_that_cannot_be_written_for_another_reason_is_an_error(metrics):
    metrics.path.mkdir()
    with pytest.raises(IsADirectoryError):
        metrics.append("start", 0, {})
