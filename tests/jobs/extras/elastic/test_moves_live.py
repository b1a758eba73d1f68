"""Runs on the simulator that continue on the nodes that there are."""

import json
import re
from types import SimpleNamespace

import pytest

from jobs.azure.workspace import connect
from jobs.cli import main
from jobs.extras.elastic.choices import NUMBER, TAG, Choices, Offer
from jobs.extras.elastic.placement import about_run
from jobs.extras.elastic.placement_policy import MoveRules, NodeChoice
from jobs.following import supervisor
from jobs.following.supervision_policy import mark
from jobs.leaf import MOVED, PLACED
from jobs.options import ResubmitOptions
from tests.jobs.support.following import AGAIN, QUICK
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
