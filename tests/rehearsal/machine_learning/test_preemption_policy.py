"""When a job is pre-empted by chance, and what becomes of it."""

import pytest

from rehearsal.machine_learning.preemption_policy import (
    run_after_preemption,
    seconds_until_preemption,
)


def times(seed=7, start=0):
    return [seconds_until_preemption(seed, f"job-{n}", start, 2, 60.0) for n in range(2000)]


def test_a_seed_repeats_the_chance_of_pre_emptions():
    assert times() == times()
    assert times()[0] != times(seed=8)[0]
    # A job that is started again is not pre-empted at the same step for ever.
    assert times()[0] != times(start=1)[0]


def test_two_nodes_lose_the_first_of_them_twice_as_soon_as_one():
    # Each stays 60 s on average.
    assert sum(times()) / len(times()) == pytest.approx(30.0, rel=0.1)


@pytest.mark.parametrize(
    ("manner", "status"), [("restart", "Queued"), ("cancel", "Canceled"), ("fail", "Failed")]
)
def test_a_pre_empted_job_is_queued_canceled_or_failed(manner, status):
    changes = run_after_preemption(manner)
    assert changes["status"] == status
    assert ("error" in changes) == (manner == "fail")
