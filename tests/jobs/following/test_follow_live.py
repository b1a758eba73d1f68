"""Jobs on the stand-in are followed to each possible end."""

import json
import subprocess
import sys
import threading

import pytest

from jobs.azure import requests
from jobs.azure.job_records import Jobs
from jobs.cli import main
from jobs.commands import cancel
from jobs.console import Console
from jobs.following import job_states, supervisor
from tests import ROOT
from tests.jobs.support.runs import content
from tests.jobs.support.tiny import (
    TRAINED,
    begin,
    interrupt,
    meanwhile,
    read_until,
    running,
    started,
    status,
    wait_for,
)

pytestmark = pytest.mark.usefixtures("outputs")

QUICK = ["--poll-seconds", "0.1"]
ONCE = 'if [ ! -e "${{outputs.run}}/n" ] && touch "${{outputs.run}}/n"'
AGAIN = ["--supervise", "--resubmit.backoff-seconds", "0.1"]


def test_a_run_that_trains_to_its_end_is_0_and_its_lines_are_shown(live, capsys):
    begin(live, "good", f"echo hello; {TRAINED}")
    assert main(["follow", "good", *QUICK]) == 0
    text = capsys.readouterr().out
    assert "hello" in text.splitlines()
    assert text.index("hello\n") < text.index("good-r1: completed")
    assert "good-r1: training completed" in text
    assert "python -m jobs download good" in text


def test_a_job_that_completes_without_its_result_is_no_success(live, capsys):
    begin(live, "empty", "echo nothing done")
    assert main(["follow", "empty", *QUICK]) == 1
    assert "the run has not trained all of its epochs" in capsys.readouterr().out


def test_a_preparation_has_no_result_to_look_for(live):
    begin(live, "prepared", "echo shards", kind="prepare")
    assert main(["follow", "prepared", *QUICK]) == 0


def test_a_program_that_fails_gives_status_last_lines_and_azures_words(live, capsys):
    begin(live, "broken", "echo the cause >&2; exit 3")
    assert main(["follow", "broken", *QUICK, "--rank", "7", *AGAIN]) == 3
    found = capsys.readouterr()
    assert "failed by its own error, so it is not submitted again" in found.out
    assert "last lines of user_logs/std_log_process_00.txt" in found.err
    assert "  the cause" in found.err
    assert "exited with status code 3" in found.err


def test_lines_of_all_ranks_say_whose_they_are(live, capsys):
    begin(live, "two", "echo I am $OMPI_COMM_WORLD_RANK", nodes=2, kind="check")
    assert main(["follow", "two", *QUICK, "--rank", "all"]) == 0
    text = capsys.readouterr().out
    assert "[0] I am 0" in text
    assert "[1] I am 1" in text


