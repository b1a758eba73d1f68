"""When a run is submitted again, and the reason when it is not."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.evictions import evidence
from jobs.exit_status import BUDGET_USED, CANCELED, NOT_RESUBMITTED
from jobs.following.resubmit_policy import (
    FAILED,
    AttemptResult,
    NodesSeen,
    Resubmit,
    Stop,
    decide,
)
from jobs.options import ResubmitOptions
from jobs.spec.budget_policy import Budget
from jobs.spec.job_spec import LIFETIME_HOURS
from tests.jobs.support.platform import platform

LENT = platform().clusters["gpu"]
OWN = replace(LENT, priority="Dedicated")
OPTIONS = ResubmitOptions(attempts=3, backoff_seconds=60, longest_backoff_seconds=100)
OPTED_IN = replace(OPTIONS, canceled=True)
DAY = 86_400

PREEMPTED = AttemptResult(
    "Failed",
    messages=(
        "UserError",
        "AzureMLCompute job failed. PreemptionError: Nodes of this job got pre-empted. Check if the"
        " run has failed or restarted. Reason: Received pre-emption warning signal",
    ),
)
CANCELLED = AttemptResult("Canceled", seconds=3600)
WEEK_OVER = AttemptResult("Canceled", seconds=7 * DAY - 60, timeout_seconds=7 * DAY)
FAILED_BY_CODE = AttemptResult("Failed", messages=("Execution failed.",), exit_code=1)
PEER = AttemptResult("Failed", exit_code=6)
HUNG = AttemptResult("Failed", exit_code=7)
STOPPED = AttemptResult("Failed", exit_code=143)
NO_ROLE = AttemptResult(
    "Failed",
    messages=("UserError", "ScriptExecution.StreamAccess.Authentication: permission denied"),
)
SETUP = AttemptResult("Failed", begun=False, nodes=NodesSeen(2, 1, 1, 5))


@pytest.mark.parametrize(
    ("history", "expected", "why"),
    [
        # It has done its work.
        ([AttemptResult("Completed")], 22, "could not be read"),
        ([AttemptResult("Completed", trains=False)], 0, "completed"),
        ([AttemptResult("Completed", trained=True)], 0, "training completed"),
        ([PREEMPTED, PREEMPTED, AttemptResult("Completed", trained=True)], 0, "training completed"),
        ([replace(PREEMPTED, trained=True)], 0, "training completed"),
        ([replace(CANCELLED, trained=True)], 0, "training completed"),
        # It was taken away.
        ([PREEMPTED], Resubmit, "PreemptionError"),
        ([PREEMPTED, PREEMPTED], Resubmit, "attempt 3 of 3"),
        ([replace(PREEMPTED, status="Canceled")], Resubmit, "PreemptionError"),
        ([replace(PREEMPTED, exit_code=137)], Resubmit, "PreemptionError"),
        ([AttemptResult("Failed", messages=("NodeLost",))], Resubmit, "NodeLost"),
        ([AttemptResult("Failed", messages=("2 nodes were lost",))], Resubmit, "nodes were lost"),
        ([STOPPED], Resubmit, "asked to stop from outside"),
        ([PEER], Resubmit, "status 6"),
        ([HUNG], Resubmit, "status 7"),
        ([replace(PEER, exit_code=9)], Resubmit, "out of memory: it continues with the same"),
        ([replace(PEER, exit_code=9)] * 2, 9, "failed by its own error"),
        ([replace(PEER, exit_code=9, trains=False)], 9, "failed by its own error"),
        ([PEER, PREEMPTED], Resubmit, "PreemptionError"),
        ([replace(PREEMPTED, exit_code=6), PEER], Resubmit, "status 6"),
        ([WEEK_OVER], Resubmit, "7 days"),
        # It was taken away while it was set up, whatever Azure says.
        ([replace(SETUP, messages=("Failed to pull the image",))], Resubmit, "never started"),
        ([replace(SETUP, messages=("could not mount",))] * 2, Resubmit, "1 of its 2 nodes left"),
        ([replace(SETUP, messages=("container exited",))] * 3, NOT_RESUBMITTED, "only 3 attempts"),
        ([replace(SETUP, nodes=NodesSeen(2, 2, 1, 5))], FAILED, "its own error"),
        ([replace(SETUP, nodes=NodesSeen(2, 1, 1, 61))], FAILED, "its own error"),
        ([replace(SETUP, nodes=None)], FAILED, "its own error"),
        ([replace(SETUP, begun=True)], FAILED, "its own error"),
        ([replace(SETUP, messages=("Image build failed",))], FAILED, "its own error"),
        ([replace(SETUP, messages=NO_ROLE.messages)], FAILED, "has no role on a container"),
        # One of several nodes, twice in a row.
        ([PEER, replace(PEER, nodes=NodesSeen(4, 3, 1, 5))], Resubmit, "3 of its 4 nodes left"),
        ([PEER, replace(PEER, nodes=NodesSeen(4, 4, 0, 5))], 6, "twice in a row"),
        # It was taken away too often.
        ([PREEMPTED] * 3, NOT_RESUBMITTED, "allows only 3 attempts"),
        ([PREEMPTED] * 5, NOT_RESUBMITTED, "allows only 3 attempts"),
        ([replace(CANCELLED, nodes=NodesSeen(2, 0, 0, 5))], Resubmit, "has 0 of its 2 nodes left"),
        ([replace(CANCELLED, nodes=NodesSeen(2, 1, 1, 5))], Resubmit, "1 pre-empted"),
        # A user wanted its end.
        ([replace(CANCELLED, nodes=NodesSeen(1, 1, 3, 5))], CANCELED, "without evidence"),
        ([replace(CANCELLED, nodes=NodesSeen(2, 0, 2, 61))], CANCELED, "without evidence"),
        (
            [replace(CANCELLED, nodes=NodesSeen(2, 0, 2, 5), seconds=0)],
            CANCELED,
            "without evidence",
        ),
        (
            [replace(CANCELLED, nodes=NodesSeen(2, 0, 2, 5), canceled_by_us=True)],
            CANCELED,
            "by `cancel`",
        ),
        (
            [replace(CANCELLED, nodes=NodesSeen(2, 0, 2, 5), timeout_seconds=3600)],
            CANCELED,
            "--timeout-hours",
        ),
        ([CANCELLED], CANCELED, "without evidence of pre-emption"),
        ([PREEMPTED, CANCELLED], CANCELED, "without evidence of pre-emption"),
        ([replace(CANCELLED, canceled_by_us=True)], CANCELED, "by `cancel`"),
        ([replace(PREEMPTED, canceled_by_us=True)], CANCELED, "by `cancel`"),
        ([replace(CANCELLED, timeout_seconds=3600)], CANCELED, "--timeout-hours"),
        # It is broken.
        ([FAILED_BY_CODE], 1, "its own error"),
        ([AttemptResult("Failed")], FAILED, "its own error"),
        ([NO_ROLE], FAILED, "has no role on a container"),
        ([PREEMPTED, NO_ROLE], FAILED, "make up"),
        ([replace(NO_ROLE, exit_code=1)], 1, "its own error"),
        ([replace(PREEMPTED, exit_code=2)], 2, "its own error"),
        ([replace(PREEMPTED, exit_code=5)], 5, "its own error"),
        ([AttemptResult("Failed", exit_code=3)], 3, "its own error"),
        ([AttemptResult("Failed", exit_code=4)], 4, "its own error"),
        ([AttemptResult("Failed", exit_code=137)], 137, "its own error"),
        ([PREEMPTED, FAILED_BY_CODE], 1, "its own error"),
        ([PEER, PEER], 6, "twice in a row"),
        ([PEER, HUNG], 7, "twice in a row"),
        ([AttemptResult("Completed", trained=False)], FAILED, "not trained all"),
        (
            [AttemptResult("Completed", trained=False, messages=PREEMPTED.messages)],
            FAILED,
            "not trained",
        ),
    ],
)
def test_what_follows_from_a_history(history, expected, why):
    decision = decide(history, OPTIONS, LENT)
    assert why in decision.reason
    if expected is Resubmit:
        assert isinstance(decision, Resubmit)
        assert decision.number == len(history) + 1
    else:
        assert isinstance(decision, Stop)
        assert decision.exit_code == expected


def test_what_someone_cancelled_is_submitted_again_when_it_was_opted_in():
    assert isinstance(decide([CANCELLED], OPTED_IN, LENT), Resubmit)


def test_a_person_who_submits_a_run_again_begins_to_count_anew():
    anew = replace(PREEMPTED, by_person=True)
    assert isinstance(decide([PREEMPTED] * 3 + [PREEMPTED], OPTIONS, LENT), Stop)
    decision = decide([PREEMPTED] * 3 + [anew], OPTIONS, LENT)
    assert (decision.number, decision.delay) == (5, 60)
    assert "attempt 5 follows, 2 of 3 since it was last submitted by a user" in decision.reason
    assert isinstance(decide([anew] + [PREEMPTED] * 2, OPTIONS, LENT), Stop)


def test_a_loss_before_a_person_submitted_again_is_none_in_a_row():
    assert isinstance(decide([PEER, replace(PEER, by_person=True)], OPTIONS, LENT), Resubmit)


@pytest.mark.parametrize(
    "result", [replace(CANCELLED, canceled_by_us=True), replace(CANCELLED, timeout_seconds=3600)]
)
def test_opting_in_takes_back_no_wish_of_ones_own(result):
    assert isinstance(decide([result], OPTED_IN, LENT), Stop)


def test_a_run_whose_cluster_is_gone_is_not_submitted_again_and_says_what_to_do():
    decision = decide([PREEMPTED], OPTIONS, None)
    assert isinstance(decision, Stop)
    assert "the stack does not have its cluster any more. Its checkpoints" in decision.reason
    assert "--name KEY and --cluster NAME" in decision.reason
    assert decide([AttemptResult("Completed", trained=True)], OPTIONS, None).exit_code == 0
    assert decide([WEEK_OVER], OPTIONS, None).exit_code == CANCELED


@pytest.mark.parametrize(
    ("result", "cluster"),
    [(PREEMPTED, None), (replace(PREEMPTED, by_person=True), None), (WEEK_OVER, OWN)],
)
def test_a_job_that_has_no_checkpoints_is_not_said_to_have_some(result, cluster):
    assert "checkpoint" in decide([result], OPTIONS, cluster).reason
    reason = decide([replace(result, trains=False)], OPTIONS, cluster).reason
    assert "checkpoint" not in reason
    assert " continues" in reason


def test_nodes_of_ones_own_live_longer():
    assert isinstance(decide([WEEK_OVER], OPTIONS, OWN), Stop)
    assert isinstance(decide([replace(WEEK_OVER, seconds=21 * DAY)], OPTIONS, OWN), Resubmit)


def test_the_log_is_shown_of_what_failed_and_not_of_what_was_taken():
    shown = [decide([result], OPTIONS, LENT) for result in (FAILED_BY_CODE, CANCELLED)]
    assert [stop.show_log for stop in shown] == [True, False]


@pytest.mark.parametrize(
    "text",
    ["Execution failed.", "the loss was lost in the logs", "exemption", "nodes: 4", "User error"],
)
def test_other_messages_are_no_evidence(text):
    assert evidence([text]) is None


def test_the_first_message_with_evidence_is_the_reason():
    assert evidence(["Failed", "node has been lost", "pre-empted"]) == "node has been lost"


results = st.builds(
    AttemptResult,
    status=st.sampled_from(["Completed", "Failed", "Canceled"]),
    seconds=st.floats(0, 30 * DAY),
    timeout_seconds=st.none() | st.floats(1, 30 * DAY),
    messages=st.lists(st.sampled_from([*PREEMPTED.messages, "other"])).map(tuple),
    exit_code=st.none() | st.integers(0, 255),
    canceled_by_us=st.booleans(),
    trained=st.none() | st.booleans(),
    trains=st.booleans(),
    by_person=st.booleans(),
)
choices = st.builds(
    ResubmitOptions,
    attempts=st.integers(1, 99),
    backoff_seconds=st.floats(0, 1000),
    longest_backoff_seconds=st.floats(1000, 10_000),
    canceled=st.booleans(),
)


@given(st.lists(results, min_size=1, max_size=120), choices, st.sampled_from([LENT, OWN]))
def test_a_run_comes_to_an_end_and_says_why(history, options, cluster):
    decision = decide(history, options, cluster)
    assert decision.reason
    if isinstance(decision, Resubmit):
        assert decision.number == len(history) + 1
        assert 0 <= decision.delay <= options.longest_backoff_seconds
        assert not history[-1].canceled_by_us
        assert history[-1].status != "Completed"


@given(st.lists(results, min_size=1, max_size=5), choices)
def test_only_a_trained_run_ends_with_status_0(history, options):
    decision = decide(history, options, LENT)
    last = history[-1]
    done = last.trained or (last.status == "Completed" and not last.trains)
    assert done == (isinstance(decision, Stop) and decision.exit_code == 0)


def test_pauses_double_up_to_the_longest():
    options = ResubmitOptions(attempts=6, backoff_seconds=10, longest_backoff_seconds=60)
    delays = [decide([PREEMPTED] * count, options, LENT).delay for count in range(1, 6)]
    assert delays == [10, 20, 40, 60, 60]


@given(choices)
def test_pauses_never_get_shorter(options):
    delays = [
        decision.delay
        for count in range(1, options.attempts)
        if isinstance(decision := decide([PREEMPTED] * count, options, LENT), Resubmit)
    ]
    assert len(delays) == options.attempts - 1
    assert delays == sorted(delays)
    assert delays[:1] in ([], [options.backoff_seconds])


def test_the_days_are_those_of_the_quota():
    assert {name: hours / 24 for name, hours in LIFETIME_HOURS.items()} == {
        "LowPriority": 7,
        "Dedicated": 21,
    }


BUDGET = Budget(50, "USD", 4.41, nodes=2)
USED_UP = replace(BUDGET, spent=49.9)
OUT_OF_TIME = AttemptResult("Failed", exit_code=8)


@pytest.mark.parametrize(
    ("last", "budget", "status", "why"),
    [
        (OUT_OF_TIME, USED_UP, BUDGET_USED, "has cost about 49.90 USD of 50.00 USD"),
        (OUT_OF_TIME, USED_UP, BUDGET_USED, "--budget above 51.37 USD resumes from them"),
        # A run that was stopped by --max-seconds alone has no budget to raise.
        (OUT_OF_TIME, None, 8, "stopped at its --max-seconds"),
        (PREEMPTED, USED_UP, BUDGET_USED, "PreemptionError.*not submitted again.*about 49.90 USD"),
        (AttemptResult("Canceled", 100, 100), USED_UP, BUDGET_USED, "cancelled at its timeout, as"),
        # Its own timeout came before the end of its budget.
        (AttemptResult("Canceled", 100, 100), BUDGET, CANCELED, "higher --timeout-hours"),
        (replace(OUT_OF_TIME, canceled_by_us=True), USED_UP, CANCELED, "cancelled by `cancel`"),
        (replace(OUT_OF_TIME, trained=True), USED_UP, 0, "training completed"),
        (FAILED_BY_CODE, USED_UP, FAILED, "failed by its own error"),
    ],
)
def test_a_run_that_has_used_up_its_budget_is_not_submitted_again(last, budget, status, why):
    decision = decide([last], OPTIONS, LENT, budget)
    assert isinstance(decision, Stop)
    assert decision.exit_code == status
    assert re.search(why, decision.reason)


def test_a_run_with_some_budget_left_is_submitted_again():
    assert isinstance(decide([PREEMPTED], OPTIONS, LENT, BUDGET), Resubmit)


SPOT = replace(BUDGET, spent=10, at_most=22.03)


def test_a_budget_that_the_price_of_spot_has_left_over_pays_for_further_attempts():
    decision = decide([OUT_OF_TIME] * 9, OPTIONS, LENT, SPOT)
    # Its nodes are still allocated, and the number of attempts limits interruptions.
    assert (decision.number, decision.delay) == (10, 0.0)
    assert "pays for at 22.03 USD an hour" in decision.reason
    assert "has cost about 10.00 USD of 50.00 USD" in decision.reason
    assert isinstance(decide([OUT_OF_TIME] * 9 + [PREEMPTED], OPTIONS, LENT, SPOT), Resubmit)
    assert isinstance(decide([OUT_OF_TIME], OPTIONS, LENT, replace(SPOT, spent=45)), Stop)
    assert isinstance(decide([OUT_OF_TIME], OPTIONS, None, SPOT), Stop)


@pytest.mark.parametrize(("days", "cluster"), [(7, LENT), (21, OWN)])
def test_an_attempt_that_was_saved_before_azures_limit_is_followed_by_another(days, cluster):
    longest = days * DAY
    saved = replace(OUT_OF_TIME, seconds=longest - 300, timeout_seconds=longest)
    decision = decide([saved] * 9, OPTIONS, cluster, replace(BUDGET, longest_seconds=longest))
    assert (decision.number, decision.delay) == (10, 0.0)
    assert f"saved before Azure ends it after {days} days" in decision.reason


def test_an_attempt_that_was_saved_before_its_own_timeout_is_the_last_one():
    saved = replace(OUT_OF_TIME, seconds=3300, timeout_seconds=3600)
    stop = decide([saved], OPTIONS, LENT, replace(SPOT, longest_seconds=3600))
    assert (stop.exit_code, stop.show_log) == (8, False)
    assert "stopped before its --timeout-hours; its state is saved" in stop.reason
    used_up = replace(USED_UP, longest_seconds=3600)
    assert decide([saved], OPTIONS, LENT, used_up).exit_code == BUDGET_USED
    # Its budget was shorter than its timeout.
    assert isinstance(decide([saved], OPTIONS, LENT, replace(SPOT, longest_seconds=DAY)), Resubmit)


MOVED = AttemptResult("Canceled", exit_code=143, moved="gpu:4 did not come within 15 min")


def test_an_attempt_that_a_supervisor_has_ended_is_followed_by_one_elsewhere():
    decision = decide([MOVED] * 9, OPTIONS, LENT)
    assert (decision.number, decision.delay) == (10, 0.0)
    assert decision.reason == "moved, as gpu:4 did not come within 15 min; attempt 10 follows"
    # Moves do not count as interruptions.
    assert isinstance(decide([MOVED] * 9 + [PREEMPTED], OPTIONS, LENT), Resubmit)
    assert decide([replace(MOVED, canceled_by_us=True)], OPTIONS, LENT).exit_code == CANCELED
    assert decide([replace(MOVED, trained=True)], OPTIONS, LENT).exit_code == 0
    assert decide([MOVED], OPTIONS, LENT, USED_UP).exit_code == BUDGET_USED


def test_nodes_that_are_gone_say_nothing_on_a_dedicated_cluster():
    gone = replace(CANCELLED, nodes=NodesSeen(2, 0, 2, 5))
    assert isinstance(decide([gone], OPTIONS, OWN), Stop)
    assert isinstance(decide([gone], OPTIONS, None), Stop)
