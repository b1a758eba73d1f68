"""Names of requested resources, and parsing of responses."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from types import SimpleNamespace

import pytest

from jobs.azure.requests import (
    ReportedRetryPolicy,
    Requests,
    name_of,
    read_json,
    segment,
)
from jobs.errors import RequestError

WORKSPACE = "https://management.azure.com/subscriptions/s/resourceGroups/g/providers/x/workspaces/w"


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("", "workspace w"),
        ("/computes/gpu?api-version=1", "compute gpu"),
        ("/jobs/night-r1/cancel", "job night-r1"),
        ("/runs/night-r1/details", "run night-r1"),
        ("/environments/trainer-gpu/versions/5", "environment trainer-gpu:5"),
    ],
)
def test_a_request_is_called_by_the_thing_that_it_is_about(path, name):
    assert name_of(f"{WORKSPACE}{path}") == name


def test_a_host_without_a_path_is_called_by_its_name():
    assert name_of("https://host.example.com/") == "host.example.com"


def test_a_name_stays_one_part_of_a_path():
    assert segment("a/../b?c") == "a%2F..%2Fb%3Fc"


@pytest.mark.parametrize(
    ("hours", "words"), [(72, "72 h 0 min behind"), (-72, "ahead of"), (0, "")]
)
def test_a_clock_that_is_wrong_is_told_once_and_azures_time_is_used(capsys, hours, words):
    requests, azures = Requests(None, None), datetime.now(UTC) + timedelta(hours=hours)
    for _ in range(2):
        requests._set_clock(format_datetime(azures, usegmt=False))
    requests._set_clock("")
    assert abs(requests.now() - azures) < timedelta(seconds=60)
    said = capsys.readouterr().err
    assert words in said
    assert said.count("this machine's clock") == bool(words)


def test_answers_are_json_or_empty():
    assert read_json(b'{"a": 1}', WORKSPACE) == {"a": 1}
    assert read_json(b"", WORKSPACE) is None


def test_what_is_no_json_is_not_azures_answer():
    with pytest.raises(RequestError, match="is not JSON; check for a proxy"):
        read_json(b"<html>sign in to the guest network</html>", WORKSPACE)


@pytest.mark.parametrize(
    ("asked", "pause", "told"),
    [
        (None, None, ""),
        ("2", 2, ""),
        ("30", 30, "retrying in 30 s"),
        ("300", 300, "retrying in 300 s"),
    ],
)
def test_a_long_pause_is_as_azure_asks_and_told(capsys, asked, pause, told):
    headers = {} if asked is None else {"Retry-After": asked}
    answer = SimpleNamespace(http_response=SimpleNamespace(status_code=429, headers=headers))
    assert ReportedRetryPolicy().get_retry_after(answer) == pause
    said = capsys.readouterr().err
    assert told in said
    assert bool(told) == bool(said)


def test_pauses_of_a_request_have_an_end():
    def again(asked, settings):
        headers = {"Retry-After": asked}
        http = SimpleNamespace(status_code=429, headers=headers)
        return ReportedRetryPolicy().is_retry(settings, SimpleNamespace(http_response=http))

    assert not again("7200", {})
    settings = {}
    assert [again("100", settings) for _ in range(4)] == [True, True, True, False]


def test_a_pause_may_be_asked_for_as_a_date():
    until = format_datetime(datetime.now(UTC) + timedelta(seconds=40), usegmt=True)
    for asked, least, most in ((until, 30, 40), ("Wed, 21 Oct 2015 07:28:00 GMT", 0, 0)):
        headers = {"Retry-After": asked}
        answer = SimpleNamespace(http_response=SimpleNamespace(status_code=429, headers=headers))
        assert least <= (ReportedRetryPolicy().get_retry_after(answer) or 0) <= most


def test_a_pause_that_cannot_be_read_is_replaced_by_the_usual_one():
    headers = {"Retry-After": "soon"}
    answer = SimpleNamespace(http_response=SimpleNamespace(status_code=429, headers=headers))
    assert ReportedRetryPolicy().get_retry_after(answer) is None


def test_a_pause_that_grew_long_is_told(capsys):
    retries = ReportedRetryPolicy(retry_backoff_factor=0.5)
    pauses = [
        retries.get_backoff_time({"history": [None] * count, "backoff": 0.5, "max_backoff": 120})
        for count in range(1, 7)
    ]
    assert pauses == sorted(pauses)
    assert capsys.readouterr().err.count("retrying in") == sum(one > 5 for one in pauses) > 0
