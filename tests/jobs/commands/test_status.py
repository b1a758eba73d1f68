"""`status` shows runs with their attempts, and the nodes that cost money now."""

from datetime import UTC, datetime, timedelta

import pytest

from common.prices import Cost, NodePrices, Price, PriceSource
from jobs.azure.job_records import Jobs, read_job
from jobs.commands import status
from jobs.commands.status import (
    Run,
    StatusOptions,
    _run_lines,
    age,
    cost_lines,
    group_by_run,
    shown_runs,
)
from tests.jobs.support.platform import cluster_nodes

UNKNOWN = Cost(None, None)
NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


def job(name, status="Completed", tagged=True):
    tags = {"run": name.rsplit("-r", 1)[0]} if tagged else {}
    return read_job({"name": name, "properties": {"status": status, "tags": tags}})


def test_no_nodes_cost_nothing():
    assert cost_lines([cluster_nodes()], NOW) == [
        "no nodes are allocated, so no cluster costs anything now"
    ]


def test_allocated_nodes_are_told_with_what_they_do_and_since_when():
    text = cost_lines([cluster_nodes(allocated=3, target=3, running=2, idle=1,
                             since=NOW - timedelta(hours=5))], NOW)[1]  # fmt: skip
    assert "gpu: 3 x Standard_ND40rs_v2 (LowPriority): 2 busy, 1 idle; unchanged for 5 h" in text


def test_nodes_that_nobody_uses_are_named_as_such():
    text = cost_lines([cluster_nodes(allocated=2, target=2, idle=2)], NOW)[1]
    assert "2 idle; no job is running" in text


def test_idle_nodes_are_told_with_their_cost_and_the_clusters_own_errors():
    size = cluster_nodes().size.lower()
    price = Price(2.42, "USD", "hour", PriceSource("", "", ""))
    prices = NodePrices(({(size, "LowPriority"): price},))
    half = cluster_nodes(allocated=2, target=4, idle=2, errors=("low-priority quota",))
    lines = cost_lines([half], NOW, prices)
    assert "2 idle; no job is running; 2 idle nodes cost 4.84 USD an hour" in lines[1]
    assert lines[2] == "gpu could not grow: low-priority quota"
    assert "idle nodes cost" not in cost_lines([half], NOW)[1]
    one = cost_lines([cluster_nodes(allocated=1, target=1, idle=1)], NOW, prices)[1]
    assert "1 idle node costs 2.42 USD" in one


def test_a_job_whose_outputs_are_uploaded_is_told_with_what_it_costs():
    runs = [Run("a", (job("a-r1", "Finalizing"),))]
    lines = _run_lines(runs, {"a-r1": UNKNOWN}, NOW)
    (text,) = [line for line in lines if line.startswith("a: ")]
    assert "1 node of  is billed" in text
    assert "cancel a` ends it and keeps" in text


def test_a_cluster_that_changes_says_to_what():
    changing = cluster_nodes(allocated=1, target=4, preparing=1, steady=False, since=NOW)
    text = cost_lines([changing], NOW)[1]
    assert "1 being prepared; Azure is scaling to 4" in text


def test_jobs_are_grouped_by_their_runs_and_those_of_others_left_out():
    found = group_by_run(
        [job("b-r2"), job("alien", tagged=False), job("a-r1"), job("b-r1", "Failed")]
    )
    assert [(run.key, [one.name for one in run.jobs]) for run in found] == [
        ("b", ["b-r1", "b-r2"]),
        ("a", ["a-r1"]),
    ]
    assert found[0].last.status == "Completed"


def test_runs_that_have_not_ended_are_shown_however_old():
    runs = group_by_run([job("c-r1"), job("b-r1"), job("a-r1", "Running")])
    assert [run.key for run in shown_runs(runs, 1)] == ["c", "a"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (119, "119 s"), (120, "2 min"), (3600, "60 min"), (7200, "2 h"),
     (2 * 86_400, "2 d"), (-5, "0 s")],
)  # fmt: skip
def test_times_are_told_by_their_largest_unit(seconds, text):
    assert age(NOW - timedelta(seconds=seconds), NOW) == text
    assert age(None, NOW) == ""


@pytest.mark.parametrize(("limit", "older"), [(1, True), (2, False)])
def test_that_older_jobs_were_not_looked_at_is_told(live, monkeypatch, capsys, limit, older):
    monkeypatch.setattr(status, "MAX_JOBS", limit)
    monkeypatch.setattr(
        Jobs, "newest_first", lambda _: iter([job("new-r1"), job("old-r1", "Running")])
    )
    status.run(StatusOptions(), live.outputs, as_json=False)
    said = capsys.readouterr().out
    assert (f"only runs among the newest {limit} jobs" in said) == older
    assert ("old" in said.replace("older", "")) != older
