"""Throughput of this machine: which points are measured, and their table."""

from dataclasses import replace

import pytest

from common.errors import ConfigError
from jobs.throughput import Point, alike, efficiency, read
from tools.benchmarks import scaling
from tools.benchmarks.scaling import Options, rows, run

WANTED = Point("this machine", 1, 1, "ResNet-50", "float32", 16, 64, ())


def point(ranks, *rates, **values):
    return replace(WANTED, ranks=ranks, rates=rates, **values)


@pytest.mark.parametrize(
    "other",
    [point(1), point(1, 5.0, problem="failed"), point(1, 5.0, image_size=32),
     point(1, 5.0, batch_per_rank=8), point(1, 5.0, model="ResNet-18"), point(1, 5.0, size="x")],
)  # fmt: skip
def test_points_that_failed_or_had_another_configuration_do_not_count(other):
    assert alike([other], WANTED) == []


def test_the_newest_point_counts():
    assert alike([point(2, 5.0), point(1, 3.0), point(2, 6.0)], WANTED) == [
        point(1, 3.0),
        point(2, 6.0),
    ]


def test_efficiency_is_that_of_as_many_single_ranks():
    points = [point(1, 10.0, 12.0, 11.0), point(2, 16.5)]
    assert efficiency(points[1], points[0]) == 0.75
    assert efficiency(points[1], None) is None
    assert rows(points) == [
        ["1", "11.0", "10.0 - 12.0", "3", "100%"],
        ["2", "16.5", "16.5 - 16.5", "1", "75%"],
    ]
    assert rows(points[1:])[0][-1] == "?"


def test_a_measurement_continues_where_it_was_and_keeps_what_failed(tmp_path, monkeypatch, capsys):
    """With a measurement in place of the runs."""
    asked = []

    def measured(one, arguments, repeat):
        asked.append(one.ranks)
        failed = one.ranks == 2 and asked.count(2) == 1
        if failed:
            return replace(one, problem="killed")
        return replace(one, rates=(10.0 * one.ranks,) * repeat)

    monkeypatch.setattr(scaling, "measured", measured)
    options = Options(folder=str(tmp_path), ranks=(4, 2, 1))
    file = tmp_path / "this-machine" / "points.jsonl"
    assert run(options) == 1
    first = file.read_bytes()
    assert asked == [1, 2, 4]
    assert "2 ranks: killed" in capsys.readouterr().err
    assert run(options) == 0
    assert asked == [1, 2, 4, 2]
    assert file.read_bytes().startswith(first)
    assert [(one.ranks, one.usable) for one in read(file)] == [
        (1, True), (2, False), (4, True), (2, True),
    ]  # fmt: skip
    assert run(options) == 0
    assert len(asked) == 4


@pytest.mark.long
def test_a_real_measurement_of_one_rank_has_a_rate_of_its_training(tmp_path, capsys):
    options = Options(
        folder=str(tmp_path), ranks=(1,), repeat=1, steps=2, image_size=32, depth=18, batch_size=2
    )
    assert run(options) == 0
    (only,) = read(tmp_path / "this-machine" / "points.jsonl")
    assert only.rates[0] > 0
    assert only.environment["cores"]
    assert "points:" in capsys.readouterr().out


def test_a_training_that_fails_becomes_a_point_with_the_reason():
    failed = scaling.measured(WANTED, ["--preset", "nonsense"], 2)
    assert failed.rates == ()
    assert "ended with status 2" in failed.problem
    assert not failed.usable


@pytest.mark.parametrize(
    ("options", "words"),
    [({"name": "../evil"}, "--name"), ({"ranks": ()}, "--ranks: name at least one number")],
)
def test_a_measurement_of_nothing_or_outside_of_its_folder_is_refused(options, words):
    with pytest.raises(ConfigError, match=words):
        Options(**options)
