"""Contenders take turns, and their times are summarised."""

import json
import os

from tools.benchmarks import measure
from tools.benchmarks.measure import BenchmarkOptions, Sample
from trainer.distributed.communicator import Alone

WHAT = {
    "ours": [Sample(2.0, 4.0), Sample(3.0, 6.0), Sample(9.0, 9.0)],
    "bare": [Sample(1.0, 2.0), Sample(3.0, 3.0), Sample(3.0, 9.0)],
}


def test_ratios_are_formed_inside_each_round():
    # 2, 1 and 3: the ratio of the medians would be 1.
    assert measure.ratio(WHAT, "ours", "bare") == measure.Spread(2.0, 1.0, 3.0)
    assert measure.ratio(WHAT, "ours", "bare", "wall_ms") == measure.Spread(2.0, 1.0, 2.0)


def test_a_table_has_a_row_for_each_contender_with_median_and_range():
    lines = measure.table(WHAT, "step", ["bare"]).splitlines()
    assert [cell.strip() for cell in lines[0].split("|")[1:-1]] == [
        *("", "CPU-ms/step", "wall-ms/step", "/ bare"),
    ]
    assert [cell.strip() for cell in lines[2].split("|")[1:-1]] == [
        *("ours", "3.00 (2.00-9.00)", "6.00 (4.00-9.00)", "2.00 (1.00-3.00)"),
    ]
    assert len({len(line) for line in lines}) == 1


class Clock:
    """Time that passes only where work takes it."""

    def __init__(self):
        self.elapsed = self.cpu = 0.0

    def perf_counter(self):
        return self.elapsed

    def process_time(self):
        return self.cpu


def test_contenders_take_turns_and_the_first_time_is_not_counted(capsys, monkeypatch):
    clock, turns = Clock(), []
    monkeypatch.setattr(measure, "time", clock)

    def work(name, units, seconds):
        def turn():
            turns.append(name)
            # The first turn would be by far the slowest.
            clock.elapsed += seconds if turns.count(name) > 1 else 16.0
            clock.cpu += seconds / 4
            return units

        return turn

    # Powers of two, as they are added up without rounding.
    contenders = {"a": work("a", 1, 1 / 32), "b": work("b", 4, 1 / 32)}
    samples = measure.take_turns(contenders, 3, Alone())
    assert turns == ["a", "b"] * 4
    assert samples["a"] == [Sample(1000 / 128, 1000 / 32)] * 3
    assert samples["b"] == [Sample(1000 / 512, 1000 / 128)] * 3
    assert "round 3 of 3" in capsys.readouterr().out


def published(path):
    options = BenchmarkOptions(json=None if path is None else str(path))
    return measure.publish(
        "loop", options, lambda _: {"worlds": {2: WHAT}}, lambda data: f"of {data['worlds']}"
    )


def test_the_file_holds_every_round_and_what_it_was_measured_on(tmp_path, capsys):
    path = tmp_path / "deep" / "result.json"
    data = published(path)
    assert json.loads(path.read_text()) == data
    assert data["benchmark"] == "loop"
    assert data["environment"]["cores"] == len(os.sched_getaffinity(0))
    assert len(data["load_average_after"]) == 3
    assert data["worlds"]["2"]["ours"][0] == {"cpu_ms": 2.0, "wall_ms": 4.0}
    assert measure.read_samples(data["worlds"]["2"]) == WHAT
    assert capsys.readouterr().out == f"\nof {data['worlds']}\n"


def test_no_file_is_written_unless_asked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    published(None)
    assert not list(tmp_path.iterdir())
