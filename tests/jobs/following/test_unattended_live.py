"""Runs without a watcher: odd answers, cancellations without words, logs that cannot be read."""

import pytest

from jobs.cli import main
from jobs.following import follower
from tests.jobs.support.following import (
    AGAIN,
    ONCE,
    QUICK,
    touched,
)
from tests.jobs.support.tiny import (
    TRAINED,
    begin,
    interrupt,
    meanwhile,
    running,
    started,
    status,
    wait_for,
)

pytestmark = pytest.mark.usefixtures("outputs")


def interrupted_cancel(live, run, match):
    """Press Ctrl-C during a slow request of a cancellation; return the output."""
    job = begin(live, run, "sleep 600")
    wait_for(lambda: status(live, job) == "Running")
    live.azure.admin.fault(match, delay=8.0)
    with started(live, "cancel", run) as child:
        # The fault is taken from the list when its request has come.
        wait_for(lambda: not live.azure.faults._faults or child.poll() is not None)
        return interrupt(child)


def test_a_cancel_that_is_interrupted_before_its_mark_says_that_nothing_is_known(live):
    said = interrupted_cancel(live, "g1", "PATCH .*/runs/g1-r1")
    assert "g1-r1: it is unknown whether the run is marked as cancelled" in said
    assert "its cancellation was not requested. The job may still run and cost money" in said
    assert "`python -m jobs cancel g1` continues" in said


def test_a_cancel_that_is_interrupted_in_its_request_says_so(live):
    said = interrupted_cancel(live, "g2", "POST .*/jobs/g2-r1/cancel")
    assert "the run is marked as cancelled, so it will not be submitted again" in said
    assert "it is unknown whether its cancellation was requested" in said


def test_what_azure_cancels_without_words_goes_on_if_its_nodes_were_taken(live, capsys):
    gpu = live.outputs.clusters["gpu"]
    cluster = f"{live.workspace}/computes/{gpu.name}"
    job = begin(live, "dumb", f"{ONCE}; then sleep 600; fi; {TRAINED}", cluster=gpu)
    meanwhile(
        running(live, job),
        lambda: wait_for(lambda: touched(live, "dumb")),
        # Until idle nodes that tests before have used are gone.
        lambda: wait_for(lambda: len(live.azure.nodes.show(cluster)) == 1),
        lambda: live.azure.admin.preempt(job=job, manner="cancel"),
    )
    assert main(["follow", "dumb", *QUICK, *AGAIN]) == 0
    text = capsys.readouterr().out
    assert "its cluster has 0 of its 1 node left (1 pre-empted)" in text
    assert "dumb-r2: training completed" in text


def test_the_last_lines_are_asked_for_again(live, capsys):
    job = begin(live, "words", f"echo first; echo last; {TRAINED}")
    wait_for(lambda: status(live, job) == "Completed")
    live.azure.admin.fault("GET /.*std_log", status=403, times=2)
    assert main(["follow", "words", *QUICK]) == 0
    assert "last" in capsys.readouterr().out.splitlines()


def test_last_lines_that_cannot_be_read_are_told(live, capsys, monkeypatch):
    monkeypatch.setattr(follower, "LAST_LINES_SECONDS", 0.3)
    job = begin(live, "hush", f"echo first; echo last; {TRAINED}")
    wait_for(lambda: status(live, job) == "Completed")
    live.azure.admin.fault("GET /.*std_log", status=403, times=None)
    assert main(["follow", "hush", *QUICK]) == 0
    said = capsys.readouterr().err
    assert "hush-r1: its last lines could not be read (log file: access denied" in said
    assert "shown: user_logs/std_log_process_00.txt up to byte 0" in said
    assert "`python -m jobs logs hush-r1` prints the whole log" in said
