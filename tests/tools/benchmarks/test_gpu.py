"""Images/s of a card become points that a plan reads."""

from dataclasses import replace

import pytest

from jobs.throughput import read
from tools.benchmarks.training import gpu
from tools.benchmarks.training.gpu import Options, points_of

RATES = {
    "trainer, XLA, mixed_bfloat16": [{"rates": [10.0, 30.0]}, {"rates": [20.0]}],
    "trainer, XLA, deterministic, mixed_bfloat16": [{"rates": [1.0]}],
    "trainer, without XLA, float32": [{"rates": [5.0]}],
    "trainer, XLA, float32": [{"error": "no memory"}],
    "flax, float32": [{"rates": [99.0]}],
}


def test_a_point_is_one_rank_of_this_trainer_with_what_a_plan_compares():
    found = points_of(Options(batch=64), RATES, "NVIDIA H200")
    assert [(one.precision, one.xla, one.rates) for one in found] == [
        ("mixed_bfloat16", True, (10.0, 30.0, 20.0)),
        ("float32", False, (5.0,)),
    ]
    for one in found:
        assert (one.model, one.batch_per_rank, one.image_size) == ("ResNet-50", 64, 224)
        assert (one.nodes, one.ranks, one.environment) == (1, 1, {"gpu": "NVIDIA H200"})
        assert one.at


@pytest.mark.parametrize("card", ["NVIDIA H200, 580.1, 143771 MiB", ""])
def test_points_are_appended_where_there_is_a_gpu(tmp_path, monkeypatch, card):
    monkeypatch.setattr(gpu, "_gpu", lambda: card)
    monkeypatch.setattr(gpu.Work, "rates", lambda *_: {"rates": [7.0]})
    file = tmp_path / "gpu" / "points.jsonl"
    options = Options(parts=("speed",), precisions=("float32",), points=str(file))
    gpu.measure(options)
    gpu.measure(replace(options, batch=8))
    found = read(file) if file.exists() else []
    assert [one.batch_per_rank for one in found] == ([256, 256, 8, 8] if card else [])
    assert all(one.environment == {"gpu": "NVIDIA H200"} for one in found)
