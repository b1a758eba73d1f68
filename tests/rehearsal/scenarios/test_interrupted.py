"""A deployment and its end, each cut off by Ctrl-C in the middle and given again."""

import pytest

from tests.rehearsal.scenarios.cloud import TINY, WORKSPACES, cloud_in
from tests.rehearsal.support.engine import resource_count
from tests.rehearsal.support.waiting import until

pytestmark = pytest.mark.rehearse_all

HALF = 50
"""Number of resources after which the deployment is cut off."""
STEPS = (
    "cancelled 1 job",
    "deleted 3 clusters",
    "purged workspace",
    "running pulumi destroy",
    " deleted (",
    "destroyed the stack's resources",
    "purged vault",
)
"""What is said in a teardown, by Pulumi of each resource among it."""


@pytest.fixture(scope="module")
def cloud(tmp_path_factory):
    with cloud_in(tmp_path_factory.mktemp("interrupted")) as cloud:
        yield cloud


@pytest.fixture(scope="module")
def cut_off(cloud):
    """`up`, ended by Ctrl-C when half of the resources are there."""
    # Or it would be at its end before it hears of it.
    cloud.azure.admin.fault("^PUT ", delay=0.3, times=None)
    command = cloud.start("up", "--yes", "True")
    assert command.wait_for(lambda: len(cloud.resources()) >= HALF), command.words
    command.interrupt()
    command.wait()
    cloud.azure.admin.clear_faults()
    return command


def known(cloud):
    return {one["id"].lower() for one in cloud.state()}


def test_an_interrupted_deployment_forgets_nothing_that_it_made(cloud, cut_off):
    assert cut_off.status == 130, cut_off.words
    assert "Traceback" not in cut_off.words
    assert not cloud.azure.resources.of_kind(WORKSPACES)
    made = {one for one in cloud.resources() if "/resourcegroups/" in one}
    of_azure = {one for one in made if "/networkinterfaces/" in one or one.endswith("/default")}
    subnets = {one for one in made if "/subnets/" in one}
    assert made - of_azure - subnets <= known(cloud)


def test_the_same_command_goes_on_and_a_third_changes_nothing(cloud, cut_off):
    said = cloud.jobs("up", "--yes", "True").words
    assert "workspace hvd-dev-ml-" in said
    assert f"{resource_count()} unchanged" in cloud.pulumi("preview", "--expect-no-changes")


def test_a_teardown_interrupted_at_each_step_leaves_nothing_in_the_end(cloud, cut_off):
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
    """A training that would go on for hours."""
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
