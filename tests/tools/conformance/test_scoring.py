"""The report of schemathesis becomes a verdict."""

import pytest

from tools.conformance import scoring
from tools.conformance.scoring import verdict
from tools.conformance.verdict import ConformanceError

REPORT = {
    "schemathesis_version": "4",
    "operations": {"tested": 3},
    "test_cases": {"generated": 50, "with_failures": 2},
    "failures": [
        {"title": "Server error", "operations": ["POST /score"]},
        {"title": "Undocumented status", "operations": ["GET /", "POST /score"]},
    ],
}


def test_each_failure_of_an_operation_is_a_refusal(monkeypatch):
    found = verdict(REPORT)
    assert (found.accepted, found.judged) == (48, "50 requests to 3 operations")
    texts = ["Server error: POST /score", "Undocumented status: GET /"]
    assert [one.what for one in found.unexplained][:2] == texts
    monkeypatch.setattr(scoring, "REASONS", {"Undocumented status": "of the server itself"})
    assert [one.what for one in verdict(REPORT).unexplained] == texts[:1]
    monkeypatch.setattr(scoring, "REASONS", {"Redirect": "is not sent any more"})
    with pytest.raises(ConformanceError, match="delete its reason"):
        verdict(REPORT)
