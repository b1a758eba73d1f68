"""Supervisors of runs whose jobs, clusters and clocks are in memory."""

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from common.errors import UserError
from common.prices import NodePrices
from jobs.azure.job_records import Details, read_job
from jobs.console import Console
from jobs.exit_status import NOT_RESUBMITTED
from jobs.following import follower, supervisor
from jobs.following.follower import FollowSettings
from jobs.following.notices import Notifier
from jobs.following.rates import Rates
from jobs.following.supervisor import Supervisor
from jobs.leaf import MOVED, Place
from jobs.options import ResubmitOptions
from jobs.spec.budget_policy import Budget
from tests.jobs.support.platform import platform

GPU = platform().clusters["gpu"]
BEGUN = datetime(2026, 1, 5, 12, tzinfo=UTC)
AT_ONCE = ResubmitOptions(backoff_seconds=0.0)


class Azure:
    """Jobs of a workspace and the nodes of its clusters, and a clock that only pauses advance."""

    def __init__(self):
        self.seconds = self.slept = 0.0
        self.jobs_by_name, self.details_by_name, self.idle = {}, {}, 0
        self.cancelled = []
        self.jobs = SimpleNamespace(
            get=self.jobs_by_name.get, attempts=self._attempts, details=self._details,
            put=self.put, cancel=self.cancelled.append,
            read_log=lambda *_: b"",
        )  # fmt: skip
        self.manager = SimpleNamespace(get=self._cluster, now=self.now)
        self.storage = None

    def now(self):
        return BEGUN + timedelta(seconds=self.seconds + self.slept)

    def put(self, name, properties):
        known = self.jobs_by_name.get(name)
        # A further attempt completes at once.
        body = {"status": "Completed", **(known.body if known else {}), **properties}
        job = read_job({"name": name, "properties": body})
        self.jobs_by_name[name] = job
        self.details_by_name.setdefault(name, [Details(job.status)])
        return job

    def add(self, name, *details, tags=None, **properties):
        """Add an attempt that has these details at one look after the other."""
        self.details_by_name[name] = list(details)
        run, _, number = name.rpartition("-r")
        return self.put(name, {
            "status": details[-1].status, "command": "python train.py",
            "computeId": f"/computes/{GPU.name}",
            "tags": {"run": run, "attempt": number, "kind": "train", **(tags or {})},
            **properties,
        })  # fmt: skip

    def tag(self, name, **tags):
        job = self.jobs_by_name[name]
        self.jobs_by_name[name] = replace(job, tags={**job.tags, **tags})

    def supervisor(self, options=AT_ONCE, **settings):
        rates = Rates(NodePrices, pytest.fail, lambda: self.seconds)
        return Supervisor(
            self, {"gpu": GPU}, Console(), FollowSettings(**settings), options, True, rates=rates
        )

    def _attempts(self, run):
        return tuple(job for job in self.jobs_by_name.values() if job.run == run)

    def _details(self, name):
        own = self.details_by_name[name]
        return own.pop(0) if len(own) > 1 else own[0]

    def _cluster(self, _path):
        counts = {"idleNodeCount": self.idle, "preemptedNodeCount": 1}
        return {
            "name": GPU.name,
            "properties": {"properties": {"currentNodeCount": 3, "nodeStateCounts": counts}},
        }


@pytest.fixture
def azure(monkeypatch):
    azure = Azure()

    def sleep(seconds):
        azure.seconds += seconds

    monkeypatch.setattr(time, "sleep", sleep)
    # This clock stops while the machine is suspended.
    monkeypatch.setattr(time, "monotonic", lambda: azure.seconds)
    monkeypatch.setattr(supervisor, "is_trained", lambda *_: False)
    return azure


RUNNING = Details("Running", started=BEGUN)


def ended(status, seconds, *messages):
    return Details(status, BEGUN, BEGUN + timedelta(seconds=seconds), messages)


def test_a_machine_that_was_suspended_does_not_take_a_cancel_for_a_pre_emption(azure, monkeypatch):
    job = azure.add("slept-r1", RUNNING, ended("Canceled", 3600))

    def suspended(seconds):
        azure.seconds += seconds
        azure.slept = 7200

    monkeypatch.setattr(time, "sleep", suspended)
    result = azure.supervisor().follow(job)
    assert "without evidence of pre-emption" in result.reason
    assert result.attempts == 1


