"""Requests are retried while Azure is unreachable, up to the timeout."""

import threading
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from hashlib import md5
from io import BytesIO
from types import SimpleNamespace
from typing import Any

import pytest
import requests
from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    HttpResponseError,
    ServiceRequestError,
)
from azure.core.pipeline.transport import HttpTransport, RequestsTransportResponse
from azure.storage.blob import ContainerClient
from requests.structures import CaseInsensitiveDict
from urllib3 import HTTPResponse

from jobs import retry
from jobs.errors import AccessError, MissingError, SignInError, UnreachableError
from jobs.retry import AzureRetry, StoppedError, StorageRetry, StorageRetryPolicy
from jobs.transfer.parallel import for_each


def answering(status, headers=None):
    error = HttpResponseError("no")
    error.status_code = status
    error.response = SimpleNamespace(headers=headers or {})
    return error


def scripted(*steps):
    """Create a request that raises or returns the given values in turn."""
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
    """Record the pauses instead of waiting."""
    waited = []
    monkeypatch.setattr(retry.Retry, "_wait", lambda _, seconds: waited.append(seconds))
    return waited


def test_an_outage_is_waited_for_longer_and_longer_and_told_once(said, waits):
    gone = [ServiceRequestError("refused")] * 7
    assert StorageRetry(600, said.append).call(scripted(*gone, "here")) == "here"
    assert [round(wait, 1) for wait in waits] == [0.5, 1, 2, 4, 8, 15, 15]
    assert said == [
        "storage does not respond (connection refused); retrying for 10 minutes",
        "storage responds again",
    ]


def test_a_busy_service_says_itself_how_long(said, waits):
    busy = answering(503, {"Retry-After": "7"})
    assert StorageRetry(600, said.append).call(scripted(busy, "here")) == "here"
    assert waits == [7]


def test_a_busy_service_may_say_until_when(said, waits):
    until = format_datetime(datetime.now(UTC) + timedelta(seconds=40), usegmt=True)
    busy = answering(503, {"Retry-After": until})
    assert StorageRetry(600, said.append).call(scripted(busy, "here")) == "here"
    assert 30 < waits[0] <= 40


@pytest.mark.parametrize("asked", ["soon", "-5", "Wed, 21 Oct 2015 07:28:00 GMT"])
def test_a_pause_that_is_past_or_unreadable_is_replaced_by_the_usual_one(said, waits, asked):
    busy = answering(503, {"Retry-After": asked})
    assert StorageRetry(600, said.append).call(scripted(busy, "here")) == "here"
    assert waits == [0.5]


@pytest.mark.parametrize("status", [400, 403, 404, 409, 412])
def test_a_refusal_is_not_repeated(said, waits, status):
    with pytest.raises(HttpResponseError):
        StorageRetry(600, said.append).call(scripted(answering(status), "here"))
    assert waits == []


def test_a_token_that_cannot_be_had_without_network_is_waited_for(said, waits):
    away, signed_out = ClientAuthenticationError("failed"), ClientAuthenticationError("expired")
    away.__cause__ = ServiceRequestError("no route")
    assert StorageRetry(600, said.append).call(scripted(away, "here")) == "here"
    with pytest.raises(ClientAuthenticationError, match="expired"):
        StorageRetry(600, said.append).call(scripted(signed_out))


