"""Foresight, from a plan to a measured one, and the first day on a platform, as a person has it."""

import json
import subprocess

import pytest

from rehearsal.pulumi.deployment import ROOT
from tests.rehearsal.scenarios.cloud import cloud_in, copy_of_the_repository
from tests.rehearsal.support.newcomer import blocks
from tests.rehearsal.support.waiting import until

pytestmark = pytest.mark.rehearse_all

NODES = ("--nodes", "1", "2")
PROGRAM = ("--batch-size", "2", "--compute.precision", "float32", "--compute.xla", "False")
POLL = "poll-seconds=0.3"
SMALL = (
    *("model.depth=18", "model.width=4", "model.image-size=8", "data.streams=4"),
    *("data.shuffle-window=50", "log.report=False", "evaluation.every-epochs=0"),
)
"""Options of runs that take seconds."""
SWEEP = ("steps=1", "repeat=1", POLL, "even-if-poor=True")
"""Nodes are processes without GPUs here, one for each node."""
MEASURED = {1: "measured", 2: "?"}
"""The basis of a plan once both points are measured. A point of two nodes counts only if it has all
of their GPUs, and these have one of eight; tests/jobs/extras/estimate has points of whole nodes.
"""


def flags(texts):
    return [word for text in texts for word in f"--{text}".split("=")]


def bases(command):
    """The basis of the figures of a plan, by number of nodes."""
    return {one["nodes"]: one["basis"] for one in json.loads(command.out)["choices"]}


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


@pytest.fixture(scope="module")
def platform(tmp_path_factory):
    """A deployed stack, and a copy of the repository whose folders the commands write to."""
    folder = tmp_path_factory.mktemp("foresight")
    clone = copy_of_the_repository(folder / "clone")
    with cloud_in(folder) as cloud:
        cloud.jobs("up", "--yes", "True", repository=clone)
        yield cloud, clone


def test_a_plan_rests_on_what_was_measured_even_if_nodes_of_a_point_are_lost(platform):
    cloud, clone = platform

    def plan():
        named = ("--stack", "dev", "--json", *NODES)
        return bases(cloud.jobs("plan", *named, "--", *PROGRAM, repository=clone))

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
    assert "of one node" in sweep.out
    assert plan() == MEASURED


MORE = {
    "submit": flags((POLL, "resubmit.backoff-seconds=1")),
    "scaling": [*flags(SWEEP), "--yes"],
    "plan": ["--json"],
}
"""Further options of commands, for nodes that are processes and for answers that are read."""


@pytest.fixture
def first_day(platform, tmp_path):
    """The commands of the page, in order, for nodes that are processes and a small data set."""
    cloud, clone = platform
    folder = digits(tmp_path / "digits")
    options = ("--to", "prepared/digits", "--json")
    asset = json.loads(cloud.jobs("upload", folder, *options, repository=clone).out)["asset"]
    (page,) = blocks("first-day-on-azure.md", "first day")
    page = page.replace("\\\n", " ").replace("imagenet:3", asset)

    def adapted(line):
        words, _, program = line.removeprefix(".venv/bin/python -m jobs ").partition(" -- ")
        verb, *given = words.split()
        small = () if "--kind" in given or "--preset" not in given else PROGRAM
        # Steps take milliseconds here; the run must still train when it is cancelled.
        data = flags((*SMALL, "max-steps=8000")) if "--max-steps" in program else ()
        after = [*program.split(), *small, *data]
        return [verb, *given, *MORE.get(verb, ()), *(["--", *after] if after else [])]

    return [adapted(line) for line in page.splitlines()]


def test_the_commands_of_the_first_day_end_as_their_page_says(platform, first_day):
    cloud, clone = platform
    *before, training, cancel, download, cost = first_day
    assert [command[0] for command in (training, cancel, download, cost)] == [
        *("submit", "cancel", "download", "cost")
    ]
    for command in before:
        # No node has InfiniBand here.
        status = 23 if "check" in command else 0
        done = cloud.jobs(*command, status=status, repository=clone)
        if command[0] == "plan":
            assert bases(done) == MEASURED
            assert "scaling/dev/day/points.jsonl" in done.words
    run = cloud.start(*training, repository=clone)
    run.wait_for_words("step    500")
    cloud.jobs(*cancel, repository=clone)
    assert run.wait() == 20, run.words
    cloud.jobs(*training, repository=clone)
    cloud.jobs(*download, repository=clone)
    metrics = (clone / "runs" / cancel[1] / "metrics.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in metrics]
    first, *_, last = (event["step"] for event in events if event["event"] == "start")
    assert first == 0 < last
    assert "day-train" in cloud.jobs(*cost, repository=clone).out
