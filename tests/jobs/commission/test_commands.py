"""How a commissioning runs its commands, and goes on with a step that was interrupted."""

import sys

import pytest

from common.errors import ConfigError
from jobs.commission.command import Commissioning, CommissionOptions
from jobs.commission.record import Fact, Record
from jobs.commission.steps import Output, Wishes, steps
from jobs.console import PLATFORM, Console
from tests.jobs.support.platform import platform

STEPS = {
    step.name: step
    for step in steps(Wishes("first", "imagenet-ndv2", None, "imagenet:3", 2000, ()), 0.5, 3)
}
COMPLETED = Output(0, {"reason": "training completed", "attempts": 1}, "")
MISSING = Output(1, None, "error: there is no job or run of this name")
UNKNOWN = Output(25, None, "error: how first-smoke ends is unknown")
RUNS_YET = Output(22, None, "error: run first-smoke: first-smoke-r1 has not ended (Running)")
TALKATIVE = """#!{python}
import json, sys
print(json.dumps({{"arguments": sys.argv[1:], "padding": "x" * 200_000}}))
print("the last note", file=sys.stderr)
sys.exit(3)
"""


@pytest.fixture
def commissioning(tmp_path):
    """A commissioning whose record is in a folder of the test."""
    record = Record(tmp_path / "facts.json")
    options = CommissionOptions(wait_minutes=0.0005)
    return Commissioning(options, platform(), Console(), record)


@pytest.fixture
def answers(monkeypatch):
    """What each command answers, by its name, and the commands that were called."""
    found, called = {}, []

    def call(_, verb, *arguments, quiet=False):
        called.append((verb, *arguments))
        return found[verb]

    monkeypatch.setattr(Commissioning, "_call", call)
    return found, called


def verbs(called):
    return [verb for verb, *_ in called]


@pytest.mark.parametrize("name", ["", "my first", "../first", "f" * 41])
def test_a_name_that_no_run_can_have_is_refused_before_anything_runs(name):
    with pytest.raises(ConfigError, match="--name"):
        CommissionOptions(name)


@pytest.fixture
def talkative(tmp_path, monkeypatch):
    """A program in place of Python, which prints its arguments and much more."""
    program = tmp_path / "python"
    program.write_text(TALKATIVE.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(program))


def test_a_command_whose_document_is_longer_than_a_pipe_ends(commissioning, talkative):
    output = commissioning._call("stacks", "first-cancelled", quiet=True)
    assert (output.status, output.text) == (3, "the last note")
    assert output.answer["arguments"][:4] == ["-m", "jobs", "stacks", "--json"]
    assert output.answer["arguments"][-1] == "first-cancelled"
    assert len(output.answer["padding"]) == 200_000


@pytest.mark.parametrize(
    ("before", "followed", "wanted"),
    [
        (Fact("begun", ""), COMPLETED, ["follow"]),
        (Fact("begun", ""), MISSING, ["follow", "submit"]),
        (Fact("begun", ""), UNKNOWN, ["follow"]),
        (Fact("different", "", status=25), COMPLETED, ["follow"]),
        (Fact("different", "", status=1), COMPLETED, ["submit"]),
        (None, COMPLETED, ["submit"]),
    ],
    ids=["begun", "not submitted", "unreachable", "unknown end", "known end", "new"],
)
def test_a_job_whose_end_nobody_saw_is_followed_and_not_repeated(
    before, followed, wanted, tmp_path, answers
):
    found, called = answers
    found |= {"follow": followed, "submit": COMPLETED}
    record = Record(tmp_path / "facts.json", {} if before is None else {"smoke job": before})
    Commissioning(CommissionOptions(), platform(), Console(), record).go([STEPS["smoke job"]])
    assert verbs(called) == wanted
    if wanted[0] == "follow":
        # As `submit` would have gone on.
        assert called[0] == ("follow", "first-smoke", "--supervise", "--resubmit.attempts", "3")


def test_a_job_that_still_runs_is_followed_where_it_cannot_be_submitted_again(
    commissioning, answers
):
    found, called = answers
    found |= {"submit": RUNS_YET, "follow": COMPLETED}
    commissioning.go([STEPS["smoke job"]])
    assert verbs(called) == ["submit", "follow"]


def test_a_job_that_does_not_train_in_time_is_cancelled_and_not_left_running(
    commissioning, answers, tmp_path
):
    found, called = answers
    queued = Output(1, None, "error: no rank runs yet (Queued); try again when it is running")
    found |= {"submit": Output(0, {}, ""), "stacks": queued, "cancel": Output(0, {}, "")}
    commissioning.go([STEPS["cancel"]])
    assert called[-1] == ("cancel", "first-cancelled")
    assert verbs(called).count("submit") == 1
    fact = Record.read(tmp_path / "facts.json").facts["cancel"]
    assert fact.state == "different"
    assert "did not train within 0.0005 minutes; it was cancelled" in fact.found


@pytest.mark.parametrize(
    ("given", "file", "words"),
    [((), None, ["--stack", "dev"]), ((), "dev.json", ["--outputs", "dev.json"]),
     (("--stack", "prod"), "dev.json", ["--stack", "prod"])],
    ids=["neither", "variable", "option"],
)  # fmt: skip
def test_each_command_names_the_platform_without_which_a_plan_has_no_stack(
    commissioning, talkative, monkeypatch, given, file, words
):
    monkeypatch.delenv("JOBS_OUTPUTS", raising=False)
    if file is not None:
        monkeypatch.setenv("JOBS_OUTPUTS", file)
    token = PLATFORM.set(given)
    output = commissioning._call("plan", quiet=True)
    PLATFORM.reset(token)
    assert output.answer["arguments"] == ["-m", "jobs", "plan", "--json", *words]
