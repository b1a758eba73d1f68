"""Runs that no command follows, on a deployed development stack."""

import hashlib
import json
import random
import time

import pytest

from rehearsal.machine_learning.run_history import ENDED
from tests.jobs.support.webhook import receiver
from tests.rehearsal.scenarios.cloud import QUICK, TINY, cloud_in
from tests.rehearsal.support.waiting import until

pytestmark = pytest.mark.rehearse_all

__all__ = ["receiver"]

OPTIONS = ("--epochs", "40", "--checkpoint.every-steps", "20", "--log.every-steps", "20")


@pytest.fixture(scope="module")
def cloud(tmp_path_factory):
    with cloud_in(tmp_path_factory.mktemp("unattended")) as cloud:
        cloud.jobs("up", "--yes", "True")
        yield cloud


def submit(cloud, run):
    """Submit a run, and close the terminal."""
    cloud.jobs(
        "submit", "--name", run, "--preset", "digits", "--nodes", "2", "--no-follow", *QUICK,
        "--resubmit.backoff-seconds", "1", "--", *TINY, *OPTIONS,
    )  # fmt: skip


def files(cloud, run):
    """The blobs of a run's folder, by name."""
    store = cloud.outputs.datastores.results
    container = cloud.azure.blobs.container(store.account, store.container)
    folder = f"runs/{run}/{run}/"
    return container, {
        name.removeprefix(folder): name
        for name in container.list_blob_names(name_starts_with=folder)
    }


def saved(cloud, run):
    """The number of complete checkpoints of a run so far."""
    return sum(name.endswith("/DONE") for name in files(cloud, run)[1])


def final_state(cloud, run):
    """SHA-256 of all variables at the end of a run."""
    container, names = files(cloud, run)
    index = json.loads(container.download_blob(names["checkpoints/index.json"]).readall())
    (state,) = [
        names[name]
        for name in names
        if name.startswith(f"checkpoints/{index['newest']}/") and "state" in name
    ]
    return hashlib.sha256(container.download_blob(state).readall()).hexdigest()


def test_a_run_whose_nodes_are_taken_twice_ends_like_an_undisturbed_one(
    cloud, receiver, monkeypatch
):
    chance = random.Random(20)
    submit(cloud, "calm")
    assert cloud.wait_until_ended(f"{cloud.workspace}/jobs/calm-r1") == "Completed"
    submit(cloud, "night")
    monkeypatch.setitem(cloud.variables, "JOBS_WEBHOOK", receiver.address)
    for attempt in (1, 2):
        job = f"{cloud.workspace}/jobs/night-r{attempt}"
        kept = saved(cloud, "night")
        until(lambda job=job: cloud.status(job) == "Running")
        until(lambda kept=kept, job=job: saved(cloud, "night") > kept or cloud.status(job) in ENDED)
        assert cloud.azure.admin.preempt(job=job) == 1
        # Passes come whenever they come: while the job ends, in the pause, and after it.
        following = f"{cloud.workspace}/jobs/night-r{attempt + 1}"
        while cloud.status(following) is None:
            time.sleep(chance.uniform(0.0, 2.0))
            cloud.jobs("supervise", "--once")
    assert cloud.wait_until_ended(f"{cloud.workspace}/jobs/night-r3") == "Completed"
    said = cloud.jobs("supervise", "--once").out
    assert "night: night-r3: training completed" in said
    assert sorted(receiver.ids) == [
        "calm/1/completed", "night/1/resubmitted", "night/2/resubmitted", "night/3/completed",
    ]  # fmt: skip
    assert [name for name in cloud.job_names() if name.startswith("night")] == [
        "night-r1", "night-r2", "night-r3",
    ]  # fmt: skip
    assert final_state(cloud, "night") == final_state(cloud, "calm")
