"""A teardown that is cut off by Ctrl-C at each step and given again."""

import pytest

from tests.rehearsal.scenarios.cloud import TINY, cloud_in
from tests.rehearsal.support.waiting import until

pytestmark = pytest.mark.rehearse_all

STEPS = (
    "cancelled 1 job",
    "deleted 3 clusters",
    "purged workspace",
    "running pulumi destroy",
    " deleted (",
    "destroyed the stack's resources",
    "purged vault",
)
"""The output of a teardown, with Pulumi's line for each resource."""


@pytest.fixture(scope="module")
def cloud(tmp_path_factory):
    with cloud_in(tmp_path_factory.mktemp("interrupted")) as cloud:
        yield cloud


def known(cloud):
    return {one["id"].lower() for one in cloud.state()}


def test_a_teardown_interrupted_at_each_step_leaves_nothing_in_the_end(cloud):
    cloud.jobs("up", "--yes", "True")
    job = run_for_long(cloud)
    workspace = cloud.workspace
    # So that the next step is still going on when Ctrl-C comes.
    cloud.azure.admin.fault("^DELETE ", delay=0.3, times=None)
    seen, cuts = set(), 0
    while (command := cut_after_a_step(cloud, seen)).status != 0:
        assert command.status == 130, command.words
        assert "interrupted" in command.err
        cuts += 1
    # How many depends on how fast it is heard, but not that there are some.
    assert cuts >= 3, seen
    assert STEPS[0] in seen
    assert "nothing is left" in command.out
    assert cloud.status(job) is None
    assert cloud.groups == []
    assert known(cloud) == set()
    assert not [one for one in cloud.resources() if "/deletedvaults/" in one]
    # A name in soft delete could not be taken again.
    assert cloud.azure.store.get("deleted_workspaces", workspace) is None
    assert "nothing is left" in cloud.jobs("teardown", "--yes", "True").out


def run_for_long(cloud):
    """A run that would take hours."""
    cloud.jobs(
        "submit", "--preset", "digits", "--nodes", "2", "--name", "long", "--no-follow", "True",
        "--", *TINY, "--epochs", "100000",
    )  # fmt: skip
    job = f"{cloud.workspace}/jobs/long-r1"
    until(lambda: cloud.status(job) == "Running")
    return job


def cut_after_a_step(cloud, seen):
    """A teardown that is cut off as soon as it tells of a step that none before has told of."""
    command = cloud.start("teardown", "--yes", "True", "--poll-seconds", "0.2")

    def new():
        return {step for step in STEPS if step in command.err} - seen

    if command.wait_for(new):
        command.interrupt()
    command.wait()
    seen |= new()
    assert "Traceback" not in command.words
    return command
