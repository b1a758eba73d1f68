"""Passes look after runs that no command follows, from any machine."""

import json
import re
import subprocess
import sys

import pytest

from jobs.azure import requests
from jobs.cli import main
from jobs.following import supervisor
from jobs.following.supervision_policy import mark
from jobs.options import ResubmitOptions
from tests import ROOT
from tests.jobs.support.runs import content, put
from tests.jobs.support.tiny import TRAINED, begin, status, wait_for

pytestmark = pytest.mark.usefixtures("outputs")

ONCE = 'if [ ! -e "${{outputs.run}}/n" ] && touch "${{outputs.run}}/n"; then sleep 600; fi'
AT_ONCE = mark(ResubmitOptions(backoff_seconds=0.0))


@pytest.fixture(autouse=True)
def only_own_runs(live):
    """Let no run of another test be supervised."""
    for job in live.azure.resources.of_kind("Microsoft.MachineLearningServices/workspaces/jobs"):
        live.azure.resources.update(job["id"], {"tags": {}})


def once(capsys, *options):
    """Do one pass; return its exit status, and its actions by run."""
    capsys.readouterr()
    code = main(["supervise", "--once", "--json", *options])
    return code, {one["run"]: one for one in json.loads(capsys.readouterr().out)}


def taken(live, run, command=f"{ONCE}; {TRAINED}", tags=None):
    """Let a run lose its nodes."""
    cluster = live.outputs.clusters["gpu"]
    job = begin(live, run, command, cluster=cluster, tags=tags or AT_ONCE)
    # Its second attempt finds this file.
    wait_for(lambda: content(live, f"runs/{run}/n") is not None)
    live.azure.admin.preempt(job=job)
    wait_for(lambda: status(live, job) == "Failed")
    return job


def tags(live, job):
    return live.azure.resources.get(job)["properties"]["tags"]


def test_an_interrupted_run_that_nobody_follows_completes(live, capsys, receiver, monkeypatch):
    monkeypatch.setenv("JOBS_WEBHOOK", receiver.address)
    first = taken(live, "left-night")
    code, did = once(capsys)
    assert (code, did["left-night"]["did"], did["left-night"]["job"]) == (
        0,
        "submitted",
        "left-night-r2",
    )
    assert receiver.ids == ["left-night/1/resubmitted"]
    second = first.replace("-r1", "-r2")
    assert tags(live, second)["resubmitted"] == "True"
    assert "notified" not in tags(live, second)
    wait_for(lambda: status(live, second) == "Completed")
    assert once(capsys)[1]["left-night"]["text"] == "left-night-r2: training completed"
    assert receiver.ids == ["left-night/1/resubmitted", "left-night/2/completed"]
    # Nothing is left to do, and no notice is sent twice.
    live.azure.admin.forget_requests()
    assert once(capsys)[1]["left-night"]["did"] == "concluded"
    assert len(receiver.got) == 2
    assert not [one for one in live.azure.admin.log.requests if "details" in one.path]


def test_a_run_that_did_not_ask_is_left_alone(live, capsys):
    job = taken(live, "left-alone", tags={"kind": "train"})
    assert "left-alone" not in once(capsys)[1]
    assert live.azure.resources.get(job.replace("-r1", "-r2")) is None


def test_a_dry_run_does_nothing(live, capsys, receiver, monkeypatch):
    monkeypatch.setenv("JOBS_WEBHOOK", receiver.address)
    job = taken(live, "left-dry")
    assert "attempt 2 of 5 follows" in once(capsys, "--dry-run")[1]["left-dry"]["text"]
    assert live.azure.resources.get(job.replace("-r1", "-r2")) is None
    assert receiver.got == []


