"""Runs on the simulator that continue on the nodes that there are."""

import json
import re
from dataclasses import replace
from types import SimpleNamespace

import pytest

from jobs.azure.workspace import connect
from jobs.cli import main
from jobs.exit_status import BUDGET_USED
from jobs.extras.elastic.choices import NUMBER, TAG, Choices, Offer
from jobs.extras.elastic.placement import PINNED, about_run
from jobs.extras.elastic.placement_policy import MoveRules, NodeChoice
from jobs.following import supervisor
from jobs.following.supervision_policy import mark
from jobs.leaf import MOVED, PLACED
from jobs.options import ResubmitOptions
from jobs.spec.budget_policy import Budget
from tests.jobs.support.following import AGAIN, QUICK
from tests.jobs.support.live import declare
from tests.jobs.support.tiny import TRAINED, begin, meanwhile, running, status, wait_for

pytestmark = pytest.mark.usefixtures("outputs")

SECONDS = 1 / 3600


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(supervisor, "REVIEW_SECONDS", 0.2)


@pytest.fixture
def gpu(live):
    """The cluster of Spot nodes, of which there is one."""
    cluster = live.outputs.clusters["gpu"]
    name = f"{live.workspace}/computes/{cluster.name}"
    live.azure.admin.capacity(cluster=name, nodes=1)
    yield cluster, lambda nodes: live.azure.admin.capacity(cluster=name, nodes=nodes)
    live.azure.admin.capacity(cluster=name, nodes=None)


