"""Foresight, from a plan to a measured one, and the first day on a platform, as a person has it."""

import json
import subprocess

import pytest

from rehearsal.pulumi.deployment import ROOT
from tests.rehearsal.scenarios.cloud import cloud_in, copy_of_the_repository
from tests.rehearsal.support.waiting import until

pytestmark = pytest.mark.rehearse_all

NODES = ("--nodes", "1", "2")
PROGRAM = ("--batch-size", "2", "--compute.precision", "float32", "--compute.xla", "False")
POLL = "poll-seconds=0.3"
SMALL = (
    *("model.depth=18", "model.width=4", "model.image-size=8", "data.streams=4"),
    *("data.shuffle-window=50", "log.report=False", "evaluation.every-epochs=0"),
)
"""Options of trainings that take seconds."""
SWEEP = ("steps=1", "repeat=1", POLL, "even-if-poor=True")
"""Nodes are processes without GPUs here, one for each node."""


def flags(texts):
    return [word for text in texts for word in f"--{text}".split("=")]


def bases(command):
    """On what the figures of a plan rest, by number of nodes."""
    return {one["nodes"]: one["basis"] for one in json.loads(command.out)["choices"]}


def facts(command):
    """States and guesses of a commissioning, by step."""
    found = json.loads(command.out)["facts"]
    return {one["step"]: (one["state"], one["guess"]) for one in found}, found


def running_on_two_nodes(cloud):
    """Id of a job of the sweep on two nodes that runs."""
    names = [name for name in cloud.job_names() if name.startswith("first-gpu-2-")]
    jobs = [f"{cloud.workspace}/jobs/{name}" for name in names]
    return next((job for job in jobs if cloud.status(job) == "Running"), None)


def digits(folder):
    """A small prepared data set."""
    subprocess.run(
        [ROOT / ".venv-trainer" / "bin" / "python", "-m", "trainer", "prepare", "digits",
         "--output", folder],
        cwd=ROOT, capture_output=True, check=True,
    )  # fmt: skip
    return folder


def patiently(command):
    """A command that takes long, at its end; it must always go on."""
    while not command.ended:
        seen = len(command.err)
        command.wait_for(lambda seen=seen: len(command.err) > seen)
    assert command.wait() == 1, command.words
    return command


@pytest.fixture(scope="module")
def platform(tmp_path_factory):
    """A deployed stack, and a copy of the repository whose folders the commands write to."""
    folder = tmp_path_factory.mktemp("foresight")
    clone = copy_of_the_repository(folder / "clone")
    with cloud_in(folder) as cloud:
        cloud.jobs("up", "--yes", "True", repository=clone)
        yield cloud, clone


@pytest.fixture(scope="module")
def commission(platform, tmp_path_factory):
    """The command that commissions it, on a data set that is registered."""
    cloud, clone = platform
    folder = str(digits(tmp_path_factory.mktemp("digits")))
    uploaded = cloud.jobs("upload", folder, "--to", "prepared/digits", "--json", repository=clone)
    asset = json.loads(uploaded.out)["asset"]
    return (
        *("commission", "--data", asset, "--steps", "2000", "--cap", "90", "--json"),
        "--despite-check",
        *("--training", *SMALL, "--submit", POLL, "resubmit.backoff-seconds=1"),
        *("--scaling", *SWEEP),
    )


def test_a_plan_rests_on_what_was_measured_even_if_nodes_of_a_point_are_lost(platform):
    cloud, clone = platform

    def plan():
        return bases(cloud.jobs("plan", "--json", *NODES, "--", *PROGRAM, repository=clone))

    # Nothing is said of so small a batch before it is measured.
    assert plan() == {1: "?", 2: "?"}
    sweep = cloud.start(
        "scaling", "--name", "first", *NODES, "--yes", *flags(SWEEP), "--", *PROGRAM,
        repository=clone,
    )  # fmt: skip
    until(lambda: running_on_two_nodes(cloud) or sweep.ended, lambda: sweep.words)
    cloud.azure.admin.preempt(job=running_on_two_nodes(cloud))
    assert sweep.wait() == 0, sweep.words
    assert "PreemptionError" in sweep.out
    page = (clone / "scaling" / "dev" / "first" / "scaling.html").read_text()
    assert page.count("<svg viewBox") == 2
    assert plan() == {1: "measured", 2: "measured"}


def test_nothing_is_commissioned_that_costs_more_than_somebody_agrees_to(platform, commission):
    cloud, clone = platform
    before = cloud.job_names()
    for more, words in (((), "pass --yes"), (("--cap", "0.1", "--yes"), "more than --cap 0.1")):
        refused = cloud.jobs(*commission, *more, "--", *PROGRAM, status=1, repository=clone)
        assert words in refused.err
    assert cloud.job_names() == before


def test_a_platform_is_commissioned_and_the_page_says_what_was_different(platform, commission):
    cloud, clone = platform
    first = patiently(cloud.start(*commission, "--yes", "--", *PROGRAM, repository=clone))
    states, found = facts(first)
    assert states == {
        "preflight": ("as expected", "right"),
        "smoke job": ("as expected", "right"),
        "data set": ("as expected", ""),
        # Nobody has InfiniBand here, and of so small a batch nothing is predicted.
        "cluster check": ("different", "right"),
        "scaling": ("as expected", "not seen"),
        "plan": ("as expected", ""),
        "training": ("as expected", "right"),
        "rank killed": ("as expected", "right"),
        "cancel": ("as expected", "right"),
        "pre-emption": ("not seen", "not seen"),
    }, found
    page = (clone / "commission" / "dev" / "first" / "facts.html").read_text()
    assert "different from what was expected: cluster check" in page
    assert " USD spent" in page

    before = cloud.job_names()
    patiently(cloud.start(*commission, "--yes", "--", *PROGRAM, repository=clone))
    # Only what was different runs again, and what was measured is not measured again.
    assert {name for name in cloud.job_names() if name not in before} == {"first-check-r2"}

    cloud.jobs(*commission, "--teardown", repository=clone)
    store = cloud.outputs.datastores.results
    blobs = cloud.azure.blobs.container(store.account, store.container)
    assert not list(blobs.list_blob_names(name_starts_with="runs/first-"))
    assert (clone / "commission" / "dev" / "first" / "facts.json").exists()
