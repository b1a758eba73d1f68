"""What may befall a training and those who follow it, on a deployed development stack."""

import json
import re
import time
from dataclasses import replace

import pytest

from infra.outputs import to_dict
from jobs.exit_status import CANCELED
from tests.rehearsal.scenarios.cloud import (
    QUICK,
    TINY,
    cloud_in,
    copy_of_the_repository,
)

pytestmark = pytest.mark.rehearse_all

TRAINING = ("--preset", "digits", "--nodes", "2", *QUICK)
AGAIN = ("--resubmit.backoff-seconds", "0.1")
DOWN_SECONDS = 20.0

BUG = """

_training = Reporter.training


def _with_a_bug(self: Reporter, step: int, values: dict[str, float]) -> None:
    _training(self, step, values)
    if step >= 10:
        raise LookupError(f"nobody has thought of step {step}")


Reporter.training = _with_a_bug
"""


@pytest.fixture(scope="module")
def platform(tmp_path_factory):
    with cloud_in(tmp_path_factory.mktemp("runs")) as cloud:
        cloud.jobs("up", "--yes", "True")
        yield cloud


@pytest.fixture
def cloud(platform):
    """The stack as it was deployed, whatever tests before have done."""
    platform.azure.admin.clear_faults()
    platform.azure.admin.forget_requests()
    yield platform
    platform.azure.admin.clear_faults()
    platform.deployment.reset()


def job(cloud, name):
    return f"{cloud.workspace}/jobs/{name}"


def lines_of_training(text):
    return [line for line in text.splitlines() if re.match(r"step +\d+ ", line)]


def test_a_control_plane_away_for_20_seconds_ends_no_job_and_no_follower(cloud):
    following = cloud.start(
        "submit", "--name", "away", *TRAINING, "--", *TINY, "--epochs", "99999",
        "--log.every-steps", "10",
    )  # fmt: skip
    following.wait_for_words("step     10")
    away = job(cloud, "away-r1")
    # Half of the time Azure does not answer, half of it it says that it is busy.
    for fault in ({"cut": True}, {"status": 503}):
        cloud.azure.admin.clear_faults()
        cloud.azure.admin.fault("", times=None, **fault)
        time.sleep(DOWN_SECONDS / 2)
    before = len(lines_of_training(following.out))
    assert {one.status for one in cloud.azure.requests} >= {0, 503}
    cloud.azure.admin.clear_faults()
    assert following.wait_for(lambda: len(lines_of_training(following.out)) > before)
    assert cloud.status(away) == "Running"
    cloud.jobs("cancel", "away")
    assert following.wait() == CANCELED, following.words
    assert "no response from Azure; retrying, a running job is not affected" in following.err
    assert "Azure responds again" in following.err
    assert [name for name in cloud.job_names() if name.startswith("away")] == ["away-r1"]
    log = lines_of_training(cloud.jobs("logs", "away").out)
    assert len(log) > before
    assert lines_of_training(following.out) == log


def test_a_killed_supervisor_started_again_submits_a_preempted_run(cloud):
    first, second = job(cloud, "night-r1"), job(cloud, "night-r2")
    options = ("--epochs", "30", "--checkpoint.every-steps", "20", "--log.every-steps", "20")
    supervisor = cloud.start("submit", "--name", "night", *TRAINING, *AGAIN, "--", *TINY, *options)
    supervisor.wait_for_words("step     60")
    supervisor.kill()
    assert cloud.status(first) == "Running"
    assert cloud.azure.admin.preempt(job=first) == 1
    assert cloud.wait_until_ended(first) == "Failed"
    assert cloud.status(second) is None
    said = cloud.jobs("follow", "night", "--supervise", *QUICK, *AGAIN).out
    assert "attempt 2 of 5 follows" in said
    assert "night-r2: submitted" in said
    assert "night-r2: training completed" in said
    (continued,) = re.findall(r"continues at step ([\d,]+)", said)
    assert int(continued.replace(",", "")) >= 20
    # A later command reports it as completed.
    assert "training completed" in cloud.jobs("follow", "night", "--supervise", *QUICK).out
    assert cloud.status(job(cloud, "night-r3")) is None


def test_code_that_raises_fails_with_its_reason_and_is_not_resubmitted(cloud, tmp_path):
    theirs = copy_of_the_repository(tmp_path / "theirs")
    modules = (theirs / "trainer").rglob("*.py")
    (reporter,) = [path for path in modules if "\nclass Reporter:" in path.read_text()]
    with reporter.open("a") as file:
        file.write(BUG)
    ended = cloud.jobs(
        "submit", "--name", "bug", *TRAINING, *AGAIN, "--", *TINY, "--epochs", "6",
        "--log.every-steps", "5", status=1, repository=theirs,
    )  # fmt: skip
    assert "step      5" in ended.out
    assert "failed by its own error, so it is not submitted again" in ended.out
    assert "LookupError: nobody has thought of step 10" in ended.err
    assert "exited with status code 1" in ended.err
    assert cloud.status(job(cloud, "bug-r1")) == "Failed"
    assert cloud.status(job(cloud, "bug-r2")) is None
    # The code is that of the copy, and the next run's that of the repository.
    assert "bug " in cloud.jobs("status").out


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("gpus", "--cluster: the stack dev has no cluster gpus for jobs; choose from gpu (2 x "),
        ("build", "--cluster: the stack dev has no cluster build for jobs; choose from gpu (2 x "),
    ],
    ids=["not of this stack", "of builds"],
)
def test_a_cluster_that_the_stack_has_not_is_refused(cloud, name, words):
    ended = cloud.jobs("submit", "--name", "lost", *TRAINING, "--cluster", name, status=2)
    assert words in ended.err
    assert nothing_was_submitted(cloud, "lost")


def test_a_cluster_that_is_not_in_the_workspace_is_named(cloud, tmp_path):
    outputs = cloud.outputs
    clusters = {"gpu": replace(outputs.clusters["gpu"], name="gpu-of-before")}
    file = tmp_path / "outputs.json"
    file.write_text(json.dumps(to_dict(replace(outputs, clusters=clusters))))
    ended = cloud.jobs("submit", "--name", "lost", *TRAINING, "--outputs", str(file), status=1)
    workspace = outputs.workspace
    assert (
        f"cluster gpu-of-before: does not exist in workspace {workspace}; deploy the stack"
        in ended.err
    )
    assert nothing_was_submitted(cloud, "lost")


def nothing_was_submitted(cloud, run):
    return not [name for name in cloud.job_names() if name.startswith(run)] and not cloud.changes()


def test_a_property_that_cannot_change_is_refused_before_any_change(cloud):
    cloud.deployment.configure("registry.zone_redundant", "true")
    for verb in (["preview"], ["up", "--yes", "True"]):
        ended = cloud.jobs(*verb, status=1)
        assert "registry: zoneRedundancy cannot change from 'Disabled' to 'Enabled'" in ended.words
        assert "it can only be set at creation" in ended.words
    assert cloud.changes() == []


def test_another_size_of_nodes_is_shown_as_a_new_cluster(cloud):
    cloud.deployment.configure("clusters.preparation.size", "Standard_D16ads_v5")
    said = cloud.jobs("preview").words
    assert '~ vmSize: "Standard_D8ads_v5" => "Standard_D16ads_v5"' in said
    assert "1 to replace" in said
    assert cloud.changes() == []
