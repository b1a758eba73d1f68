"""What jobs cost: estimated from their times, nodes and prices, and shown wherever jobs are."""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from common.prices import NodePrices, Price, PriceSource
from jobs.azure import costs
from jobs.azure.costs import JobCosts, estimate, job_price
from jobs.azure.job_records import Details, Jobs, listed_details, read_job, recent
from jobs.cli import main
from jobs.commands.runs.cost import CostOptions, group
from rehearsal.resources.quotas import cores
from tests.jobs.support.platform import platform
from tests.jobs.support.tiny import TRAINED, begin, status, wait_for

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
CLUSTERS = platform().clusters.values()
GPU, CPU = (platform().clusters[name] for name in ("gpu", "preparation"))


def usd(amount):
    return Price(amount, "USD", "hour", PriceSource("", "", ""))


PRICES = NodePrices(({("standard_nd40rs_v2", "LowPriority"): usd(4)},))


def job(status="Completed", nodes=2, cluster=GPU.name, created="2026-11-20T10:00:00Z", **tags):
    properties = {"status": status, "tags": tags, "computeId": f"/computes/{cluster}"}
    properties["resources"] = {"instanceCount": nodes}
    dated = {"createdAt": created}
    return read_job({"name": "a-r1", "properties": properties, "systemData": dated})


def details(started=None, ended=None):
    times = [None if ago is None else NOW - timedelta(seconds=ago) for ago in (started, ended)]
    return Details("Completed", *times)


def test_a_job_costs_its_seconds_times_its_nodes_times_their_price():
    cost = estimate(job(), details(5400, 1800), usd(4), NOW)
    assert (cost.node_seconds, cost.amount) == (7200, 8)


def test_a_running_job_costs_until_now_and_a_waiting_one_nothing():
    assert estimate(job("Running"), details(1800), usd(4), NOW).amount == 4
    assert estimate(job("Queued"), details(), usd(4), NOW).node_seconds == 0
    assert estimate(job("Canceled"), details(None, 10), None, NOW).node_seconds == 0


LOST = {"trainer.exit_status": "running"}


@pytest.mark.parametrize(
    ("ended", "messages", "evicted"),
    [
        (job("Failed"), ("PreemptionError: nodes were pre-empted",), 2),
        (job("Failed", **LOST), (), 2),
        (job("Failed", **{"trainer.exit_status": "143"}), (), 2),
        (job("Failed"), ("Execution failed: exited with status code 4.",), 0),
        (job("Canceled", **LOST, canceled_by="a"), (), 0),
        (job("Completed"), (), 0),
        (job("Running", **LOST), (), 0),
    ],
)
def test_node_starts_and_evicted_nodes_are_counted(ended, messages, evicted):
    known = replace(details(3600, 0), messages=messages)
    cost = estimate(ended, known, usd(4), NOW)
    assert costs.starts([cost, cost]) == {"node_starts": 4, "evicted_nodes": 2 * evicted}


def test_a_job_that_lost_its_nodes_before_its_program_started_counts_them():
    lost = replace(details(None, 10), messages=("PreemptionError",))
    assert costs.starts([estimate(job("Failed"), lost, None, NOW)])["evicted_nodes"] == 2


def listed(status, start=None, end=None, **tags):
    """A job as Azure lists it, with the times of its program among its properties."""
    times = {"StartTimeUtc": start, "EndTimeUtc": end}
    known = {key: text for key, text in times.items() if text}
    return replace(
        read_job({"name": "a-r1", "properties": {"status": status, "tags": tags,
                                                 "properties": known}}),
        created=NOW,
    )  # fmt: skip


START, END = "2026-11-22 10:00:00", "2026-11-22T11:00:00.5Z"


@pytest.mark.parametrize(
    ("known", "seconds"),
    [
        (listed("Completed", START, END), 3600.5),
        (listed("Canceled", START, END, canceled_by="a"), 3600.5),
        (listed("Running", START), 7200),
        (listed("Queued"), 0),
        # How it has ended is in Azure's messages only.
        (listed("Failed", START, END), None),
        (listed("Canceled", START, END), None),
        (listed("Completed", START), None),
        (listed("Running"), None),
    ],
)
def test_times_that_the_list_of_jobs_tells_need_no_request_of_their_own(known, seconds):
    told = listed_details(known)
    assert (None if told is None else estimate(known, told, usd(1), NOW).node_seconds) == seconds


def test_the_cost_of_1000_jobs_takes_a_request_for_each_that_has_failed_only():
    class History:
        asked = 0

        def details(self, _):
            self.asked += 1
            return {"status": "Failed", "startTimeUtc": START, "endTimeUtc": END}

    class Manager:
        asked, location_id = 0, "/locations/x"

        def now(self):
            return NOW

        def get(self, _):
            self.asked += 1
            return {"value": []}

    history, manager = History(), Manager()
    jobs = [
        replace(listed("Failed" if index % 50 == 0 else "Completed", START, END), name=f"j{index}")
        for index in range(1000)
    ]
    found = JobCosts(Jobs(manager, history), manager, {}).of(jobs)
    assert (history.asked, manager.asked) == (20, 1)
    assert {cost.node_seconds for cost in found.values()} == {3600.5}


def test_older_jobs_are_not_read_to_the_last_one():
    made = [NOW, NOW - timedelta(days=40), NOW, *[NOW - timedelta(days=40)] * 500]
    source = iter([replace(listed("Completed"), created=time) for time in made])
    assert len(list(recent(source, lambda: NOW, 30))) == 2
    assert len(list(source)) == 400


