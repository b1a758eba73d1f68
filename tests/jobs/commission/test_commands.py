"""How a commissioning runs its commands, and continues a step that was interrupted."""

import json
import sys

import pytest

from common.errors import ConfigError
from jobs.azure.job_records import CANCELED_BY, Details, Job
from jobs.commission.command import Commissioning
from jobs.commission.facts import Fact, Record
from jobs.commission.options import CommissionOptions
from jobs.commission.steps import Output, steps
from jobs.console import PLATFORM, Console
from tests.jobs.support.platform import platform

STEPS = {step.name: step for step in steps(CommissionOptions(data="imagenet:3"), (), {})}
COMPLETED = Output(0, {"reason": "training completed", "attempts": 1})
TALKATIVE = """#!{python}
import json, sys
print(json.dumps({{"arguments": sys.argv[1:], "padding": "x" * 200_000}}))
print("the last note", file=sys.stderr)
sys.exit(3)
"""


class Workspace:
    """A workspace with one attempt of every run, or none, and its events."""

    def __init__(self, status=None, events=(), cancelled=0):
        self.attempt, self.events, self.cancelled = status, list(events), cancelled
        self.jobs, self.storage, self.manager = self, self, self
        self.datastores = platform().datastores

    def attempts(self, run):
        if self.attempt is None:
            return ()
        tags = {"run": run}
        gone = [
            Job(f"{run}-r{number}", "Canceled", "gpu", 2, None, None,
                {**tags, CANCELED_BY: "commission"})
            for number in range(1, self.cancelled + 1)
        ]  # fmt: skip
        if self.attempt == "Canceled":
            return tuple(gone)
        last = f"{run}-r{self.cancelled + 1}"
        return (*gone, Job(last, self.attempt, "gpu", 2, None, None, tags))

    def details(self, _):
        return Details(self.attempt)

    def read(self, *_):
        return "\n".join(map(json.dumps, self.events)).encode()


@pytest.fixture
def commissioning(tmp_path):
    """Returns a commissioning on a workspace, whose record is in a folder of the test."""

    def made(workspace=None, **facts):
        record = Record(tmp_path / "facts.json", {f"{key} job": one for key, one in facts.items()})
        options = CommissionOptions(wait_minutes=0.0005)
        return Commissioning(options, platform(), workspace or Workspace(), Console(), record)

    return made


@pytest.fixture
def answers(monkeypatch):
    """What each command answers, by its name, and the commands that were called."""
    found, called = {}, []

    def call(_, verb, *arguments):
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
    output = commissioning()._call("stacks", "first-cancelled")
    assert (output.status, output.text) == (3, "the last note")
    assert output.answer["arguments"][:4] == ["-m", "jobs", "stacks", "--json"]
    assert output.answer["arguments"][-1] == "first-cancelled"
    assert len(output.answer["padding"]) == 200_000


@pytest.mark.parametrize(
    ("before", "attempt", "wanted"),
    [
        (Fact("begun", ""), "Completed", ["follow"]),
        (Fact("begun", ""), None, ["submit"]),
        (Fact("different", "", status=25), "Failed", ["follow"]),
        (Fact("different", "", status=1), "Failed", ["submit"]),
        (Fact("different", "", status=1), "Running", ["follow"]),
        (None, None, ["submit"]),
    ],
    ids=["begun", "not submitted", "unknown end", "known end", "running", "new"],
)
def test_a_job_whose_end_was_not_seen_is_followed_and_not_repeated(
    before, attempt, wanted, commissioning, answers
):
    found, called = answers
    found |= {"follow": COMPLETED, "submit": COMPLETED}
    facts = {} if before is None else {"smoke": before}
    commissioning(Workspace(attempt), **facts).run([STEPS["smoke job"]])
    assert verbs(called) == wanted
    if wanted == ["follow"]:
        # As `submit` would have continued.
        assert called[0] == ("follow", "first-smoke", "--supervise", "--resubmit.attempts", "3")


def test_a_job_that_does_not_train_in_time_is_cancelled_and_not_left_running(
    commissioning, answers, tmp_path
):
    found, called = answers
    found |= {"submit": Output(0, {}), "cancel": Output(0, {})}
    commissioning(Workspace("Queued")).run([STEPS["cancel"]])
    assert verbs(called) == ["cancel"]
    fact = Record.read(tmp_path / "facts.json").facts["cancel"]
    assert fact.state == "different"
    assert "did not train within 0.0005 minutes; it was cancelled" in fact.found


def test_a_run_is_cancelled_once_it_trains_and_continued_by_the_same_submit(commissioning, answers):
    found, called = answers
    found |= {"submit": COMPLETED, "cancel": Output(0, {})}
    events = [{"event": "start", "step": 0}, {"event": "train", "step": 5, "time": 1.0}]
    commissioning(Workspace("Running", events)).run([STEPS["cancel"]])
    assert verbs(called) == ["cancel", "submit"]


@pytest.mark.parametrize(
    ("attempt", "cancelled", "wanted"),
    [
        ("Completed", 1, ["follow"]),
        ("Completed", 0, ["follow"]),
        ("Running", 1, ["follow"]),
        ("Canceled", 1, ["submit"]),
    ],
    ids=["continued and completed", "completed in one", "continues", "cancelled"],
)
def test_an_interrupted_cancel_submits_nothing_that_was_submitted_before(
    attempt, cancelled, wanted, commissioning, answers, tmp_path
):
    found, called = answers
    found |= {"follow": COMPLETED, "submit": COMPLETED}
    made = commissioning(Workspace(attempt, cancelled=cancelled))
    made._record.facts["cancel"] = Fact("begun", "")
    made.run([STEPS["cancel"]])
    assert verbs(called) == wanted


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
    output = commissioning()._call("plan")
    PLATFORM.reset(token)
    assert output.answer["arguments"] == ["-m", "jobs", "plan", "--json", *words]