def test_repeating_ends_with_its_time(said, waits, monkeypatch):
    clock = iter(range(0, 10_000, 100))
    # Not of the module itself: the other threads of this process live by it.
    monkeypatch.setattr(retry, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    with pytest.raises(ServiceRequestError):
        StorageRetry(250, said.append).call(scripted(*[ServiceRequestError("gone")] * 20))
    assert len(waits) == 3


def test_who_is_stopped_while_waiting_ends():
    waiting = StorageRetry(600, lambda text: waiting.stop())
    with pytest.raises(StoppedError):
        waiting.call(scripted(*[ServiceRequestError("gone")] * 20))


def test_azure_is_asked_again_at_the_same_pace_and_told_once(said, waits):
    away = UnreachableError("no response from host\ncheck the network")
    assert AzureRetry(600, said.append, 5).call(scripted(away, away, away, "here")) == "here"
    assert waits == [5, 5, 5]
    assert said == [
        "no response from Azure; retrying, a running job is not affected (no response from host)",
        "Azure responds again",
    ]


def test_a_busy_azure_is_asked_again_when_it_says(said, waits):
    response = SimpleNamespace(status_code=429, reason="Busy", headers={"Retry-After": "900"})
    busy = UnreachableError("busy", 429)
    busy.__cause__ = HttpResponseError(response=response)
    assert AzureRetry(3600, said.append, 5).call(scripted(busy, "here")) == "here"
    assert waits == [900]
    assert said[0] == "Azure serves no requests now; retrying, a running job is not affected (busy)"


@pytest.mark.parametrize("kind", [AccessError, SignInError])
def test_a_refusal_is_waited_out_only_by_who_was_let_in_before(said, waits, kind):
    asking = AzureRetry(600, said.append, 5)
    with pytest.raises(kind):
        asking.call(scripted(kind("refused"), "here"))
    assert asking.call(scripted("before")) == "before"
    assert asking.call(scripted(kind("refused"), "here")) == "here"
    with pytest.raises(kind):
        asking.call(scripted(kind("refused"), "here"), unless=(kind,))


def test_what_no_waiting_changes_is_raised_at_once(said, waits):
    with pytest.raises(MissingError):
        AzureRetry(600, said.append, 5).call(scripted(MissingError("gone"), "here"))
    assert (waits, said) == ([], [])


def test_the_first_failure_ends_all_threads_and_is_raised(said):
    waiting, begun = StorageRetry(600, said.append), []

    def work(number):
        begun.append(number)
        if number == 5:
            raise ValueError("the fifth")
        waiting.check()

    with pytest.raises(ValueError, match="the fifth"):
        for_each(range(100_000), work, 4, waiting)
    # The others may begin some more until they see it, but not all.
    assert len(begun) < 100_000


def test_each_item_is_worked_on_once(said):
    lock, seen = threading.Lock(), []

    def work(number):
        with lock:
            seen.append(number)

    for_each(range(1000), work, 8, StorageRetry(1, said.append))
    assert sorted(seen) == list(range(1000))


class Answers(HttpTransport[Any, Any]):
    """A network at whose end is blob storage that gives the answers of a script."""

    def __init__(self, *answers):
        self.answers, self.asked = list(answers), []

    def send(self, request, **options):
        self.asked.append(request.method)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        status, headers, body = answer
        response = requests.Response()
        response.status_code, response.headers = status, CaseInsensitiveDict(headers)
        response.raw = HTTPResponse(BytesIO(body), headers, status, preload_content=False)
        return RequestsTransportResponse(request, response)

    def open(self):
        """Nothing needs to be opened."""

    def close(self):
        """Nothing needs to be closed."""

    def __exit__(self, *_):
        """Nothing needs to be closed."""


def container(answers, policy):
    url = "https://account.blob.core.windows.net/data"
    return ContainerClient.from_container_url(url, transport=answers, retry_policy=policy)


EMPTY = {"Content-Type": "application/xml"}
LISTED = b"<EnumerationResults><Blobs/><NextMarker/></EnumerationResults>"


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_a_client_asks_a_busy_storage_again_when_it_says(said, waits, status):
    busy = (status, {"Retry-After": "7"}, b"")
    answers = Answers(busy, ServiceRequestError("gone"), (200, EMPTY, LISTED))
    client = container(answers, StorageRetryPolicy(StorageRetry(600, said.append)))
    assert list(client.list_blobs()) == []
    assert waits == [7, 1]
    assert said == [
        f"storage does not respond (status {status}); retrying for 10 minutes",
        "storage responds again",
    ]


def test_a_client_does_not_repeat_a_refusal_and_gives_up_a_busy_storage_in_time(said, waits):
    answers = Answers((403, {}, b""))
    client = container(answers, StorageRetryPolicy(StorageRetry(600, said.append)))
    with pytest.raises(HttpResponseError):
        client.get_container_properties()
    answers = Answers((503, {}, b""))
    client = container(answers, StorageRetryPolicy(StorageRetry(0, said.append)))
    with pytest.raises(HttpResponseError) as error:
        client.get_container_properties()
    assert (error.value.status_code, waits) == (503, [])


def test_a_client_whose_work_was_stopped_sends_nothing_more(said):
    answers, stopped = Answers(), StorageRetry(600, said.append)
    stopped.stop()
    with pytest.raises(StoppedError):
        list(container(answers, StorageRetryPolicy(stopped)).list_blobs())
    assert answers.asked == []


def download(say, *answers):
    """Download a small blob; return its content and the number of requests."""
    asked = Answers(*answers)
    client = container(asked, StorageRetryPolicy(StorageRetry(600, say)))
    return client.download_blob("x", validate_content=True).readall(), len(asked.asked)


def part(checked, sent):
    """Return a response with the MD5 of one content and the bytes of another."""
    checksum = b64encode(md5(checked).digest()).decode()
    headers = {"Content-Length": "4", "Content-Range": "bytes 0-3/4", "Content-MD5": checksum}
    return (206, {**headers, "Last-Modified": "Mon, 23 Nov 2026 01:00:00 GMT"}, sent)


def test_a_damaged_range_is_requested_again_but_not_for_ever(said, waits):
    damaged, whole = part(b"evil", b"good"), part(b"good", b"good")
    assert download(said.append, damaged, whole) == (b"good", 2)
    with pytest.raises(AzureError, match="MD5 mismatch"):
        download(said.append, *[damaged] * 3)
    assert (waits, said) == ([], [])


def test_a_connection_that_is_cut_within_a_range_costs_only_time(said, waits):
    cut, whole = part(b"good", b"go"), part(b"good", b"good")
    assert download(said.append, *[cut] * 5, whole) == (b"good", 6)
    assert len(waits) == 5


def test_what_was_there_before_is_looked_for_again_for_some_minutes(said, waits, monkeypatch):
    asking = AzureRetry(3600, said.append, 5)
    assert asking.call(scripted("before")) == "before"
    assert asking.call(scripted(MissingError("gone"), "here")) == "here"
    clock = iter(range(0, 10_000, 100))
    monkeypatch.setattr(retry, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    with pytest.raises(MissingError):
        asking.call(scripted(*[MissingError("gone")] * 20))
    assert len(waits) == 4