def test_times_that_nobody_knows_make_an_unknown_cost():
    assert estimate(job(), None, usd(4), NOW).amount is None
    assert estimate(job(), details(), usd(4), NOW).amount is None
    assert estimate(job(), details(100), usd(4), NOW).amount is None


def test_the_price_is_that_of_the_clusters_size_and_priority():
    assert job_price(job(), CLUSTERS, PRICES).amount == 4
    assert job_price(job(cluster=CPU.name), CLUSTERS, PRICES) is None
    assert job_price(job(cluster="gone"), CLUSTERS, PRICES) is None


def test_the_price_at_submission_goes_before_that_of_today():
    submitted = job_price(job(node_price="3.5 EUR"), CLUSTERS, PRICES)
    assert (submitted.amount, submitted.currency, submitted.source.date) == (
        *(3.5, "EUR"),
        "2026-11-20",
    )
    assert job_price(job(node_price="cheap"), CLUSTERS, PRICES).amount == 4


def test_jobs_are_grouped_by_run_week_or_tag():
    jobs = [job(data="a", created="2026-01-01T00:00:00Z"), job(created="2026-11-20T10:00:00Z")]
    assert list(group(jobs, "week")) == ["2026-W01", "2026-W47"]
    assert {name: len(own) for name, own in group(jobs, "tag:data").items()} == {"a": 1, "-": 1}
    assert list(group(jobs, "run")) == ["a-r1"]


def test_another_word_to_add_up_by_is_refused():
    with pytest.raises(Exception, match="--by: 'month' must be run, week or tag:NAME"):
        CostOptions(by="month")


def test_a_followed_run_status_list_and_cost_say_what_it_costs(live, outputs, capsys):
    run = "priced"
    first = begin(live, run, "exit 4", nodes=2)
    wait_for(lambda: status(live, first) == "Failed")
    begin(live, run, f"sleep 1; {TRAINED}", number=2)
    assert main(["follow", run, "--poll-seconds", "0.1"]) == 0
    said = capsys.readouterr().out
    assert re.search(r"cost of priced: 0\.\d{4} USD in 2 attempts, node time \d\.\d s", said)
    assert costs.LEFT_OUT in said

    history = [live.azure.runs.get(f"{live.workspace}/jobs/{run}-r{n}") for n in (1, 2)]
    times = [
        [datetime.fromisoformat(one[key]) for key in ("startTimeUtc", "endTimeUtc")]
        for one in history
    ]
    seconds = [(ended - started).total_seconds() for started, ended in times]
    node_seconds = 2 * seconds[0] + seconds[1]
    price = 0.05 * cores(outputs.clusters["preparation"].size)

    assert main(["status", "--json"]) == 0
    (shown,) = (one for one in json.loads(capsys.readouterr().out)["runs"] if one["run"] == run)
    assert shown["cost"]["node_seconds"] == pytest.approx(node_seconds, abs=0.1)
    assert shown["cost"]["amounts"] == {"USD": pytest.approx(node_seconds / 3600 * price, abs=1e-4)}
    assert main(["status"]) == 0
    assert re.search(r"\npriced .* \d\.\d s +0\.\d{4} USD\n", capsys.readouterr().out)
    assert main(["list"]) == 0
    assert re.search(r"\npriced-r2 .* \d\.\d s +0\.\d{4} USD\n", capsys.readouterr().out)
    assert main(["cost", "--by", "tag:run", "--json"]) == 0
    by_tag = json.loads(capsys.readouterr().out)
    (group,) = (one for one in by_tag["groups"] if one["name"] == run)
    assert group["jobs"] == ["priced-r2", "priced-r1"]
    assert group["amounts"] == shown["cost"]["amounts"]
    assert (group["node_starts"], group["evicted_nodes"]) == (3, 0)
    assert main(["cost", "--by", "week"]) == 0
    assert re.search(r"\n20\d\d-W\d\d .*\nall .*\ncost: estimated", capsys.readouterr().out)


def test_without_prices_or_times_the_cost_is_a_question_mark(live, outputs, capsys, monkeypatch):
    job = begin(live, "dear", TRAINED)
    wait_for(lambda: status(live, job) == "Completed")
    monkeypatch.setattr(costs, "read_prices", lambda _: NodePrices())
    assert main(["list", "--limit", "1"]) == 0
    assert re.search(r"\ndear-r1 .* \d\.\d s +\?\n", capsys.readouterr().out)
    monkeypatch.setattr(costs.JobCosts, "_details", lambda *_: None)
    assert main(["list", "--limit", "1"]) == 0
    assert re.search(r"\ndear-r1 .* \?  +\?\n", capsys.readouterr().out)
    assert main(["follow", "dear", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cost"] == {
        "node_seconds": 0.0,
        "amounts": None,
        "complete": False,
    }


def test_a_download_brings_the_cost_of_all_attempts_for_the_report(live, outputs, tmp_path, capsys):
    begun = begin(live, "fetched", f"sleep 0.2; {TRAINED}")
    wait_for(lambda: status(live, begun) == "Completed")
    folder = tmp_path / "fetched"
    assert main(["download", "fetched", "--to", str(folder), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)["cost"]
    stored = json.loads((folder / costs.FILE).read_text())
    assert stored["amount"] == pytest.approx(answer["amounts"][stored["currency"]], abs=1e-6)
    assert stored["amount"] > 0
    assert answer["complete"]
