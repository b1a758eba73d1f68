"""The benchmarks measure their subject, with the programs and loops of the trainer."""

import json

import pytest

from tests.trainer.support.command import run_trainer
from tools.benchmarks.training.train import ALONE, APART, Contenders, together

pytestmark = [pytest.mark.slow, pytest.mark.long]


def measured(folder, name, *options):
    done = run_trainer(
        name, *options, "--json", "rounds.json", cwd=folder, module="tools.benchmarks"
    )
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "rounds.json").read_text()), done.stdout


def test_the_loop_is_compared_with_bare_ones_on_1_and_2_ranks(tmp_path):
    data, shown = measured(tmp_path, "loop", "--rounds", "2", "--steps", "20")
    assert "2 ranks: our loop / tf.function a step" in shown
    assert set(data["worlds"]) == {"1", "2"}
    for samples in data["worlds"].values():
        assert [*samples] == ["our loop", "bare in-graph loop", "tf.function a step"]
        assert all(sample["cpu_ms"] > 0 for rounds in samples.values() for sample in rounds)
    assert {"tensorflow-cpu", "processor", "load_average"} <= data["environment"].keys()


def test_an_exchange_sends_the_bytes_of_a_ring(tmp_path):
    data, _ = measured(tmp_path, "exchange", "--rounds", "1", "--exchanges", "2")
    assert "ours, 1 group" in data["sent"]
    for name, (seen, formula) in data["sent"].items():
        # 25,557,032 weights; with ours 53,120 batch-norm statistics and six sums are sent.
        numbers = 25_557_032 + (53_120 + 6 if name.startswith("ours") else 0)
        assert formula == 4 * numbers, name
        assert seen == pytest.approx(formula, rel=0.01), name


def test_two_ranks_are_compared_with_two_trainings_at_once(tmp_path):
    small = ["--model.depth", "18", "--model.width", "4", "--model.image-size", "32"]
    rates = Contenders(tmp_path, [*small, "--max-steps", "6"]).rates()
    assert [*rates] == [ALONE, APART, together(20.0), together(1.0)]
    assert all(rate > 0 for rate in rates.values())
    runs = [json.loads((run / "result.json").read_text()) for run in sorted(tmp_path.glob("run-*"))]
    assert [run["ranks"] for run in runs] == [1, 1, 1, 2, 2]


def test_the_input_of_a_data_set_of_noise_is_compared_with_decoding_alone(tmp_path):
    made = run_trainer("prepare", "synthetic", "--images", "40", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    options = ["--data", "data/synthetic", "--rounds", "2", "--batches", "1", "--batch-size", "16"]
    data, _ = measured(tmp_path, "input", *options)
    # Pixels, label, weight and flip.
    assert data["bytes_per_image"] == 224 * 224 * 3 + 4 + 4 + 1
    assert [*data["samples"]] == ["our pipeline", "decode and resize alone", "textbook pipeline"]
    assert all(len(rounds) == 2 for rounds in data["samples"].values())
