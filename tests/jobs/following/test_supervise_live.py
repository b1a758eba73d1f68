"""Runs on the simulator that lose their nodes, with and without a supervisor."""

import pytest

from common.errors import INTERRUPTED
from jobs.azure.workspace import connect
from jobs.cli import main
from jobs.following.supervision_policy import mark
from jobs.following.supervisor import Supervisor
from jobs.options import ResubmitOptions
from tests.jobs.support.following import AGAIN, ONCE, QUICK, failed_by_pre_emption, touched
from tests.jobs.support.runs import content
from tests.jobs.support.tiny import (
    TRAINED,
    begin,
    meanwhile,
    running,
    wait_for,
)

pytestmark = pytest.mark.usefixtures("outputs")


def test_a_run_that_is_pre_empted_twice_goes_on_until_it_has_trained(live, capsys):
    gpu = live.outputs.clusters["gpu"]
    count = (
        'n=$(cat "${{outputs.run}}/n" 2>/dev/null || echo 0); echo $((n+1)) > "${{outputs.run}}/n"'
    )
    job = begin(
        live,
        "night",
        f"{count}; echo life $n; if [ $n -lt 2 ]; then sleep 600; fi; {TRAINED}",
        cluster=gpu,
    )
    second = job.replace("-r1", "-r2")

    def taken(one):
        return [
            running(live, one),
            lambda: wait_for(lambda: written(live, "night", one)),
            lambda: live.azure.admin.preempt(job=one),
        ]

    meanwhile(*taken(job), *taken(second))
    assert main(["follow", "night", *QUICK, *AGAIN]) == 0
    text = capsys.readouterr().out
    assert text.count("PreemptionError") >= 2
    assert "attempt 2 of 5 follows" in text
    assert [f"life {n}" in text for n in range(3)] == [True] * 3
    manager = connect(live.outputs).manager
    third, first = (manager.get(f"jobs/night-{one}")["properties"] for one in ("r3", "r1"))
    assert third["tags"]["attempt"] == "3"
    assert third["tags"]["run"] == "night"
    for key in ("command", "computeId", "environmentId", "limits", "resources", "distribution"):
        assert third[key] == first[key]
    assert third["outputs"]["run"] == first["outputs"]["run"]
    assert main(["status"]) == 0
    (line,) = [x for x in capsys.readouterr().out.splitlines() if x.startswith("night ")]
    assert "Completed" in line
    assert "Failed, Failed" in line


def written(live, run, job):
    """Whether the running attempt's file that counts its starts is in storage."""
    count = content(live, f"runs/{run}/n")
    return count is not None and count.decode().strip() == job[-1]


def test_without_supervision_a_pre_empted_run_is_not_submitted_again(live, capsys):
    job = begin(live, "alone", "sleep 600", cluster=live.outputs.clusters["gpu"])
    meanwhile(running(live, job), lambda: live.azure.admin.preempt(job=job))
    assert main(["follow", "alone", *QUICK]) == 21
    assert "python -m jobs follow alone --supervise` submits it again" in capsys.readouterr().out
    assert live.azure.resources.get(job.replace("-r1", "-r2")) is None


def test_a_job_that_azure_begins_anew_in_its_place_is_followed_through(live, capsys):
    once = f"{ONCE}; then echo first; sleep 600; fi"
    job = begin(
        live, "anew", f"{once}; echo second; {TRAINED}", cluster=live.outputs.clusters["gpu"]
    )
    meanwhile(
        running(live, job),
        lambda: wait_for(lambda: touched(live, "anew")),
        lambda: live.azure.admin.preempt(job=job, manner="restart"),
    )
    assert main(["follow", "anew", *QUICK]) == 0
    text = capsys.readouterr().out
    assert "second" in text
    assert "anew-r1: training completed" in text
    assert live.azure.resources.get(job.replace("-r1", "-r2")) is None


def test_a_job_that_azure_cancels_without_a_word_goes_on_if_asked(live, capsys):
    once = f"{ONCE}; then sleep 600; fi"
    job = begin(live, "mute", f"{once}; {TRAINED}")
    meanwhile(
        running(live, job),
        lambda: wait_for(lambda: touched(live, "mute")),
        lambda: live.azure.admin.preempt(job=job, manner="cancel"),
    )
    assert main(["follow", "mute", *QUICK, *AGAIN]) == 20
    assert "--resubmit.canceled True submits such a run again" in capsys.readouterr().out
    assert main(["follow", "mute", *QUICK, *AGAIN, "--resubmit.canceled", "True"]) == 0
    assert "mute-r2: submitted" in capsys.readouterr().out


def test_ctrl_c_after_the_submission_says_that_the_next_attempt_runs(live, capsys, monkeypatch):
    failed_by_pre_emption(live, "called")

    def interrupted(_supervisor, _job, event, _reason):
        assert event == "resubmitted"
        raise KeyboardInterrupt

    monkeypatch.setattr(Supervisor, "_notify", interrupted)
    assert main(["follow", "called", *QUICK, *AGAIN]) == INTERRUPTED
    err = capsys.readouterr().err
    assert "the job continues in Azure" in err
    assert "has ended" not in err
    assert main(["cancel", "called"]) == 0


@pytest.mark.parametrize(("marked", "options"), [(1, []), (9, ["--resubmit.attempts", "1"])])
def test_without_options_those_of_the_submission_hold(live, capsys, marked, options):
    run = f"as-submitted-{marked}"
    failed_by_pre_emption(live, run, tags=mark(ResubmitOptions(attempts=marked)))
    assert main(["follow", run, *QUICK, "--supervise", *options]) == 21
    assert "allows only 1 attempts" in capsys.readouterr().out
