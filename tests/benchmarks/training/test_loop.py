"""The loop beside other loops."""

import json

import pytest

from tests.trainer.support.command import run_trainer


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
