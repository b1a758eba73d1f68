"""Jobs on the simulator are followed through outages of the network, of Azure and of storage."""

import threading

import pytest

from jobs.azure import requests
from jobs.cli import main
from jobs.console import Console
from jobs.following import supervisor
from tests.jobs.support.following import (
    QUICK,
    failed_by_pre_emption,
)
from tests.jobs.support.tiny import (
    TRAINED,
    begin,
    meanwhile,
    running,
    status,
    wait_for,
)

pytestmark = pytest.mark.usefixtures("outputs")


@pytest.mark.long
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


def test_a_result_that_nobody_could_look_at_is_no_success(live, capsys):
    job = begin(live, "unseen", TRAINED)
    wait_for(lambda: status(live, job) == "Completed")
    live.azure.admin.fault("HEAD .*result.json", status=403, times=None)
    assert main(["follow", "unseen", *QUICK]) == 22
    text = capsys.readouterr().out
    assert "unseen-r1: completed, but its result could not be read" in text
