"""A kind of request that no judge has seen is an error, or is recorded; others are not noticed."""

import json

import pytest

from rehearsal.control_plane.http_messages import Request, Response
from rehearsal.control_plane.request_log import RequestLog
from tests import requests_sent
from tools.conformance import sent
from tools.conformance.sent import Sent

SERVICE = "ml-azure-horovod azsdk-python-core/1"
ACCOUNT = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Storage/storageAccounts/a"
BODY = b'{"properties": {"webhook": "http://127.0.0.1:4711/x"}}'
KIND = "PUT Microsoft.Storage/storageAccounts ?force 1"


@pytest.fixture(autouse=True)
def file(tmp_path, monkeypatch):
    """The recorded requests, of one kind; the stacks send none."""
    file = tmp_path / "requests.json"
    monkeypatch.setattr(sent, "RECORDED", file)
    monkeypatch.setattr(requests_sent, "STACKS", {})
    sent.write([Sent("GET", ACCOUNT, "", "1")])
    requests_sent.recorded_kinds.cache_clear()
    yield file
    requests_sent.recorded_kinds.cache_clear()


def send(method="PUT", agent=SERVICE, path=ACCOUNT, status=200, query="api-version=1&force=true"):
    """Send a request to a simulator whose requests are noted."""
    request = Request(method, path, {}, {"user-agent": agent}, BODY, f"{path}?{query}")
    with requests_sent.noted():
        RequestLog().log(request, lambda _: Response(status))


def test_a_new_kind_fails_each_test_that_sends_it():
    for _ in range(2):
        send()
        with pytest.raises(AssertionError) as caught:
            requests_sent.check()
        assert KIND in str(caught.value)
        requests_sent.check()


def test_known_kinds_refusals_and_requests_of_others_pass():
    send("GET", query="api-version=1")
    send(status=404)
    send(status=0)
    send(agent="azsdk-python-mgmt")
    send(path="/history/v1.0/x")
    requests_sent.check()


def test_a_new_kind_of_a_stack_passes(monkeypatch):
    kinds = {"dev": set(), "everything": {KIND}}
    monkeypatch.setattr(requests_sent, "STACKS", kinds)
    monkeypatch.setattr(requests_sent, "kinds_of_stack", kinds.get)
    send()
    requests_sent.check()


def test_a_new_kind_is_recorded_without_the_port(file, monkeypatch):
    monkeypatch.setenv("RECORD_REQUESTS", "1")
    send()
    requests_sent.check()
    new, old = sorted(sent.recorded(), key=lambda one: one.kind, reverse=True)
    assert (old.kind, new.kind) == ("GET Microsoft.Storage/storageAccounts 1", KIND)
    assert (new.query, new.body) == (
        "force=true", {"properties": {"webhook": "http://127.0.0.1/x"}},
    )  # fmt: skip
    assert [one["method"] for one in json.loads(file.read_text())] == ["GET", "PUT"]
    monkeypatch.delenv("RECORD_REQUESTS")
    send()
    requests_sent.check()


@pytest.mark.parametrize(("agent", "status"), [("another program", 0), (SERVICE, 1)])
def test_a_rehearsal_that_sends_a_new_kind_fails(monkeypatch, capsys, agent, status):
    def rehearse(arguments):
        send(agent=agent)
        return len(arguments) - 1

    monkeypatch.setattr(requests_sent.rehearsal, "main", rehearse)
    assert requests_sent.main(["cycle"]) == status
    assert (KIND in capsys.readouterr().err) == bool(status)
    assert requests_sent.main(["cycle", "--until", "up"]) == (1 if status else 2)
