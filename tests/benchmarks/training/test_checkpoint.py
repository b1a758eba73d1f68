"""A save in the background beside one that waits."""

import json

import pytest

from tests.trainer.support.command import run_trainer


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
