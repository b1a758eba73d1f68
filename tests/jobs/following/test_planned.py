"""A run's plan is stored with its jobs, and stands beside the outcome."""

import json
from dataclasses import replace

import pytest

from common.prices import Cost, Price, PriceSource
from jobs.azure.job_records import read_job
from jobs.commands.follow import _tell_end
from jobs.commands.status import group_by_run, plan_lines
from jobs.commands.submit import _measured
from jobs.console import Console
from jobs.following.planned import Planned, with_plan
from jobs.following.supervisor import RunResult
from jobs.planning import points
from jobs.planning.forecast import Assumptions
from jobs.spec.tags import PLAN
from tests.jobs.planning.support import NDV2, forecaster, point
from tests.jobs.support.platform import platform
from tests.jobs.support.samples import training
from trainer.presets import parse_train
from trainer.training.plan import make_plan

PLANNED = Planned((2.0, 3.0, 4.0), (40.0, 60.0, 80.0), "USD", "published")
PRICE = Price(20.0, "USD", "hour", PriceSource("a list", "https://example.com", "2026-11-23"))
CONFIG = parse_train(["--preset", "imagenet-ndv2"])


def test_a_plan_is_read_from_the_tag_that_it_wrote():
    assert Planned.read({PLAN: PLANNED.tag}) == PLANNED
    free = replace(PLANNED, cost=None, currency=None)
    assert Planned.read({PLAN: free.tag}) == free
    assert len(PLANNED.tag) < 256


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"node_hours": [1], "cost": null}'])
def test_a_tag_that_is_no_plan_counts_as_none(text):
    assert Planned.read({PLAN: text}) is None
    assert Planned.read({}) is None


def test_a_plan_counts_the_time_in_which_nodes_train():
    choice = forecaster().choice(NDV2, 2, "Dedicated")
    planned = Planned.of(choice, Assumptions())
    assert planned.node_hours[1] == pytest.approx((choice.hours.middle - 0.25) * 2, abs=1e-3)
    assert planned.cost[1] == pytest.approx(planned.node_hours[1] * choice.price.amount, abs=0.01)


def test_a_training_that_may_never_end_has_no_plan():
    choice = forecaster(hours_between_losses=0.2).choice(NDV2, 8, "LowPriority")
    assert Planned.of(choice, Assumptions()) is None


@pytest.mark.parametrize(
    ("hours", "words"),
    [(1.0, "1.00 node hours, below the range, 20.00 USD"),
     (3.0, "3.00 node hours, inside the range, 60.00 USD"),
     (5.0, "5.00 node hours, above the range, 100.00 USD")],
)  # fmt: skip
def test_the_outcome_stands_beside_the_plan(hours, words):
    text = PLANNED.beside([Cost(hours * 1800, PRICE), Cost(hours * 1800, PRICE)], completed=True)
    assert text == (
        "planned: 3.00 node hours (2.00 - 4.00), 60.00 USD (40.00 - 80.00), published;"
        f" was: {words}"
    )
    assert "so far" in PLANNED.beside([], completed=False)


def test_status_shows_plan_and_outcome_of_runs_that_have_a_plan():
    def job(name, status, **tags):
        tags = {"run": name.rsplit("-r", 1)[0], **tags}
        return read_job({"name": name, "properties": {"status": status, "tags": tags}})

    tag = {PLAN: PLANNED.tag}
    jobs = [job("a-r1", "Failed", **tag), job("a-r2", "Completed", **tag), job("b-r1", "Running")]
    cost = {one.name: Cost(5400, PRICE) for one in jobs}
    (line,) = plan_lines(group_by_run(jobs), cost)
    assert line.startswith("a: planned: 3.00 node hours")
    assert "was: 3.00 node hours, inside the range, 60.00 USD" in line


SPEC = training(2, platform(priority="Dedicated"))


def test_a_training_is_submitted_with_its_plan():
    plan = make_plan(CONFIG, 16, 1_281_167)
    spec, line = with_plan(SPEC, CONFIG, plan, "eastus")
    planned = Planned.read(spec.tags)
    assert planned.basis == "assumed"
    assert line.startswith("planned: ")
    assert str(planned) in line


def test_the_plan_of_a_training_rests_on_what_was_measured_on_its_stack():
    measured = [point(1, 3000.0, 3010.0), point(2, 5800.0, 5820.0)]
    plan = make_plan(CONFIG, 16, 1_281_167)
    spec, _ = with_plan(SPEC, CONFIG, plan, "eastus", measured)
    assert Planned.read(spec.tags).basis == "measured"


def test_submit_uses_the_newest_sweep_and_leaves_out_a_broken_one(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert _measured(Console(), "dev") == []
    file = tmp_path / points.SWEEPS / "dev" / "sweep" / points.FILE
    points.append(file, point(1, 3000.0, at="2026-11-23T00:00:00Z"))
    assert [one.nodes for one in _measured(Console(), "dev")] == [1]
    assert _measured(Console(), "prod") == []
    with file.open("a") as lines:
        lines.write('{"nodes": 2, "ra')
    assert _measured(Console(), "dev") == []
    assert "points.jsonl, line 2" in capsys.readouterr().err


def test_a_training_of_which_nothing_is_known_is_submitted_without_one():
    other = parse_train(["--preset", "imagenet-ndv2", "--model.network", "EfficientNetB0"])
    short = parse_train(["--preset", "imagenet-ndv2", "--max-steps", "5"])
    for config in (other, short):
        plan = make_plan(config, 16, 1_281_167)
        assert with_plan(SPEC, config, plan, "eastus") == (SPEC, None)
    assert with_plan(SPEC, CONFIG, None, "eastus")[1] is None


def test_a_run_that_was_followed_ends_with_plan_and_outcome(capsys):
    tags = {"run": "a", "attempt": "1", PLAN: PLANNED.tag}
    job = read_job({"name": "a-r1", "properties": {"status": "Completed", "tags": tags}})
    result = RunResult(job, "Completed", 0, "completed", 1)
    _tell_end(Console(), result, None, [Cost(3 * 3600, PRICE)])
    assert "was: 3.00 node hours, inside the range, 60.00 USD" in capsys.readouterr().out
    _tell_end(Console(as_json=True), result, None, [Cost(3 * 3600, PRICE)])
    assert json.loads(capsys.readouterr().out)["plan"]["node_hours"] == [2, 3, 4]
