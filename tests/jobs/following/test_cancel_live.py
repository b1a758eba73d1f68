"""Runs on the simulator are cancelled, by us and by others, while they are followed."""

import pytest

from jobs.azure.job_records import Jobs
from jobs.cli import main
from jobs.commands import cancel
from jobs.commands.cancel import CancelOptions
from jobs.following import supervisor
from tests.jobs.support.following import AGAIN, QUICK, failed_by_pre_emption
from tests.jobs.support.tiny import (
    begin,
    meanwhile,
    running,
    status,
    wait_for,
)

pytestmark = pytest.mark.usefixtures("outputs")


def cancelled(live, run):
    """Cancel a run while it is followed."""
    assert cancel.run(CancelOptions(run), live.outputs, as_json=False) == 0


def test_what_someone_else_cancels_stops_with_20(live, capsys):
    job = begin(live, "ended", "sleep 600")
    meanwhile(running(live, job), lambda: live.azure.scheduler.cancel(job))
    assert main(["follow", "ended", *QUICK, *AGAIN]) == 20
    assert "cancelled by another user or by Azure" in capsys.readouterr().out


def test_what_we_cancel_stops_all_who_supervise_whatever_they_opted_for(live, capsys):
    job = begin(live, "stopped", "sleep 600")
    meanwhile(
        running(live, job),
        lambda: cancelled(live, "stopped"),
    )
    assert main(["follow", "stopped", *QUICK, *AGAIN, "--resubmit.canceled", "True"]) == 20
    assert "cancelled by `cancel`" in capsys.readouterr().out


def test_what_we_cancel_between_two_attempts_has_no_next_one(live, capsys, monkeypatch):
    monkeypatch.setattr(supervisor, "LOOK_SECONDS", 0.2)
    job = begin(live, "paused", "sleep 600", cluster=live.outputs.clusters["gpu"])
    meanwhile(
        running(live, job),
        lambda: live.azure.admin.preempt(job=job),
        lambda: wait_for(lambda: status(live, job) == "Failed"),
        lambda: cancelled(live, "paused"),
    )
    pause = ["--supervise", "--resubmit.backoff-seconds", "60"]
    assert main(["follow", "paused", *QUICK, *pause]) == 20
    assert "attempt 2 of 5 follows, in 60 s" in capsys.readouterr().out
    assert live.azure.resources.get(job.replace("-r1", "-r2")) is None


@pytest.mark.parametrize("deleted", [("r1",), ("r1", "r2", "r3")])
def test_a_run_whose_first_attempts_were_deleted_in_the_studio_is_reached(live, capsys, deleted):
    run = f"beheaded{len(deleted)}"
    newest = begin(live, run, "sleep 600", number=len(deleted) + 1)
    running(live, newest)()
    # Nothing is left of the others, as if they had never been.
    assert all(live.azure.resources.get(f"{newest[:-1]}{name[-1]}") is None for name in deleted)
    assert main(["status"]) == 0
    assert run in capsys.readouterr().out
    cancelled(live, run)
    assert status(live, newest) == "Canceled"
    assert main(["follow", run, *QUICK]) == 20


def test_an_old_attempts_name_cancels_the_run(live, capsys):
    failed_by_pre_emption(live, "p1")
    second = begin(live, "p1", "sleep 600", number=2)
    wait_for(lambda: status(live, second) == "Running")
    assert main(["cancel", "p1-r1"]) == 0
    assert "p1-r2: Canceled" in capsys.readouterr().out
    assert "canceled_by" in live.azure.resources.get(second)["properties"]["tags"]


def test_an_attempt_that_comes_while_the_run_is_marked_is_cancelled_too(live, capsys, monkeypatch):
    failed_by_pre_emption(live, "p2")
    second = f"{live.workspace}/jobs/p2-r2"
    real = cancel._mark

    def mark(console, jobs, job):
        if job.name == "p2-r1":
            begin(live, "p2", "sleep 600", number=2)
        return real(console, jobs, job)

    monkeypatch.setattr(cancel, "_mark", mark)
    assert main(["cancel", "p2"]) == 0
    assert "p2-r2: Canceled" in capsys.readouterr().out
    assert "canceled_by" in live.azure.resources.get(second)["properties"]["tags"]


def test_a_mark_that_changed_nothing_is_set_by_the_documented_way(live, capsys, monkeypatch):
    job = begin(live, "guess", "true", kind="check")
    wait_for(lambda: status(live, job) == "Completed")
    monkeypatch.setattr(Jobs, "tag", lambda *_: None)
    monkeypatch.setattr(cancel, "ARRIVAL_SECONDS", 0.0)
    assert main(["cancel", "guess"]) == 0
    assert "canceled_by" in live.azure.resources.get(job)["properties"]["tags"]
