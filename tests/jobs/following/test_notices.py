"""Notices reach a webhook, and its address stays a secret."""

import json

import pytest

from common.errors import UserError
from jobs.azure import requests
from jobs.following.notices import Notice, Webhook, configured_webhook

NOTICE = Notice("night", 2, "completed", "training completed", "night-r2", "dev", "https://page")
SECRET = "https://hooks.example.com/services/T0/B0/hush"


def test_the_id_names_run_attempt_and_event():
    assert NOTICE.id == "night/2/completed"
    assert NOTICE.document() == {
        "id": "night/2/completed",
        "title": "night (dev) completed",
        "run": "night",
        "attempt": 2,
        "event": "completed",
        "reason": "training completed",
        "job": "night-r2",
        "stack": "dev",
        "page": "https://page",
    }


@pytest.mark.parametrize("expected", ["json", "slack", "teams"])
@pytest.mark.parametrize("page", ["https://page", None])
def test_each_format_says_what_happened_and_has_the_id(expected, page):
    notice = Notice("night", 2, "failed", "out of luck", "night-r2", "dev", page)
    text = json.dumps(notice.payload(expected))
    for words in ("night/2/failed", "night (dev) failed", "out of luck"):
        assert words in text
    assert ("https://page" in text) == (page is not None)


def test_slack_gets_text_and_teams_an_adaptive_card():
    assert set(NOTICE.payload("slack")) == {"text"}
    teams = NOTICE.payload("teams")
    assert teams["type"] == "message"
    (attachment,) = teams["attachments"]
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    assert attachment["content"]["type"] == "AdaptiveCard"


@pytest.mark.parametrize("address", ["", "hooks", "http://hooks.example.com/x", "ftp://localhost"])
def test_an_address_must_be_https_and_is_not_repeated(address):
    if not address:
        assert configured_webhook(None, {"JOBS_WEBHOOK": address}) is None
        return
    with pytest.raises(UserError, match="must be a URL that begins with https") as caught:
        configured_webhook(None, {"JOBS_WEBHOOK": address})
    assert address not in str(caught.value).replace("https://", "")


def test_an_unknown_format_and_two_addresses_are_refused():
    with pytest.raises(UserError, match="'mail' must be one of json, slack, teams"):
        configured_webhook(None, {"JOBS_WEBHOOK": SECRET, "JOBS_WEBHOOK_FORMAT": "mail"})
    with pytest.raises(UserError, match="set only one"):
        configured_webhook(None, {"JOBS_WEBHOOK": SECRET, "JOBS_WEBHOOK_SECRET": "https://v"})


def test_a_notice_is_sent_once_it_is_accepted(receiver):
    Webhook(receiver.address).send(NOTICE)
    assert receiver.got == [NOTICE.document()]


def test_a_refusal_names_the_notice_and_not_the_address(receiver, monkeypatch):
    monkeypatch.setattr(requests, "BACKOFF_SECONDS", 0.01)
    receiver.answers += [403]
    with pytest.raises(UserError, match="notice night/2/completed: refused with status 403") as one:
        Webhook(receiver.address).send(NOTICE)
    assert "hush" not in str(one.value)


def test_a_webhook_that_is_away_is_told_without_its_address(monkeypatch):
    monkeypatch.setattr(requests, "RETRIES", 0)
    with pytest.raises(UserError, match="notice night/2/completed: no response") as caught:
        Webhook("http://127.0.0.1:9/hush").send(NOTICE)
    assert "hush" not in str(caught.value)
