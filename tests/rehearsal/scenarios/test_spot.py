"""A run whose Spot nodes are taken after a notice, that continues on fewer and later on all."""

import json
import time

import pytest

from rehearsal.machine_learning.run_history import ENDED
from tests.rehearsal.scenarios.cloud import QUICK, TINY, cloud_in
from tests.rehearsal.scenarios.test_unattended import final_state
from tests.rehearsal.support.waiting import until

pytestmark = pytest.mark.rehearse_all

NOTICE_SECONDS = 30.0
OPTIONS = (
    *("--batch-size", "4", "--virtual-ranks.count", "16", "--data.streams", "16"),
    *("--epochs", "60", "--checkpoint.every-steps", "500", "--checkpoint.every-minutes", "0"),
    *("--log.every-steps", "20"),
)
"""16 virtual ranks, as the platform's nodes have 8 GPUs; here a node has one rank."""


@pytest.fixture(scope="module")
def cloud(tmp_path_factory):
    with cloud_in(tmp_path_factory.mktemp("spot")) as cloud:
        cloud.jobs("up", "--yes", "True")
        yield cloud


def submit(cloud, run, *options):
    """Submit a run on two nodes, and close the terminal."""
    cloud.jobs(
        "submit", "--name", run, "--preset", "digits", "--nodes", "2", "--no-follow", *QUICK,
        *options, "--resubmit.backoff-seconds", "0.1", "--", *TINY, *OPTIONS,
    )  # fmt: skip


def events(cloud, run):
    """The events of a run so far."""
    store = cloud.outputs.datastores.results
    blob = cloud.azure.blobs.container(store.account, store.container).get_blob_client(
        f"runs/{run}/{run}/metrics.jsonl"
    )
    if not blob.exists():
        return []
    lines = blob.download_blob().readall().decode().split("\n")[:-1]
    return [json.loads(line) for line in lines]


def trained(cloud, run):
    """The last step that a run has reported."""
    steps = [one["step"] for one in events(cloud, run) if one["event"] == "train"]
    return steps[-1] if steps else 0


def starts(cloud, run):
    """The starts of the attempts of a run that took a step."""
    return [one for one in events(cloud, run) if one["event"] == "start"]


def supervise_until(cloud, condition):
    """Let passes look at the runs until a condition holds."""

    def passed():
        cloud.jobs("supervise", "--once")
        return condition()

    until(passed)


def test_a_run_whose_two_nodes_are_announced_as_taken_goes_on_with_one_and_then_with_two(cloud):
    cluster = f"{cloud.workspace}/computes/{cloud.outputs.clusters['gpu'].name}"
    first, *more = (f"{cloud.workspace}/jobs/spot-r{number}" for number in range(1, 5))
    moves = ("--min-nodes", "1", "--move-down-minutes", "0.05", "--move-up-hours", "0.004")
    submit(cloud, "spot", *moves)
    until(lambda: trained(cloud, "spot") >= 40)
    cloud.azure.admin.capacity(cluster=cluster, nodes=1)
    announced = time.monotonic()
    assert cloud.azure.admin.preempt(job=first, notice_seconds=NOTICE_SECONDS) == 1
    assert cloud.wait_until_ended(first) == "Failed"
    # It has left by itself, and its nodes are gone.
    assert time.monotonic() - announced < NOTICE_SECONDS
    at = trained(cloud, "spot")
    assert at % 500

    # Two nodes do not come, so it asks for one, and once they are there again, for two.
    second, third, fourth = more
    supervise_until(cloud, lambda: cloud.status(third) == "Running")
    assert cloud.status(second) == "Canceled"
    until(lambda: len(starts(cloud, "spot")) == 2)
    # No step is lost, although the next checkpoint was far.
    assert [(one["step"], one["ranks"]) for one in starts(cloud, "spot")] == [(0, 2), (at, 1)]
    cloud.azure.admin.capacity(cluster=cluster, nodes=None)
    supervise_until(cloud, lambda: cloud.status(fourth) is not None)
    assert cloud.wait_until_ended(fourth) == "Completed"
    said = cloud.jobs("supervise", "--once").out
    assert "spot: spot-r4: training completed" in said
    begun = starts(cloud, "spot")
    assert [one["ranks"] for one in begun] == [2, 1, 2]
    assert len({one["global_batch"] for one in begun}) == 1
    # With virtual ranks it ends with the bits of a run that was not disturbed.
    submit(cloud, "calm")
    assert cloud.wait_until_ended(f"{cloud.workspace}/jobs/calm-r1") == "Completed"
    assert final_state(cloud, "spot") == final_state(cloud, "calm")
    shown = cloud.jobs("status").out
    assert "spot: gpu:2: gpu:2 is tried after" in shown
    assert cloud.status(first) in ENDED