def test_several_passes_at_once_submit_one_attempt(live):
    job = taken(live, "left-several")
    command = [sys.executable, "-m", "jobs", "supervise", "--once"]
    passes = [
        subprocess.Popen(command, env=live.environment, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    said = [child.communicate(timeout=120)[0] for child in passes]
    assert [child.returncode for child in passes] == [0, 0]
    # Equally fast ones send the same request, which Azure carries out once.
    assert any("left-several-r2 submitted: interrupted" in text for text in said)
    assert live.azure.resources.get(job.replace("-r1", "-r2")) is not None
    assert live.azure.resources.get(job.replace("-r1", "-r3")) is None


@pytest.mark.parametrize("follows", [False, True])
def test_a_run_waits_while_a_node_of_spot_costs_more_than_it_may(
    live, capsys, monkeypatch, follows
):
    # 40 cores at 0.01 USD each.
    limit = mark(ResubmitOptions(backoff_seconds=0.0, max_node_price=0.5))
    run = f"left-dear-{follows}".lower()
    job = taken(live, run, tags=limit)
    live.azure.admin.spot_price(0.04)
    try:
        assert once(capsys)[1][run]["did"] == "waiting"
        assert live.azure.resources.get(job.replace("-r1", "-r2")) is None
        if follows:

            def fall(seconds, *_):
                assert seconds == supervisor.PRICE_SECONDS
                live.azure.admin.spot_price(0.01)

            real = supervisor.wait_until
            monkeypatch.setattr(
                supervisor, "wait_until",
                lambda look, seconds, poll: fall(seconds) if seconds else real(look, 0, poll),
            )  # fmt: skip
            again = ["--resubmit.backoff-seconds", "0", "--resubmit.max-node-price", "0.5"]
            assert main(["follow", run, "--supervise", "--poll-seconds", "0.1", *again]) == 0
            out = capsys.readouterr().out
            assert "costs 1.60 USD, above --resubmit.max-node-price 0.5" in out
    finally:
        live.azure.admin.spot_price(0.01)
    assert once(capsys)[1][run]["did"] == ("concluded" if follows else "submitted")


def test_since_when_outputs_are_uploaded_is_told_where_the_run_has_written(live, capsys):
    job = begin(live, "uploads", "sleep 600", tags=mark(ResubmitOptions()).items())
    wait_for(lambda: status(live, job) == "Running")
    live.azure.runs.change(job, status="Finalizing")
    assert main(["supervise", "--once"]) == 0
    assert "its outputs are still being uploaded; 1 node" in capsys.readouterr().out
    put(live, {"runs/uploads/uploads/metrics.jsonl": b'{"event": "end"}\n'})
    for command in (["supervise", "--once"], ["status"]):
        assert main(command) == 0
        text = capsys.readouterr().out
        assert re.search(
            r"uploads: .*outputs are still being uploaded after [\d.]+ s; 1 node", text
        )
    assert main(["cancel", "uploads"]) == 0


def test_a_notice_that_was_not_accepted_is_sent_by_the_next_pass(
    live, capsys, receiver, monkeypatch
):
    monkeypatch.setattr(requests, "RETRIES", 0)
    monkeypatch.setenv("JOBS_WEBHOOK", receiver.address)
    begin(live, "left-told", TRAINED, tags=AT_ONCE)
    wait_for(lambda: status(live, f"{live.workspace}/jobs/left-told-r1") == "Completed")
    receiver.answers += [500]
    assert once(capsys)[1]["left-told"]["notified"] is False
    assert once(capsys)[1]["left-told"]["notified"] is True
    assert receiver.ids == ["left-told/1/completed"]


def test_a_supervisor_that_died_after_submitting_still_has_its_notice_sent(
    live, capsys, receiver, monkeypatch
):
    taken(live, "left-owed")
    assert once(capsys)[1]["left-owed"]["did"] == "submitted"
    monkeypatch.setenv("JOBS_WEBHOOK", receiver.address)
    once(capsys)
    assert "left-owed/1/resubmitted" in receiver.ids


def test_one_run_that_cannot_be_looked_at_does_not_keep_the_others(live, capsys):
    begin(live, "left-broken", TRAINED, tags={"supervise": "{"})
    begin(live, "left-sound", TRAINED, tags=AT_ONCE)
    for run in ("left-broken", "left-sound"):
        wait_for(lambda run=run: status(live, f"{live.workspace}/jobs/{run}-r1") == "Completed")
    code, did = once(capsys)
    assert code == 22
    assert "'supervise' cannot be read" in did["left-broken"]["text"]
    assert did["left-sound"]["text"] == "left-sound-r1: training completed"


def outside(live):
    """Refuse requests that a machine outside of the private network cannot make."""
    live.azure.admin.fault("/history/", status=403, code="Forbidden", times=None)
    live.azure.admin.fault("runs/", status=403, code="AuthorizationFailure", times=None)


def report(live, job, value):
    """Tag a job as the trainer does through MLflow."""
    known = live.azure.resources.get(job)["properties"]["tags"]
    live.azure.resources.update(job, {"tags": {**known, "trainer.exit_status": value}})


@pytest.mark.parametrize(
    ("reported", "did", "text"),
    [
        ("running", "submitted", "the trainer ended without a report"),
        ("6", "submitted", "a rank was lost (exit status 6 of the trainer)"),
        (None, "concluded", "failed by its own error"),
    ],
)
def test_outside_of_the_network_the_trainers_report_decides(live, capsys, reported, did, text):
    run = f"left-outside-{reported}".lower()
    job = taken(live, run)
    if reported:
        report(live, job, reported)
    outside(live)
    found = once(capsys)[1][run]
    assert (found["did"], text in found["text"]) == (did, True), found


def test_outside_of_the_network_a_completed_run_is_known_by_its_report(live, capsys):
    job = begin(live, "left-far", TRAINED, tags=AT_ONCE)
    wait_for(lambda: status(live, job) == "Completed")
    report(live, job, "0")
    outside(live)
    assert once(capsys)[1]["left-far"]["text"] == "left-far-r1: training completed"


def test_without_a_report_the_end_is_unknown_and_said(live, capsys, receiver, monkeypatch):
    monkeypatch.setenv("JOBS_WEBHOOK", receiver.address)
    job = begin(live, "left-mute", TRAINED, tags=AT_ONCE)
    wait_for(lambda: status(live, job) == "Completed")
    outside(live)
    once(capsys)
    assert receiver.ids == ["left-mute/1/unknown"]


def test_following_sends_notices_as_well(live, capsys, receiver, monkeypatch):
    secret = f"{live.azure.url}/secrets/hook"
    vault = f"{live.group}/providers/Microsoft.KeyVault/vaults/"
    name = live.outputs.vault_uri.removeprefix("https://").split(".")[0]
    live.azure.put(
        f"{vault}{name}/secrets/hook", "2023-07-01", {"properties": {"value": receiver.address}}
    )
    monkeypatch.setenv("JOBS_WEBHOOK_SECRET", secret)
    job = taken(live, "left-seen")
    assert main(["follow", "left-seen", "--supervise", "--poll-seconds", "0.1",
                 "--resubmit.backoff-seconds", "0"]) == 0  # fmt: skip
    assert receiver.ids == ["left-seen/1/resubmitted", "left-seen/2/completed"]
    # The pass has nothing to add.
    once(capsys)
    assert len(receiver.got) == 2
    for number in (1, 2):
        text = json.dumps(live.azure.resources.get(job.replace("-r1", f"-r{number}")))
        assert "hush" not in text


def test_a_secret_that_cannot_be_read_ends_the_command_before_anything(live, capsys, monkeypatch):
    monkeypatch.setenv("JOBS_WEBHOOK_SECRET", f"{live.azure.url}/secrets/missing")
    assert main(["supervise", "--once"]) == 1
    assert "secret" in capsys.readouterr().err


@pytest.mark.parametrize("options", [[], ["--once", "--watch"]])
def test_one_of_once_and_watch_is_required(options, capsys):
    assert main(["supervise", *options]) == 2
    assert "pass either --once or --watch" in capsys.readouterr().err


def test_watching_goes_on_through_an_outage_until_ctrl_c(live, monkeypatch):
    job = taken(live, "left-watched")
    live.azure.admin.fault("GET .*/jobs.*tag=", status=400, times=1)
    command = [sys.executable, "-m", "jobs", "supervise", "--watch", "--every-minutes", "0.01"]
    child = subprocess.Popen(
        ["env", "-i", *(f"{k}={v}" for k, v in live.environment.items()), *command],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        wait_for(lambda: live.azure.resources.get(job.replace("-r1", "-r2")) is not None)
    finally:
        child.kill()
        _, err = child.communicate()
    assert "the runs could not be listed" in err


def test_a_run_that_is_concluded_is_only_told_once_there_is_a_webhook(
    live, capsys, receiver, monkeypatch
):
    job = taken(live, "left-concluded")
    known = live.azure.resources.get(job)["properties"]["tags"]
    live.azure.resources.update(job, {"tags": {**known, "outcome": "interrupted"}})
    monkeypatch.setenv("JOBS_WEBHOOK", receiver.address)
    did = once(capsys)[1]["left-concluded"]
    assert (did["did"], did["notified"]) == ("concluded", True)
    assert receiver.ids == ["left-concluded/1/interrupted"]
    assert live.azure.resources.get(job.replace("-r1", "-r2")) is None
    assert tags(live, job)["outcome"] == "interrupted"
