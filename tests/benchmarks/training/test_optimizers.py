"""The cost of optimizers: shares of a step, and a measurement of a small one."""

import json

import pytest

from benchmarks.measure import Sample
from benchmarks.training.optimizers import KINDS, extra, goals, show
from tests.trainer.support.command import run_trainer


def rounds(*times):
    return [Sample(time, time) for time in times]


def test_what_an_update_costs_is_a_share_of_the_step_in_the_same_round():
    samples = {
        "step, momentum": rounds(100.0, 200.0, 100.0),
        "update, momentum": rounds(1.0, 2.0, 1.0),
        "update, lars": rounds(3.0, 8.0, 2.0),
    }
    found = extra(samples, "lars")
    assert (found.low, found.median, found.high) == pytest.approx((0.01, 0.02, 0.03))


@pytest.mark.slow
@pytest.mark.long
def test_the_benchmark_of_optimizers_measures_steps_and_updates_of_all_kinds(tmp_path):
    options = ["--rounds", "2", "--batch-size", "2", "--image-size", "32", "--json", "o.json"]
    done = run_trainer("optimizers", *options, cwd=tmp_path, module="benchmarks")
    assert done.returncode == 0, done.stderr
    data = json.loads((tmp_path / "o.json").read_text())
    assert data["samples"].keys() == {f"{what}, {k}" for what in ("step", "update") for k in KINDS}
    assert "The update of lars takes" in show(data)
    assert "the goal is at most 3%" in goals(data)
