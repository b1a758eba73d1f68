"""The input beside its floor and a textbook."""

import json

import pytest

from tests.trainer.support.command import run_trainer


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
    assert all(peak > 0 for peaks in data["peak_mib"].values() for peak in peaks)
    assert {name: len(rounds) for name, rounds in data["default_samples"].items()} == {
        "our pipeline": 2,
        "decode and resize alone": 2,
    }
    assert [*data["samples"]] == [
        *("our pipeline", "decode and resize alone", "textbook pipeline", "ours, re-encoded")
    ]


@pytest.mark.slow
@pytest.mark.long
def test_the_breakdown_has_every_stage_of_a_data_set(tmp_path):
    made = run_trainer("prepare", "synthetic", "--images", "80", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    options = ["--breakdown", "True", "--data", "data/synthetic", "--rounds", "2"]
    options += ["--batch-size", "16", "--json", "stages.json"]
    done = run_trainer("input", *options, cwd=tmp_path, module="benchmarks")
    assert done.returncode == 0, done.stderr
    data = json.loads((tmp_path / "stages.json").read_text())
    assert [*data["breakdown"]] == ["TFRecord"]
    stages = data["breakdown"]["TFRecord"]
    assert len(stages) == 5
    assert all(turn["cpu_ms"] > 0 for turns in stages.values() for turn in turns)
    assert "TFRecord: windows, shuffled" in done.stdout
