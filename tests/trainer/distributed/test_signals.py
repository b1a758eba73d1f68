"""A request to stop reaches the loop whatever else has gone wrong."""

import io
import signal

import pytest

from trainer.distributed.signals import StopRequest
from trainer.errors import STOP_SIGNALS


class DeadTerminal(io.StringIO):
    def write(self, text):
        raise OSError(5, "Input/output error")


def test_a_dead_terminal_does_not_keep_the_request_from_the_loop(monkeypatch):
    told = []
    stop = StopRequest()
    stop.attach(lambda: told.append("stop"))
    monkeypatch.setattr("sys.stderr", DeadTerminal())
    stop._handle(signal.SIGTERM, None)
    assert told == ["stop"]
    assert stop.signal == signal.SIGTERM


def test_a_request_that_came_before_the_loop_is_passed_on_when_it_comes():
    stop = StopRequest()
    stop._handle(signal.SIGTERM, None)
    told = []
    stop.attach(lambda: told.append("stop"))
    assert told == ["stop"]


def test_a_second_sigterm_changes_nothing():
    told = []
    stop = StopRequest()
    stop.attach(lambda: told.append("stop"))
    stop._handle(signal.SIGTERM, None)
    stop._handle(signal.SIGTERM, None)
    assert told == ["stop"]


def test_a_second_interrupt_ends_the_process(monkeypatch):
    ended = []
    monkeypatch.setattr("os._exit", ended.append)
    stop = StopRequest()
    stop._handle(signal.SIGINT, None)
    assert not ended
    stop._handle(signal.SIGINT, None)
    assert ended == [130]


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_the_signals_are_handled_once_installed(number):
    before = {other: signal.getsignal(other) for other in STOP_SIGNALS}
    try:
        stop = StopRequest()
        stop.install()
        signal.raise_signal(number)
        assert stop.signal == number
    finally:
        for other in STOP_SIGNALS:
            signal.signal(other, before[other])
