"""Azure's responses about a job become plain data, which tells how an attempt ended."""

from datetime import UTC, datetime

import pytest

from jobs.azure.job_records import (
    duration_seconds,
    exit_code,
    move,
    parse_time,
    read_details,
    read_job,
)
from jobs.following.resubmit_policy import Resubmit, Stop, decide
from jobs.following.supervisor import attempt_result
from jobs.options import ResubmitOptions
from tests.jobs.support.platform import platform

WORKSPACE = (
    "/subscriptions/s/resourceGroups/g/providers/Microsoft.MachineLearningServices/workspaces/w"
)


def job(**properties):
    body = {
        "status": "Failed",
        "computeId": f"{WORKSPACE}/computes/gpu",
        "resources": {"instanceCount": 4},
        "limits": {"timeout": "P7D"},
        "tags": {"run": "night", "attempt": "2", "kind": "train"},
        **properties,
    }
    created = {"createdAt": "2026-11-22T04:32:58.0698751Z"}
    return read_job({"name": "night-r2", "properties": body, "systemData": created})


def details(**answer):
    return read_details({"status": "Failed", **answer})


def failed(*texts, code="UserError"):
    return details(
        error={
            "error": {
                "code": code,
                "message": texts[0],
                "details": [{"message": t} for t in texts[1:]],
            }
        },
        startTimeUtc="2026-11-22T04:00:00Z",
        endTimeUtc="2026-11-22T05:00:00Z",
    )


def test_a_job_says_which_attempt_of_which_run_it_is_and_where_it_runs():
    found = job()
    assert (found.run, found.attempt.number, found.kind) == ("night", 2, "train")
    assert (found.cluster, found.nodes, found.timeout_seconds) == ("gpu", 4, 7 * 86_400)
    assert found.created == datetime(2026, 11, 22, 4, 32, 58, 69875, UTC)


def test_a_job_of_another_program_is_no_attempt_whatever_its_name():
    found = job(tags={})
    assert found.attempt is None
    assert found.run == "night-r2"


def test_a_job_that_azure_tells_nothing_of_is_still_read():
    found = read_job({"name": "x", "properties": {}})
    assert (found.status, found.cluster, found.nodes, found.ended) == ("Unknown", "", 1, False)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("PT6H", 21_600), ("P7D", 604_800), ("PT90M", 5400), ("P1DT1H1M1.5S", 90_061.5), ("PT5S", 5)],
)
def test_durations_are_read_as_azure_writes_them(text, seconds):
    assert duration_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "P", "PT", "6 hours", "P1Y", "-PT5S"])
def test_what_is_no_duration_is_none(text):
    assert duration_seconds(text) is None


@pytest.mark.parametrize(
    "text",
    ["2026-11-22T04:00:00Z", "2026-11-22T04:00:00.0000000Z", "2026-11-22T05:00:00+01:00",
     "2026-11-22T04:00:00.000+00:00", "2026-11-22T04:00:00"],
)  # fmt: skip
def test_times_are_read_in_all_of_azures_forms(text):
    assert parse_time(text) == datetime(2026, 11, 22, 4, tzinfo=UTC)


@pytest.mark.parametrize("text", [None, "", "soon", "2026-99-99T00:00:00Z"])
def test_what_is_no_time_is_none(text):
    assert parse_time(text) is None


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Execution failed. User process 'python' exited with status code 4. Please check log", 4),
        ("User program failed with exit code 137", 137),
        ("process exited with code -9", -9),
        ("exit code: 6", 6),
        ("status code 404 from the server", None),
        ("Nodes of this job got pre-empted.", None),
    ],
)
def test_the_programs_status_is_found_in_azures_words(text, code):
    assert exit_code((text,)) == code


def test_messages_come_from_all_depths_of_an_error_and_from_warnings():
    found = details(
        error={
            "error": {
                "code": "UserError",
                "message": "Execution  failed.\n",
                "innerError": {"code": "BadArgument", "innerError": {"code": "PreemptionError"}},
                "details": [{"code": "NodeLost", "message": "node 3"}],
            }
        },
        warnings=[{"source": "history", "message": "One of the nodes was lost"}],
    )
    assert found.messages == (
        "UserError: Execution failed.",
        "BadArgument",
        "PreemptionError",
        "NodeLost: node 3",
        "One of the nodes was lost",
    )


def test_an_error_of_nothing_but_a_text_is_a_message():
    assert details(error="it broke").messages == ("it broke",)
    assert details(error=None).messages == ()


def test_a_result_has_times_status_and_the_marks_of_a_person():
    found = attempt_result(
        job(tags={"run": "night", "canceled_by": "a@b"}),
        failed("exited with status code 6"),
        trained=False,
    )
    assert found.seconds == 3600
    assert found.exit_code == 6
    assert found.canceled_by_us
    assert found.timeout_seconds == 7 * 86_400


def test_a_job_that_never_began_has_a_result_of_no_seconds():
    assert (
        attempt_result(job(), details(endTimeUtc="2026-11-22T05:00:00Z"), trained=None).seconds == 0
    )


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (failed("Nodes of this job got pre-empted.", code="PreemptionError"), None),
        (failed("Execution failed. User process 'python' exited with status code 1."), 1),
        (failed("Execution failed. User process 'python' exited with status code 3."), 3),
        (details(status="Canceled"), 20),
    ],
)
def test_what_azure_tells_decides_whether_it_is_submitted_again(answer, code):
    one = attempt_result(job(status=answer.status), answer, trained=False)
    decision = decide([one], ResubmitOptions(), platform().clusters["gpu"])
    if code is None:
        assert isinstance(decision, Resubmit)
    else:
        assert isinstance(decision, Stop)
        assert decision.exit_code == code


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"status": "Canceled"}, "down: it waits"),
        ({"warnings": [{"message": "exited with status code 143."}]}, "down: it waits"),
        # It trained on, as the request to end it had failed.
        ({"warnings": [{"message": "exited with status code 3."}]}, ""),
        ({"status": "Running"}, ""),
    ],
)
def test_an_attempt_is_moved_only_if_it_was_ended_for_that(answer, expected):
    assert move(job(tags={"moved": "down: it waits"}), details(**answer)) == expected
