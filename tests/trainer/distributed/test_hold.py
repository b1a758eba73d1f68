"""The node of a rank that has failed is kept for a while, and released on request."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from tests import ROOT
from tests.trainer.support.launched import wait_until
from trainer.distributed import hold
from trainer.distributed.hold import hold_minutes, run_and_hold
from trainer.distributed.run_requests import HOLD_MINUTES, RunRequest, held_file
from trainer.errors import STOP_SIGNALS

FAILS = ["no-such-command"]
"""Arguments with which the trainer ends at once, with status 2."""


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    monkeypatch.setattr(hold, "POLL_SECONDS", 0.2)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def ended_with(monkeypatch, code):
    monkeypatch.setattr(subprocess, "call", lambda *_, **__: code)


def test_a_failure_is_kept_until_the_time_is_over_and_its_status_stays(tmp_path, capfd):
    seen = []
    reader = threading.Thread(
        target=lambda: (
            wait_until((tmp_path / held_file(1)).exists),
            seen.append(json.loads((tmp_path / held_file(1)).read_text())),
        )
    )
    reader.start()
    assert run_and_hold(FAILS, tmp_path, 1, 3 / 60) == 2
    reader.join()
    assert (seen[0]["rank"], seen[0]["status"]) == (1, 2)
    assert list(tmp_path.iterdir()) == []
    err = capfd.readouterr().err
    assert "rank 1: failed with status 2; its node is kept until" in err
    assert "--release" in err


@pytest.mark.parametrize("code", [-9, 1, 6, 7])
def test_whatever_ends_a_rank_its_node_is_kept(monkeypatch, tmp_path, code, capsys):
    ended_with(monkeypatch, code)
    assert run_and_hold([], tmp_path, 0, 0.001) == (128 + 9 if code < 0 else code)
    assert "is kept until" in capsys.readouterr().err


@pytest.mark.parametrize("code", [0, 8, 9, 130, 138, 143, -15])
def test_a_rank_that_succeeds_is_stopped_or_is_submitted_again_is_not_kept(
    monkeypatch, tmp_path, code, capsys
):
    ended_with(monkeypatch, code)
    begun = time.monotonic()
    run_and_hold([], tmp_path, 0, 5)
    assert time.monotonic() - begun < 60
    assert capsys.readouterr().err == ""


def test_a_release_ends_it_and_an_older_one_does_not(monkeypatch, tmp_path):
    ended_with(monkeypatch, 3)
    (tmp_path / RunRequest("release").file).touch()
    asked = []

    def ask():
        wait_until((tmp_path / held_file(0)).exists)
        time.sleep(1)
        asked.append(time.monotonic())
        (tmp_path / RunRequest("release").file).touch()

    threading.Thread(target=ask).start()
    assert run_and_hold([], tmp_path, 0, 5) == 3
    assert asked


def test_a_rank_that_only_lost_another_one_is_the_last_to_end(monkeypatch, tmp_path):
    ended_with(monkeypatch, 6)

    def ask():
        wait_until((tmp_path / held_file(0)).exists)
        (tmp_path / RunRequest("release").file).touch()

    asking = threading.Thread(target=ask)
    asking.start()
    run_and_hold([], tmp_path, 0, 5)
    asking.join()
    left = time.time() - next(tmp_path.glob(".request-*")).stat().st_mtime
    assert left >= 2 * hold.POLL_SECONDS


def test_a_signal_ends_it_with_the_status_of_the_failure(tmp_path):
    code = (
        "import sys; from pathlib import Path; from trainer.distributed.hold import run_and_hold;"
        "sys.exit(run_and_hold(sys.argv[2:], Path(sys.argv[1]), 0, 5))"
    )
    held = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path), *FAILS], cwd=ROOT, stderr=subprocess.PIPE
    )
    wait_until((tmp_path / held_file(0)).exists)
    held.send_signal(signal.SIGTERM)
    held.communicate(timeout=60)
    assert held.returncode == 2
    assert list(tmp_path.iterdir()) == []


def test_the_rank_itself_keeps_nothing(monkeypatch):
    monkeypatch.setenv(HOLD_MINUTES, "30")
    environments = []
    monkeypatch.setattr(subprocess, "call", lambda *_, env: environments.append(env) or 0)
    assert hold_minutes(os.environ) == 30
    assert run_and_hold([], None, 0, 30) == 0
    assert hold_minutes(environments[0]) == 0
