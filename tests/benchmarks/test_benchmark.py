"""The benchmarks: what is made of their times, and that each of them runs as a person starts it."""

import json
import time

import pytest

from benchmarks import measure
from benchmarks.measure import Sample
from tests.trainer.support.command import run_trainer
from trainer.distributed.horovod import Alone

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


def test_contenders_take_turns_and_the_first_time_is_not_counted(capsys):
    turns = []

    def work(name, units, seconds):
        def turn():
            turns.append(name)
            # The first turn would be by far the slowest.
            time.sleep(seconds if turns.count(name) > 1 else 0.2)
            return units

        return turn

    found = measure.take_turns({"a": work("a", 1, 0.02), "b": work("b", 10, 0.02)}, 3, Alone())
    assert turns == ["a", "b"] * 4
    assert [len(rounds) for rounds in found.values()] == [3, 3]
    assert all(20 <= sample.wall_ms < 100 for sample in found["a"])
    assert all(2 <= sample.wall_ms < 10 for sample in found["b"])
    # Sleeping costs no processor time.
    assert all(sample.cpu_ms < 10 for sample in found["a"])
    assert "round 3 of 3" in capsys.readouterr().out


def test_the_file_holds_every_round_and_what_it_was_measured_on(tmp_path):
    path = tmp_path / "deep" / "result.json"
    measure.write_json(str(path), "loop", {"cores": 2}, worlds={2: WHAT})
    data = json.loads(path.read_text())
    assert data["benchmark"] == "loop"
    assert data["environment"] == {"cores": 2}
    assert len(data["load_average_after"]) == 3
    assert data["worlds"]["2"]["ours"][0] == {"cpu_ms": 2.0, "wall_ms": 4.0}


def test_no_file_is_written_unless_asked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    measure.write_json(None, "loop", {})
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.long
def test_the_loop_benchmark_measures_four_contenders_on_1_and_2_ranks(tmp_path):
    options = ["--rounds", "2", "--steps", "20", "--json", "loop.json"]
    done = run_trainer("loop", *options, cwd=tmp_path, module="benchmarks")
    assert done.returncode == 0, done.stderr
    assert "1 rank: our loop / bare in-graph loop" in done.stdout
    assert "2 ranks: our loop / tf.function a step" in done.stdout
    data = json.loads((tmp_path / "loop.json").read_text())
    assert set(data["worlds"]) == {"1", "2"}
    for samples in data["worlds"].values():
        assert [*samples] == [
            *("our loop", "bare in-graph loop", "tf.function a step", "Keras fit"),
        ]
        assert all(
            len(rounds) == 2 and all(sample["cpu_ms"] > 0 for sample in rounds)
            for rounds in samples.values()
        )
    assert {"tensorflow-cpu", "processor", "load_average"} <= data["environment"].keys()


@pytest.mark.slow
@pytest.mark.long
def test_an_exchange_sends_the_bytes_of_a_ring(tmp_path):
    options = ["--rounds", "1", "--exchanges", "2", "--json", "exchange.json"]
    done = run_trainer("exchange", *options, cwd=tmp_path, module="benchmarks")
    assert done.returncode == 0, done.stderr
    data = json.loads((tmp_path / "exchange.json").read_text())
    assert {"ours, 1 group", "ours, 2 groups", "ours, 4 groups"} <= data["sent"].keys()
    for name, (seen, formula) in data["sent"].items():
        # 25,557,032 weights; with ours 53,120 batch-norm statistics and six sums go along.
        numbers = 25_557_032 + (53_120 + 6 if name.startswith("ours") else 0)
        assert formula == 4 * numbers, name
        assert seen == pytest.approx(formula, rel=0.01), name


@pytest.mark.slow
@pytest.mark.long
def test_the_input_benchmark_reads_a_data_set_of_noise(tmp_path):
    made = run_trainer("prepare", "synthetic", "--images", "40", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    options = [
        "--data",
        "data/synthetic",
        "--reencoded",
        "data/synthetic",
        "--rounds",
        "2",
        "--batches",
        "1",
        "--batch-size",
        "16",
    ]
    done = run_trainer("input", *options, "--json", "input.json", cwd=tmp_path, module="benchmarks")
    assert done.returncode == 0, done.stderr
    data = json.loads((tmp_path / "input.json").read_text())
    # Pixels, label, weight and flip.
    assert data["bytes_per_image"] == 224 * 224 * 3 + 4 + 4 + 1
    assert data["peak_mib"] > 0
    assert [*data["samples"]] == [
        *("our pipeline", "decode and resize alone", "textbook pipeline", "ours, re-encoded")
    ]


@pytest.mark.slow
@pytest.mark.long
def test_the_checkpoint_benchmark_saves_resnet50_while_it_trains(tmp_path):
    options = ["--rounds", "2", "--steps", "2", "--folder", str(tmp_path)]
    done = run_trainer(
        "checkpoint", *options, "--json", "saves.json", cwd=tmp_path, module="benchmarks"
    )
    assert done.returncode == 0, done.stderr
    assert "in the background / synchronous" in done.stdout
    data = json.loads((tmp_path / "saves.json").read_text())
    # 25,557,032 weights and as many momenta, 53,120 batch-norm statistics, and their names.
    numbers = 4 * (2 * 25_557_032 + 53_120)
    assert numbers < data["bytes"] < numbers + 100_000
    assert {name: len(turns) for name, turns in data["rounds"].items()} == {
        "in the background": 2,
        "first save": 2,
        "first save, memory reserved": 2,
        "synchronous": 2,
    }
    for turns in data["rounds"].values():
        assert all(turn["stall_ms"] > 0 for turn in turns)
    assert all(turn["slow_down"] > 0 for turn in data["rounds"]["in the background"])
    assert [path.name for path in tmp_path.iterdir()] == ["saves.json"]


@pytest.mark.slow
@pytest.mark.long
def test_scaling_compares_two_ranks_with_two_trainings_at_once(tmp_path):
    from benchmarks.tables import ALONE, APART, together
    from benchmarks.training.train import Contenders

    small = ["--model.depth", "18", "--model.width", "4", "--model.image-size", "32"]
    rates = Contenders(tmp_path, [*small, "--max-steps", "6"]).rates()
    assert [*rates] == [ALONE, APART, together(20.0), together(1.0)]
    assert all(rate > 0 for rate in rates.values())
    runs = [json.loads((run / "result.json").read_text()) for run in sorted(tmp_path.glob("run-*"))]
    assert [run["ranks"] for run in runs] == [1, 1, 1, 2, 2]


def test_mistaken_options_are_named(tmp_path):
    done = run_trainer("exchange", "--ranks", "1", cwd=tmp_path, module="benchmarks")
    assert done.returncode == 2
    assert "--ranks: 1 must be at least 2" in done.stderr
    done = run_trainer("train", "--steps", "6", cwd=tmp_path, module="benchmarks")
    assert "--steps: give one number for each of --image-sizes" in done.stderr


def test_an_unknown_benchmark_shows_which_there_are(tmp_path):
    done = run_trainer("everything", cwd=tmp_path, module="benchmarks")
    assert done.returncode == 2
    assert "usage: python -m benchmarks WHAT" in done.stderr
