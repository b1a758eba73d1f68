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


def test_a_plan_is_measured_and_then_rests_on_it_and_the_platform_is_commissioned(tmp_path):
    clone = copy_of_the_repository(tmp_path / "clone")
    with cloud_in(tmp_path) as cloud:

        def jobs(verb, *arguments, status=0):
            return cloud.jobs(verb, *arguments, status=status, repository=clone)

        def plan():
            return jobs("plan", "--json", *NODES, "--", *PROGRAM)

        jobs("up", "--yes", "True")
        assert bases(plan()) == {1: "published", 2: "assumed"}

        sweep = cloud.start(
            "scaling", "--name", "first", *NODES, "--yes", *flags(SWEEP), "--", *PROGRAM,
            repository=clone,
        )  # fmt: skip
        until(lambda: running_on_two_nodes(cloud) or sweep.ended, lambda: sweep.words)
        cloud.azure.admin.preempt(job=running_on_two_nodes(cloud))
        assert sweep.wait() == 0, sweep.words
        assert "PreemptionError" in sweep.out
        assert "below the predicted" in sweep.out
        page = (clone / "scaling" / "dev" / "first" / "scaling.html").read_text()
        assert page.count("<svg") == 2
        assert bases(plan()) == {1: "measured", 2: "measured"}

        asset = json.loads(
            jobs(
                "upload", str(digits(tmp_path / "digits")), "--to", "prepared/digits", "--json"
            ).out
        )["asset"]
        commission = (
            *("commission", "--data", asset, "--steps", "3000", "--cap", "50", "--json"),
            *("--training", *SMALL, "--submit", POLL, "resubmit.backoff-seconds=1"),
            *("--scaling", *SWEEP),
        )
        refused = jobs(*commission, "--", *PROGRAM, status=1)
        assert "pass --yes" in refused.err
        assert jobs(*commission, "--cap", "0.1", "--yes", "--", *PROGRAM, status=1).out == ""
        first = patiently(cloud.start(*commission, "--yes", "--", *PROGRAM, repository=clone))
        states, found = facts(first)
        assert states == {
            "preflight": ("as expected", "right"),
            "smoke job": ("as expected", "right"),
            # Nobody has InfiniBand here, and a CPU is slower than what is predicted of a GPU.
            "cluster check": ("different", "right"),
            "scaling": ("different", "wrong"),
            "plan": ("as expected", "-"),
            "training": ("as expected", "right"),
            "rank killed": ("as expected", "right"),
            "cancel": ("as expected", "right"),
            "pre-emption": ("not seen", "not seen"),
        }, found
        assert "points measured already" in first.err
        page = (clone / "commission" / "dev" / "first" / "facts.html").read_text()
        assert "guesses that were wrong: scaling" in page

        before = cloud.job_names()
        patiently(cloud.start(*commission, "--yes", "--", *PROGRAM, repository=clone))
        # Only what was different runs again.
        new = {name for name in cloud.job_names() if name not in before}
        assert new == {"first-check-r2"}

        jobs(*commission, "--teardown")
        store = cloud.outputs.datastores.results
        blobs = cloud.azure.blobs.container(store.account, store.container)
        assert not list(blobs.list_blob_names(name_starts_with="runs/first-"))
        assert (clone / "commission" / "dev" / "first" / "facts.json").exists()
