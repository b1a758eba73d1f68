import threading
from types import SimpleNamespace

import pytest
from azure.core.exceptions import (
    ClientAuthenticationError,
    HttpResponseError,
    ServiceRequestError,
)

from jobs import retry
from jobs.retry import Patience, StoppedError
from jobs.transfer.parallel import each


def answering(status, headers=None):
    error = HttpResponseError("no")
    error.status_code = status
    error.response = SimpleNamespace(headers=headers or {})
    return error


def scripted(*steps):
    """A request that raises or returns one step after the other."""
    left = list(steps)

    def request():
        step = left.pop(0)
        if isinstance(step, Exception):
            raise step
        return step

    return request


@pytest.fixture
def said():
    return []


@pytest.fixture
def waits(monkeypatch):
    """What was waited, without waiting."""
    found = []

    class Event(threading.Event):
        def wait(self, seconds):
            found.append(seconds)

    # Not of the module itself: other threads of this process wait as well.
    ours = SimpleNamespace(Event=Event, Lock=threading.Lock)
    monkeypatch.setattr(retry, "threading", ours)
    return found


def test_an_outage_is_waited_for_longer_and_longer_and_told_once(said, waits):
    gone = [ServiceRequestError("refused")] * 7
    assert Patience(600, said.append).ask(scripted(*gone, "here")) == "here"
    assert [round(wait, 1) for wait in waits] == [0.5, 1, 2, 4, 8, 15, 15]
    assert said == [
        "storage does not answer (connection refused); trying again for 10 minutes",
        "storage answers again",
    ]


def test_a_busy_service_says_itself_how_long(said, waits):
    busy = answering(503, {"Retry-After": "7"})
    assert Patience(600, said.append).ask(scripted(busy, "here")) == "here"
    assert waits == [7]


@pytest.mark.parametrize("status", [400, 403, 404, 409, 412])
def test_a_refusal_is_not_repeated(said, waits, status):
    with pytest.raises(HttpResponseError):
        Patience(600, said.append).ask(scripted(answering(status), "here"))
    assert waits == []


def test_a_token_that_cannot_be_had_without_network_is_waited_for(said, waits):
    away, signed_out = ClientAuthenticationError("failed"), ClientAuthenticationError("expired")
    away.__cause__ = ServiceRequestError("no route")
    assert Patience(600, said.append).ask(scripted(away, "here")) == "here"
    with pytest.raises(ClientAuthenticationError, match="expired"):
        Patience(600, said.append).ask(scripted(signed_out))


def test_patience_ends(said, waits, monkeypatch):
    clock = iter(range(0, 10_000, 100))
    # Not of the module itself: the other threads of this process live by it.
    monkeypatch.setattr(retry, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    with pytest.raises(ServiceRequestError):
        Patience(250, said.append).ask(scripted(*[ServiceRequestError("gone")] * 20))
    assert len(waits) == 3


def test_who_is_stopped_while_waiting_ends(said):
    waiting = Patience(600, lambda text: waiting.stop())
    with pytest.raises(StoppedError):
        waiting.ask(scripted(*[ServiceRequestError("gone")] * 20))


def test_the_first_failure_ends_all_threads_and_is_the_one_that_is_raised(said):
    waiting, begun = Patience(600, said.append), []

    def work(number):
        begun.append(number)
        if number == 5:
            raise ValueError("the fifth")
        waiting.check()

    with pytest.raises(ValueError, match="the fifth"):
        each(range(10_000), work, 4, waiting)
    assert len(begun) < 100


def test_each_item_is_worked_on_once(said):
    lock, seen = threading.Lock(), []

    def work(number):
        with lock:
            seen.append(number)

    each(range(1000), work, 8, Patience(1, said.append))
    assert sorted(seen) == list(range(1000))
