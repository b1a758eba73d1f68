"""A rank that waits for a debugger, and a debugger that attaches."""

import socket
import time
from pathlib import Path

import pytest

from common.errors import ConfigError
from tests import ROOT
from tests.trainer.support.command import SMALL, TINY, result, start_trainer
from tests.trainer.support.debugger import Client
from trainer.diagnostics.debugger import patient, wait_for_debugger
from trainer.distributed.communicator import Alone
from trainer.distributed.run_requests import DEBUG
from trainer.distributed.signals import StopRequest
from trainer.presets import PRESETS


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.mark.long
def test_two_ranks_wait_until_a_debugger_attaches_and_continues(workplace):
    folder = Path(pytest.importorskip("debugpy").__file__).parents[1]
    port, path = free_port(), f"{ROOT}:{folder}"
    training = start_trainer(
        "train", *TINY, "--epochs", "1", "--ranks", "2", "--name", "a",
        cwd=workplace, env={DEBUG: f"1:{port}", "PYTHONPATH": path}, module=SMALL,
    )  # fmt: skip
    try:
        told = ""
        while "waits for a debugger on 127.0.0.1" not in told:
            told = training.stderr.readline()
            assert told
        assert f"rank 1: waits for a debugger on 127.0.0.1, port {port}" in told
        time.sleep(3)
        # Nothing has been trained: the first files are written after the first step.
        assert not (workplace / "runs/a/metrics.jsonl").exists()
        client = Client(port)
        client.attach()
        stopped = client.wait_for("event", "stopped")
        client.request("stackTrace", threadId=stopped["threadId"])
        frames = client.wait_for("response", "stackTrace")["stackFrames"]
        assert frames[0]["source"]["path"].endswith("trainer/training/run.py")
        assert not (workplace / "runs/a/metrics.jsonl").exists()
        client.request("disconnect", terminateDebuggee=False)
        client.wait_for("response", "disconnect")
        client.close()
        _, err = training.communicate(timeout=300)
        assert training.returncode == 0, err
    finally:
        training.kill()
    assert result(workplace / "runs/a")["steps"] > 0


def test_without_the_variable_nothing_waits_and_nothing_changes():
    config = PRESETS["digits"]
    assert patient(config, {}) is config
    wait_for_debugger(Alone(), {}, lambda: None, StopRequest())


def test_no_watchdog_ends_a_rank_that_stands_at_a_breakpoint():
    config = patient(PRESETS["digits"], {DEBUG: "0"})
    assert config.watchdog.step_seconds == 0
    assert config.exchange.timeout_seconds > 24 * 3600


@pytest.mark.parametrize("text", ["1", "x", "0:", "-1", "0:123456"])
def test_a_rank_that_does_not_exist_is_refused(text):
    with pytest.raises(ConfigError, match=DEBUG):
        wait_for_debugger(Alone(), {DEBUG: text}, lambda: None, StopRequest())


def test_a_missing_debugger_is_told(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "debugpy", None)
    with pytest.raises(ConfigError, match="not installed"):
        wait_for_debugger(Alone(), {DEBUG: "0"}, lambda: None, StopRequest())