def test_a_run_for_a_program_is_one_document_on_stdout(live, capsys):
    begin(live, "document", TRAINED)
    assert main(["follow", "document", *QUICK, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["run"] == "document"
    assert found["exit_code"] == 0
    assert found["attempts"] == 1


def test_what_someone_else_cancels_stops_with_20(live, capsys):
    job = begin(live, "ended", "sleep 600")
    meanwhile(running(live, job), lambda: live.azure.scheduler.cancel(job))
    assert main(["follow", "ended", *QUICK, *AGAIN]) == 20
    assert "cancelled by another user or by Azure" in capsys.readouterr().out


def test_what_we_cancel_stops_all_who_supervise_whatever_they_opted_for(live, capsys):
    job = begin(live, "stopped", "sleep 600")
    cancel = [sys.executable, "-m", "jobs", "cancel", "stopped"]
    meanwhile(
        running(live, job),
        lambda: subprocess.run(cancel, env=live.environment, cwd=ROOT, check=True),
    )
    assert main(["follow", "stopped", *QUICK, *AGAIN, "--resubmit.canceled", "True"]) == 20
    assert "cancelled by `cancel`" in capsys.readouterr().out


def test_what_we_cancel_between_two_attempts_has_no_next_one(live, capsys, monkeypatch):
    monkeypatch.setattr(supervisor, "LOOK_SECONDS", 0.2)
    job = begin(live, "paused", "sleep 600", cluster=live.outputs.clusters["gpu"])
    cancel = [sys.executable, "-m", "jobs", "cancel", "paused"]
    meanwhile(
        running(live, job),
        lambda: live.azure.admin.preempt(job=job),
        lambda: wait_for(lambda: status(live, job) == "Failed"),
        lambda: subprocess.run(cancel, env=live.environment, cwd=ROOT, check=True),
    )
    pause = ["--supervise", "--resubmit.backoff-seconds", "60"]
    assert main(["follow", "paused", *QUICK, *pause]) == 20
    assert "attempt 2 of 5 follows, in 60 s" in capsys.readouterr().out
    assert live.azure.resources.get(job.replace("-r1", "-r2")) is None


def test_a_network_that_is_cut_in_the_pause_is_waited_for(live, capsys, monkeypatch):
    monkeypatch.setattr(requests, "RETRIES", 0)
    once = f"{ONCE}; then sleep 600; fi"
    job = begin(live, "gap", f"{once}; {TRAINED}", cluster=live.outputs.clusters["gpu"])
    meanwhile(
        running(live, job),
        lambda: wait_for(lambda: touched(live, "gap")),
        # The first look at a run is not repeated.
        lambda: wait_for(lambda: asked(live, "gap-r1/details")),
        lambda: live.azure.admin.fault("(GET|PUT) .*/jobs/gap-r", status=503, times=4),
        lambda: live.azure.admin.preempt(job=job),
    )
    assert main(["follow", "gap", *QUICK, *AGAIN]) == 0
    assert "gap-r2: training completed" in capsys.readouterr().out


def test_a_time_out_is_told_with_the_option(live, capsys):
    begin(live, "late", "sleep 600", timeout="PT1S")
    assert main(["follow", "late", *QUICK, *AGAIN]) == 20
    assert "--timeout-hours" in capsys.readouterr().out


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
    third = live.azure.resources.get(f"{live.workspace}/jobs/night-r3")["properties"]
    first = live.azure.resources.get(job)["properties"]
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


def test_two_who_supervise_ask_for_the_same_job(live, capsys):
    once = f"{ONCE}; then sleep 600; fi"
    job = begin(live, "both", f"{once}; {TRAINED}", cluster=live.outputs.clusters["gpu"])
    other = subprocess.Popen(
        [sys.executable, "-m", "jobs", "follow", "both", *QUICK, *AGAIN],
        cwd=ROOT, env=live.environment, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    first = other.stdout.readline()
    assert "both-r1" in first
    meanwhile(
        running(live, job),
        lambda: wait_for(lambda: touched(live, "both")),
        lambda: live.azure.admin.preempt(job=job),
    )
    assert main(["follow", "both", *QUICK, *AGAIN]) == 0
    text = capsys.readouterr().out + other.communicate(timeout=120)[0]
    assert other.returncode == 0
    # The slower one finds the job there, or even the run trained.
    assert "both-r2: submitted" in text
    assert live.azure.resources.get(job.replace("-r1", "-r3")) is None


def touched(live, run):
    return content(live, f"runs/{run}/n") is not None


def test_a_job_that_never_leaves_the_queue_is_explained(live, capsys, monkeypatch):
    gpu = live.outputs.clusters["gpu"]
    monkeypatch.setattr(job_states, "HINT_SECONDS", (0.3, 3600.0))
    live.azure.admin.capacity(f"{live.workspace}/computes/{gpu.name}", 0)
    try:
        job = begin(live, "waits", "true", cluster=gpu, nodes=2)
        meanwhile(
            lambda: wait_for(lambda: asked(live, "/usages")),
            lambda: live.azure.scheduler.cancel(job),
        )
        assert main(["follow", "waits", *QUICK]) == 20
    finally:
        live.azure.admin.capacity(f"{live.workspace}/computes/{gpu.name}", None)
    text = capsys.readouterr().out
    assert f"queued, waiting for 2 nodes of {gpu.name}" in text
    assert "still queued after" in text
    assert f"{gpu.name} has " in text
    assert "a region may have none for hours" in text


def asked(live, path):
    return any(path in request.path for request in live.azure.requests)


@pytest.mark.slow
def test_a_network_that_is_cut_in_the_middle_loses_no_line(live, capsys, monkeypatch, tmp_path):
    go, told = tmp_path / "go", threading.Event()
    note = Console.note

    def noting(console, text):
        note(console, text)
        if "Azure responds again" in text:
            told.set()

    monkeypatch.setattr(Console, "note", noting)
    # It ends when it was asked through an outage, however long that takes.
    lines = "for i in $(seq %s); do echo line $i; sleep 0.02; done"
    wait = f"until [ -e {go} ]; do sleep 0.02; done"
    job = begin(live, "cut", f"{lines % '1 20'}; {wait}; {lines % '21 40'}; {TRAINED}")
    meanwhile(
        running(live, job),
        lambda: live.azure.admin.fault("GET .*/details", cut=True, times=4),
        told.wait,
        lambda: live.azure.admin.fault("GET .*/details", status=500, times=1),
        live.azure.admin.kill_blob_server,
        live.azure.admin.start_blob_server,
        go.touch,
    )
    assert main(["follow", "cut", *QUICK]) == 0
    said = capsys.readouterr()
    shown = [line for line in said.out.splitlines() if line.startswith("line ")]
    assert shown == [f"line {number}" for number in range(1, 41)]
    assert "no response from Azure; retrying, a running job is not affected" in said.err
    assert "Azure responds again" in said.err


def test_a_network_that_stays_cut_ends_following_and_not_the_job(live, capsys):
    job = begin(live, "far", "sleep 600")
    wait_for(lambda: status(live, job) == "Running")
    live.azure.admin.fault("GET .*/details", cut=True, times=None)
    try:
        assert main(["follow", "far", *QUICK, "--retry-timeout-minutes", "0.01"]) == 25
        said = capsys.readouterr().err
        assert "no response" in said
        assert "the job continues in Azure" in said
        assert "`python -m jobs follow far` resumes this" in said
        assert status(live, job) == "Running"
    finally:
        live.azure.admin.clear_faults()
        live.azure.scheduler.cancel(job)


def test_logs_of_a_job_that_has_ended_and_of_one_that_runs(live, capsys):
    begin(live, "said", "echo rank $OMPI_COMM_WORLD_RANK; echo oops >&2", nodes=2, kind="check")
    assert main(["logs", "said", "--rank", "all", "--follow", "--json", *QUICK]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {"rank": 1, "line": "rank 1"} in found
    assert main(["logs", "said", "--rank", "1"]) == 0
    assert set(capsys.readouterr().out.splitlines()) == {"rank 1", "oops"}
    assert main(["logs", "said", "--rank", "all", "--json"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {"rank": 0, "line": "rank 0"} in found
    assert main(["logs", "said", "--rank", "5"]) == 1
    assert "ranks with a log: 0, 1" in capsys.readouterr().err


def test_nodes_that_are_allocated_are_what_costs(live, capsys):
    cluster = live.outputs.clusters["preparation"]
    job = begin(live, "costly", "sleep 600")
    wait_for(lambda: status(live, job) == "Running")
    assert main(["status"]) == 0
    text = capsys.readouterr().out
    assert "nodes that cost money now:" in text
    assert f" x {cluster.size} (Dedicated): 1 busy" in text
    assert main(["cancel", "costly"]) == 0
    assert "costly-r1: Canceled" in capsys.readouterr().out
    assert main(["cancel", "costly"]) == 0
    assert "had already ended" in capsys.readouterr().out


def test_ctrl_c_leaves_the_job_and_says_how_to_come_back(live):
    job = begin(live, "left", "sleep 600")
    with started(live, "follow", "left", *QUICK) as child:
        read_until(child, "running on")
        said = interrupt(child)
    assert "python -m jobs follow left" in said
    assert "python -m jobs cancel left" in said
    assert status(live, job) == "Running"
    live.azure.scheduler.cancel(job)


def failed_by_pre_emption(live, run):
    """Submit an attempt that is pre-empted while nobody follows it."""
    job = begin(live, run, "sleep 600", cluster=live.outputs.clusters["gpu"])
    wait_for(lambda: status(live, job) == "Running")
    live.azure.admin.preempt(job=job)
    wait_for(lambda: status(live, job) == "Failed")
    return job


def cancel_for_good(live, job):
    """Cancel an attempt and mark it, so that its supervisor does not look for lost nodes."""
    tags = live.azure.resources.get(job)["properties"]["tags"]
    live.azure.resources.update(job, {"tags": {**tags, "canceled_by": "a test"}})
    live.azure.scheduler.cancel(job)


def test_a_cut_network_in_the_pause_says_that_nobody_submits_again(live, capsys, monkeypatch):
    monkeypatch.setattr(requests, "RETRIES", 0)
    failed_by_pre_emption(live, "mid")
    live.azure.admin.fault("GET .*/jobs/mid-r", cut=True, after=3, times=None)
    waits = [
        "--supervise",
        "--retry-timeout-minutes",
        "0.005",
        "--resubmit.backoff-seconds",
        "60",
    ]
    monkeypatch.setattr(supervisor, "LOOK_SECONDS", 0.1)
    assert main(["follow", "mid", *QUICK, *waits]) == 25
    said = capsys.readouterr().err
    assert "no response from Azure" in said
    assert "its last attempt has ended, and this command does not submit it again" in said
    assert "`python -m jobs follow mid --supervise` resumes this" in said


def test_a_refusal_in_the_pause_is_waited_out_with_two_notes(live, capsys, monkeypatch):
    monkeypatch.setattr(supervisor, "LOOK_SECONDS", 0.1)
    failed_by_pre_emption(live, "vpn")
    live.azure.admin.fault("GET .*/jobs/vpn-r1", status=403, after=4, times=3)
    meanwhile(
        lambda: wait_for(lambda: live.azure.resources.get(f"{live.workspace}/jobs/vpn-r2")),
        lambda: cancel_for_good(live, f"{live.workspace}/jobs/vpn-r2"),
    )
    pause = ["--supervise", "--resubmit.backoff-seconds", "1"]
    assert main(["follow", "vpn", *QUICK, *pause]) == 20
    said = capsys.readouterr().err
    assert "no response from Azure; retrying, a running job is not affected" in said
    assert "Azure responds again" in said


def test_storage_that_is_away_at_the_end_is_waited_for(live, capsys):
    job = begin(live, "slow", TRAINED)
    wait_for(lambda: status(live, job) == "Completed")
    live.azure.admin.fault("HEAD .*result.json", status=503, times=6)
    assert main(["follow", "slow", *QUICK]) == 0
    found = capsys.readouterr()
    assert "slow-r1: training completed" in found.out
    assert "cannot be read from here" not in found.err


def test_a_result_that_nobody_could_look_at_is_no_success(live, capsys):
    job = begin(live, "unseen", TRAINED)
    wait_for(lambda: status(live, job) == "Completed")
    live.azure.admin.fault("HEAD .*result.json", status=403, times=None)
    assert main(["follow", "unseen", *QUICK]) == 22
    text = capsys.readouterr().out
    assert "unseen-r1: completed, but its result could not be read" in text


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


def test_a_refused_cancel_says_that_the_job_runs_on_and_is_marked(live, capsys):
    job = begin(live, "kept", "sleep 600")
    wait_for(lambda: status(live, job) == "Running")
    live.azure.admin.fault("POST .*/cancel", status=403)
    assert main(["cancel", "kept"]) == 22
    assert "was not cancelled and may still run; it is marked" in capsys.readouterr().err
    assert main(["cancel", "kept"]) == 0


def test_a_mark_that_changed_nothing_is_set_by_the_documented_way(live, capsys, monkeypatch):
    job = begin(live, "guess", "true", kind="check")
    wait_for(lambda: status(live, job) == "Completed")
    monkeypatch.setattr(Jobs, "tag", lambda *_: None)
    monkeypatch.setattr(cancel, "ARRIVAL_SECONDS", 0.0)
    assert main(["cancel", "guess"]) == 0
    assert "canceled_by" in live.azure.resources.get(job)["properties"]["tags"]


def test_a_name_that_is_mistyped_is_1(live, capsys):
    assert main(["follow", "nihgt"]) == 1
    assert "there is no job or run of this name" in capsys.readouterr().err