def test_a_run_that_is_cancelled_before_the_request_of_its_next_attempt_has_none(
    azure, monkeypatch
):
    job = azure.add("late-r1", RUNNING, ended("Failed", 60, "PreemptionError"))
    get, sent = azure.jobs.get, []

    def looked_up(name):
        if name == "late-r2":
            azure.tag("late-r1", canceled_by="a@b.c")
        return get(name)

    def put(name, properties):
        sent.append(name)
        return azure.put(name, properties)

    monkeypatch.setattr(azure.jobs, "get", looked_up)
    monkeypatch.setattr(azure.jobs, "put", put)
    assert azure.supervisor().follow(job).reason == "cancelled by `cancel`"
    assert sent == []


class Leaves:
    """Moves of a run that is to leave its place, whatever it is."""

    clusters = (GPU.name,)

    def __init__(self, meanwhile=lambda: None):
        self.meanwhile, self.available = meanwhile, None

    def leave(self, _attempts, _now):
        self.meanwhile()
        return "down: it waits"

    def place(self, _attempts, available, _now):
        self.available = dict(available)
        return Place(GPU.name, 1, 1, 8, {})


def test_a_run_that_is_cancelled_meanwhile_is_not_moved_and_keeps_its_mark(azure, monkeypatch):
    job = azure.add("stays-r1", RUNNING)
    moves = Leaves(lambda: azure.tag("stays-r1", canceled_by="a@b.c"))
    monkeypatch.setattr(supervisor, "moves_of", lambda _: moves)
    assert azure.supervisor().review(job) is None
    assert azure.jobs.get("stays-r1").canceled_by_us
    assert azure.cancelled == []


def test_a_notice_keeps_the_mark_that_came_meanwhile(azure):
    listed = azure.add("told-r1", ended("Failed", 60))
    azure.tag("told-r1", canceled_by="a@b.c")
    Notifier(azure.jobs, None, "dev", Console()).tell(listed, "failed", "its own error")
    assert azure.jobs.get("told-r1").tags.keys() >= {"canceled_by", "outcome"}


def test_an_attempt_of_unknown_length_is_not_counted_as_free(azure):
    budget = Budget(50, "USD", 2.0, nodes=1)
    job = azure.add(
        "paid-r1", Details("Failed", BEGUN, messages=("PreemptionError",)), tags=budget.tags
    )
    with pytest.raises(UserError, match="paid-r1: its times cannot be read from here"):
        azure.supervisor().follow(job)


def test_only_idle_nodes_count_as_available_for_a_move(azure, monkeypatch):
    job, moves = azure.add("moves-r1", ended("Failed", 60, "PreemptionError")), Leaves()
    monkeypatch.setattr(supervisor, "moves_of", lambda _: moves)
    azure.idle = 1
    azure.supervisor().follow(job)
    assert moves.available == {GPU.name: 1}


@pytest.mark.parametrize(
    ("end", "code"), [(ended("Canceled", 60), 1), (ended("Failed", 60, "exit code: 3"), 3)]
)
def test_a_run_that_trained_on_after_a_move_was_asked_for_is_not_moved(azure, end, code):
    job = azure.add("half-r1", end, tags={MOVED: "down: it waits"})
    # A moved run has another attempt, which completes without a result.
    assert azure.supervisor().follow(job).exit_code == code


@pytest.mark.parametrize("tags", [{}, {MOVED: "down: it waits"}])
def test_a_run_has_no_attempt_after_the_last_number(azure, tags):
    end = ended("Canceled" if tags else "Failed", 60, "PreemptionError")
    result = azure.supervisor().follow(azure.add("many-r99", end, tags=tags))
    assert result.exit_code == NOT_RESUBMITTED
    assert "not submitted again, as a run has at most 99 attempts" in result.reason


@pytest.mark.parametrize("poll_seconds", [5.0, 60.0])
def test_the_nodes_are_looked_at_before_the_log_and_soon(azure, monkeypatch, poll_seconds):
    job = azure.add("seen-r1", RUNNING, ended("Canceled", 1))

    def slow(*_):
        azure.seconds += 60
        return b""

    monkeypatch.setattr(follower.Follower, "_show_last", slow)
    result = azure.supervisor(poll_seconds=poll_seconds).follow(job)
    assert result.job.name == "seen-r2"