def choices(cluster, wait, up):
    offers = [Offer("gpu", NodeChoice(cluster.name, nodes), 1, 8 // nodes) for nodes in (2, 1)]
    tags = {
        TAG: Choices(MoveRules(wait, up), tuple(offers)).tag,
        NUMBER: "0",
        PLACED: "gpu:2, as asked",
    }
    return {**tags, **mark(ResubmitOptions(backoff_seconds=0.0))}


def tags(live, job):
    return live.azure.resources.get(job)["properties"]["tags"]


def test_a_run_asks_for_fewer_nodes_and_later_for_all_again(live, outputs, gpu, capsys):
    cluster, capacity = gpu
    # It ends with 2 nodes alone.
    work = f'if [ "$AZUREML_NODE_COUNT" = 1 ]; then sleep 600; fi; {TRAINED}'
    command = f": --batch-size 4; {work}"
    first = begin(
        live,
        "fewer",
        command,
        cluster=cluster,
        nodes=2,
        tags=choices(cluster, 2 * SECONDS, 5 * SECONDS),
    )
    second, third = (first.replace("-r1", f"-r{number}") for number in (2, 3))
    meanwhile(running(live, second), lambda: capacity(2))
    assert main(["follow", "fewer", *QUICK, *AGAIN]) == 0
    text = capsys.readouterr().out
    assert re.search(r"fewer-r1: is ended to run elsewhere, as gpu:2 did not come within", text)
    assert re.search(r"fewer-r2: is ended to run elsewhere, as gpu:2 is tried after", text)
    shown = [live.azure.resources.get(job)["properties"] for job in (first, second, third)]
    assert [one["resources"]["instanceCount"] for one in shown] == [2, 1, 2]
    assert [re.search(r"--batch-size (\d)", one["command"])[1] for one in shown] == ["4", "8", "4"]
    assert shown[0]["tags"][MOVED].startswith("down: ")
    assert shown[1]["tags"][PLACED].startswith("gpu:1: gpu:2 did not come within")
    assert [status(live, job) for job in (first, second, third)][2] == "Completed"
    run = SimpleNamespace(key="fewer", jobs=connect(outputs).jobs.attempts("fewer"))
    line = about_run(run, outputs)
    assert line.startswith("fewer ran on gpu:2, as asked; then on gpu:1: gpu:2 did not come within")
    assert main(["status"]) == 0
    assert "\nfewer: gpu:2: gpu:2 is tried after" in capsys.readouterr().out


@pytest.mark.long
def test_passes_move_a_run_that_nobody_follows_and_keep_what_a_user_has_pinned(
    live, gpu, capsys, monkeypatch
):
    cluster, capacity = gpu
    capacity(2)
    first = begin(
        live,
        "pin",
        ": --batch-size 4; sleep 600",
        cluster=cluster,
        nodes=2,
        tags=choices(cluster, 1.0, 1.0),
    )
    second = first.replace("-r1", "-r2")
    running(live, first)()
    assert main(["place", "pin"]) == 0
    assert "moves by itself; choices: gpu:2, gpu:1" in capsys.readouterr().out
    assert main(["place", "pin", "--on", "gpu:3"]) == 2
    assert "'gpu:3' is not a choice of the run" in capsys.readouterr().err
    assert main(["place", "pin", "--on", "gpu:1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["pinned"] == "gpu:1"
    assert main(["supervise", "--once"]) == 0
    assert (
        "is ended to run elsewhere, as a user has pinned another choice" in capsys.readouterr().out
    )
    wait_for(lambda: status(live, first) == "Canceled")
    assert main(["supervise", "--once"]) == 0
    running(live, second)()
    assert live.azure.resources.get(second)["properties"]["resources"]["instanceCount"] == 1
    assert tags(live, second)[PLACED] == "gpu:1: as pinned"
    # A second pass leaves it where it is.
    assert main(["supervise", "--once"]) == 0
    assert "elsewhere" not in capsys.readouterr().out.splitlines()[-1]
    assert status(live, second) == "Running"
    assert main(["cancel", "pin"]) == 0


STOPS = 'if [ ! -e "${{outputs.run}}/n" ] && touch "${{outputs.run}}/n"; then exit 143; fi'


@pytest.fixture
def elsewhere(live, tmp_path, monkeypatch):
    """Add a cluster to the platform."""

    def add(key, size, priority):
        name = f"{key}-{priority[:3]}-{len(size)}".lower()
        cluster = replace(live.outputs.clusters["gpu"], name=name, size=size, priority=priority)
        more = replace(live.outputs, clusters={**live.outputs.clusters, key: cluster})
        assert declare(live.azure, tmp_path, more).outputs == more
        monkeypatch.setenv("JOBS_OUTPUTS", str(tmp_path / f"{more.workspace}.json"))
        return cluster

    return add


def stopped(live, run, to, limit=10):
    """Submit a run on a node of Spot whose next attempt is pinned to a node of another cluster."""
    cluster = live.outputs.clusters["gpu"]
    places = (("gpu", cluster.name, 1), ("other", to.name, 1), ("other", to.name, 4))
    offers = [Offer(key, NodeChoice(name, nodes), 1, 8) for key, name, nodes in places]
    budget = Budget(limit, "USD", 0.4, nodes=1, at_most=2.0, longest_seconds=7 * 86_400)
    options = ResubmitOptions(backoff_seconds=0.0, max_node_price=1.0)
    placed = {TAG: Choices(MoveRules(1, 1), tuple(offers)).tag, PINNED: "1"}
    command = f": --batch-size 8 --max-seconds 60; {STOPS}; {TRAINED}"
    known = {**budget.tags, **placed, **mark(options)}
    job = begin(live, run, command, cluster=cluster, timeout="PT1H", tags=known)
    wait_for(lambda: status(live, job) == "Failed")
    return job


def limit_and_prices(outputs, run):
    job = connect(outputs).jobs.attempts(run)[1]
    budget = Budget.of(job.tags, job.nodes)
    return job.timeout_seconds / 3600, budget.price, budget.at_most


FOLLOW = [*QUICK, *AGAIN, "--resubmit.max-node-price", "1"]


@pytest.fixture
def while_waiting(live, monkeypatch):
    """Return a function that takes steps while a supervisor waits for a lower price."""
    real = supervisor.wait_until

    def take(*steps):
        def wait(look, seconds, poll):
            if seconds != supervisor.PRICE_SECONDS:
                return real(look, seconds, poll)
            for step in steps:
                step()
            return False

        monkeypatch.setattr(supervisor, "wait_until", wait)

    yield take
    live.azure.admin.spot_price(0.01)


# A node has 96 cores, which cost at most 4.80 USD.
@pytest.mark.parametrize(
    ("priority", "prices"), [("LowPriority", (0.96, 4.8)), ("Dedicated", (4.8, None))]
)
def test_a_run_that_moves_is_limited_by_the_prices_of_the_cluster_it_moves_to(
    live, outputs, elsewhere, while_waiting, capsys, priority, prices
):
    spot = priority == "LowPriority"
    run = f"priced-{priority}".lower()
    stopped(live, run, elsewhere("other", "Standard_ND96amsr_A100_v4", priority))
    live.azure.admin.spot_price(0.02)
    while_waiting(lambda: live.azure.admin.spot_price(0.01))
    assert main(["follow", run, *FOLLOW]) == 0
    hours, *known = limit_and_prices(outputs, run)
    assert tuple(known) == pytest.approx(prices)
    assert 2 < hours <= 10 / 4.8
    said = capsys.readouterr().out
    dear = "waits, as a Spot node of Standard_ND96amsr_A100_v4 costs 1.92 USD"
    assert said.count(dear) == spot
    assert "the price of Spot Standard_ND96amsr_A100_v4 has risen" not in said


def test_a_run_with_a_budget_waits_for_the_price_of_the_cluster_it_moves_to(
    live, outputs, elsewhere, capsys
):
    to = elsewhere("other", "Standard_D1", "Dedicated")
    stopped(live, "priceless", to)
    assert main(["supervise", "--once"]) == 0
    said = capsys.readouterr().out
    assert f"waits, as Azure states no price of a node of {to.name}, which its budget needs" in said
    assert len(connect(outputs).jobs.attempts("priceless")) == 1


def test_a_run_whose_place_has_changed_during_the_wait_for_a_price_needs_budget_for_that(
    live, outputs, elsewhere, while_waiting, capsys
):
    job = stopped(
        live, "dear2", elsewhere("other", "Standard_ND96amsr_A100_v4", "LowPriority"), 2.5
    )
    live.azure.admin.spot_price(0.02)
    pinned = {**tags(live, job), PINNED: "2"}
    while_waiting(lambda: live.azure.resources.update(job, {"tags": pinned}))
    assert main(["follow", "dear2", *FOLLOW]) == BUDGET_USED
    # 4 nodes for 10 minutes.
    assert "a --budget above 3.20 USD resumes" in capsys.readouterr().out
    assert len(connect(outputs).jobs.attempts("dear2")) == 1


def test_a_run_without_choices_has_no_place(live, capsys):
    begin(live, "fixed", TRAINED)
    assert main(["place", "fixed", "--free"]) == 1
    assert "fixed: has no choice of nodes" in capsys.readouterr().err


def test_a_quota_that_the_first_choice_exceeds_is_named_before_anything_is_submitted(
    live, outputs, capsys
):
    wide = ["submit", "--preset", "synthetic", "--cluster", "gpu", "--nodes", "4", "--dry-run"]
    live.azure.admin.quota(outputs.region, "totalLowPriorityCores", 100)
    try:
        assert main([*wide, "--min-nodes", "2"]) == 2
        assert "4 nodes of gpu" in (shown := capsys.readouterr().err)
        assert "need 160 Spot (low-priority) cores" in shown
    finally:
        live.azure.admin.quota(outputs.region, "totalLowPriorityCores", 1000)
    assert main([*wide, "--min-nodes", "2"]) == 0
