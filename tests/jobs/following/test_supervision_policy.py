"""What one look at a run has to do."""

from datetime import UTC, datetime, timedelta

import pytest

from common.errors import UserError
from jobs.exit_status import BUDGET_USED, CANCELED, NOT_RESUBMITTED
from jobs.following.resubmit_policy import RESULT_UNKNOWN, AttemptResult, Resubmit, Stop, decide
from jobs.following.supervision_policy import event_of, look, mark, marked_options
from jobs.options import ResubmitOptions
from tests.jobs.support.platform import platform

NOW = datetime(2026, 11, 23, 3, 0, tzinfo=UTC)


def test_the_mark_holds_when_a_run_is_submitted_again():
    options = ResubmitOptions(attempts=9, backoff_seconds=0.5, canceled=True)
    assert marked_options(mark(options)) == options


@pytest.mark.parametrize(
    "value", ["", "{", "[]", "7", '{"attempts": 0}', '{"attempts": "9"}', '{"later": 1}']
)
def test_a_mark_that_cannot_be_read_is_an_error_that_says_what_to_do(value):
    with pytest.raises(UserError, match=r"'supervise' cannot be read .*--supervise"):
        marked_options({"supervise": value})


def test_an_interrupted_run_is_submitted_once_its_pause_is_over():
    decision = Resubmit(2, 60.0, "nodes were lost")
    early = look(decision, NOW - timedelta(seconds=59), NOW)
    assert (early.action, early.event) == ("wait", None)
    assert early.text == "nodes were lost, in 1 s at the earliest"
    due = look(decision, NOW - timedelta(seconds=60), NOW)
    assert (due.action, due.event) == ("submit", "resubmitted")


def test_without_the_time_of_the_end_there_is_no_pause():
    assert look(Resubmit(2, 1800.0, "nodes were lost"), None, NOW).action == "submit"


@pytest.mark.parametrize(
    ("code", "event"),
    [
        (0, "completed"),
        (1, "failed"),
        (5, "failed"),
        (CANCELED, "canceled"),
        (BUDGET_USED, "budget"),
        (NOT_RESUBMITTED, "interrupted"),
        (RESULT_UNKNOWN, "unknown"),
    ],
)
def test_a_run_that_stays_as_it_is_is_concluded(code, event):
    stop = Stop(code, "why")
    found = look(stop, NOW, NOW)
    assert (found.action, found.text, found.event) == ("conclude", "why", event)
    assert event_of(stop) == event


def test_a_trainer_that_vanished_is_submitted_again_but_not_twice_in_a_row():
    gpu_cluster = platform().clusters["gpu"]
    vanished = AttemptResult("Failed", vanished=True)
    first = decide([vanished], ResubmitOptions(), gpu_cluster)
    assert isinstance(first, Resubmit)
    assert "ended without a report" in first.reason
    second = decide([vanished, vanished], ResubmitOptions(), gpu_cluster)
    assert isinstance(second, Stop)
    assert second.exit_code == 1
    assert "twice in a row" in second.reason
