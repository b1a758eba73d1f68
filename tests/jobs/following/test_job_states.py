"""Descriptions of job states, and when the reason for a long queue time is looked up."""

from datetime import UTC, datetime, timedelta

from jobs.azure.job_records import read_job
from jobs.following.job_states import (
    WAITING,
    continues,
    finalizing,
    hint_due,
    restarted,
    since,
    words,
)


def test_words_name_the_nodes_and_the_cluster():
    assert words("Queued", 1, "gpu") == "queued, waiting for 1 node of gpu"
    assert words("Running", 4, "gpu") == "running on 4 nodes of gpu"
    assert words("SomethingNew", 4, "gpu") == "SomethingNew"


def test_a_queued_job_names_the_day_on_which_it_was_created_unless_it_is_today():
    created = datetime(2026, 11, 26, 23, 58, tzinfo=UTC)
    assert since(created, created + timedelta(seconds=60)) == ""
    assert since(created, created + timedelta(seconds=61)) == " (since 23:58 UTC)"
    assert since(created, created + timedelta(minutes=3)) == " (since 2026-11-26 23:58 UTC)"


def test_only_a_way_back_from_running_is_a_restart():
    assert restarted("Running", "Queued")
    assert restarted("Running", "Preparing")
    assert not restarted("Queued", "Preparing")
    assert not restarted("Running", "Finalizing")
    assert not restarted("Running", "NotResponding")


def test_a_restarted_job_continues_where_its_kind_can():
    assert continues("train") == "which resumes from its newest checkpoint"
    assert continues("score") == continues("prepare") == "which skips files that it has written"
    assert continues("check") == "which begins anew"


def test_hints_come_after_minutes_and_then_ever_so_often():
    assert not hint_due(299, 0)
    assert hint_due(300, 0)
    assert not hint_due(301, 1)
    assert hint_due(7200, 2)
    assert not hint_due(14_399, 3)
    assert hint_due(14_400, 3)


def test_all_states_before_the_program_have_words():
    for status in WAITING:
        assert words(status, 1, "gpu") != status


def test_a_job_whose_outputs_are_uploaded_for_hours_is_told_with_what_is_billed():
    tags = {"run": "a", "budget": "50 USD"}
    body = {"status": "Finalizing", "computeId": "x/gpu", "resources": {"instanceCount": 2},
            "tags": tags}  # fmt: skip
    text = finalizing(read_job({"name": "a-r1", "properties": body}), 7200)
    assert "after 2 h" in text
    assert "2 nodes of gpu are billed, and the time counts toward its budget" in text
    assert "cancel a` ends it and keeps" in text
