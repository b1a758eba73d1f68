"""Two ranks beside two trainings."""

import json

import pytest

from benchmarks.training.train import ALONE, APART, Contenders, together


@pytest.mark.slow
@pytest.mark.long
def test_scaling_compares_two_ranks_with_two_trainings_at_once(tmp_path):
    small = ["--model.depth", "18", "--model.width", "4", "--model.image-size", "32"]
    rates = Contenders(tmp_path, [*small, "--max-steps", "6"]).rates()
    assert [*rates] == [ALONE, APART, together(20.0), together(1.0)]
    assert all(rate > 0 for rate in rates.values())
    runs = [json.loads((run / "result.json").read_text()) for run in sorted(tmp_path.glob("run-*"))]
    assert [run["ranks"] for run in runs] == [1, 1, 1, 2, 2]
