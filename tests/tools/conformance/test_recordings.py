"""Recorded calls judge: each difference has a reason, and each reason a difference."""

import pytest

from tools.conformance import page, recordings
from tools.conformance.recordings import Rule, is_recorded, verdict
from tools.conformance.sent import Sent
from tools.conformance.verdict import ConformanceError, Refusal

ROW = {"kind": "GET A.B/c", "status": 200, "count": 3, "differences": {"missing x": 1}}
RULE = Rule("* a.b/*", ("missing ?",), "Nothing reads it.")


def test_a_difference_without_a_reason_is_refused():
    said = verdict([ROW, {**ROW, "differences": {}}], [])
    assert said.unexplained == (Refusal("GET A.B/c 200: missing x"),)
    assert (said.judged, said.accepted) == ("6 calls, 2 kinds of answer", 1)


def test_a_reason_explains_its_differences():
    assert verdict([ROW], [RULE]).unexplained == ()


def test_a_reason_without_a_difference_is_an_error():
    with pytest.raises(ConformanceError, match="Nothing reads it"):
        verdict([{**ROW, "differences": {}}], [RULE])


def test_each_accepted_difference_has_a_reason():
    known = recordings.rules()
    assert known
    for rule in known:
        assert rule.reason.endswith(".")
        assert rule.differences


def test_a_missing_program_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("RECORDINGS", str(tmp_path))
    with pytest.raises(ConformanceError, match="no program `replay`"):
        recordings.judge(tmp_path)


@pytest.mark.parametrize(
    ("path", "count"),
    [
        ("/subscriptions/s/resourceGroups/g/providers/a.b/C/1", 2),
        ("/subscriptions/s/providers/A.B/c", 2),
        ("/subscriptions/s/resourceGroups/g/providers/A.B/other/1", 0),
        ("/subscriptions", 0),
    ],
)
def test_a_request_is_recorded_by_its_method_and_kind(path, count):
    assert is_recorded(Sent("GET", path, "", "1"), {"GET A.B/c": 2, "PUT A.B/c": 9}) == count


def test_the_page_says_who_judged_each_request():
    text = page.PAGE.read_text()
    assert "recorded calls of Azure" in text
    assert "| GET Microsoft.Storage/storageAccounts" in text
