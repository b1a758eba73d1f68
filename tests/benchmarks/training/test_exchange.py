"""The exchange beside a bare all-reduce."""

import json

import pytest

from tests.trainer.support.command import run_trainer


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
