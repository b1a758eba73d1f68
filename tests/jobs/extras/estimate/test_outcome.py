"""A completed run is compared with its estimate, and a measurement with the expectation."""

import json
from dataclasses import replace

import pytest

from common import fields
from common.prices import Cost, Price, PriceSource
from jobs import throughput
from jobs.azure.job_records import Job
from jobs.commands.runs.compare import ComparedRun
from jobs.extras.estimate.forecast import expected
from jobs.extras.estimate.outcome import about_run
from tests.jobs.extras.estimate.support import NDV2, forecaster, point
from tests.jobs.support.platform import platform
from trainer.presets import PRESETS, parse_train

STACK = platform(priority="Dedicated", dedicated=True)
PRICE = Price(20.0, "USD", "hour", PriceSource("a list", "https://example.com", "2026-11-23"))
RECIPE = PRESETS["imagenet-ndv2"]
STEPS = -(-1_281_167 * 90 // 4096)


def completed(hours=3.0, config=RECIPE, steps=STEPS, **files):
    stored = {"config": fields.to_dict(config), "global_batch": 4096}
    known = {"config.json": stored, "result.json": {"steps": steps}, **files}
    job = Job("a-r1", "Completed", STACK.clusters["gpu"].name, 2, None, None, {"run": "a"})
    content = {name: json.dumps(data).encode() for name, data in known.items() if data}
    return ComparedRun("a", content, [job], [Cost(hours * 3600, PRICE)])


def test_node_hours_and_cost_are_compared_with_the_forecast(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    forecast = forecaster().choice(NDV2, 2, "Dedicated")
    node_hours = (forecast.hours.middle - 0.25) * 2
    for hours, place in ((0.5, "below"), (node_hours, "inside"), (50.0, "above")):
        line = about_run(completed(hours), STACK)
        assert line.startswith(f"a: estimated: {node_hours:.2f} node hours (")
        steps = f"published, {STEPS:,} steps; was: {hours:.2f} node hours, {place} the range"
        assert f"{steps}, {hours * 20:,.2f}" in line
    file = tmp_path / throughput.FOLDER / "dev" / "new" / throughput.FILE
    throughput.append(file, point(1, 3000.0, at="2026-11-23"))
    assert ", measured, " in about_run(completed(), STACK)


@pytest.mark.parametrize(
    "other",
    [
        completed(config=parse_train(["--model.depth", "18", "--preset", "imagenet-ndv2"])),
        completed(**{"result.json": None}),
        completed(**{"config.json": {"config": {}}}),
        replace(completed(), jobs=[]),
    ],
    ids=["network", "not completed", "unreadable", "no jobs"],
)
def test_nothing_is_said_of_a_run_without_an_estimate(other):
    assert about_run(other, STACK) is None


def test_a_run_that_ended_early_is_compared_with_an_estimate_of_its_own_steps():
    line = about_run(completed(0.1, replace(RECIPE, max_steps=100), steps=100), STACK)
    assert "100 steps; was: 0.10 node hours" in line
    hours = float(line.split("estimated: ")[1].split(" ")[0])
    assert hours < 0.2


def test_what_is_expected_of_a_measurement_has_the_limit_of_what_it_reads():
    cluster = STACK.clusters["gpu"]
    synthetic, stored = (expected(RECIPE, cluster, 8, data) for data in ("synthetic", "x:1"))
    assert 0 < stored.images_per_s.high <= synthetic.images_per_s.high
    assert expected(replace(RECIPE, batch_size=2), cluster, 1, "synthetic").images_per_s is None
    assert "GPUs alone" in expected(RECIPE, STACK.clusters["cpu"], 1, "synthetic").reason
    other = parse_train(["--model.width", "8"])
    assert "measure it" in expected(other, cluster, 1, "synthetic").reason
