"""Many runs: their number, and that totals are those of the runs."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import ConfigError
from jobs.extras.estimate.choosing.campaign import Campaign, read_share
from jobs.extras.estimate.command import PlanOptions
from tests.jobs.extras.estimate.support import NDV2, choice

BEGIN = date(2026, 11, 25)
ONE = choice(NDV2)
COUNTS = st.integers(1, 40)


def test_failed_runs_are_paid_for_as_whole_ones():
    campaign = Campaign(12, 3, 8, 0.1)
    assert campaign.count == 12 * 3 + 8 + 5
    assert str(campaign) == "12 runs x 3 seeds + 8 trials + 10% that fail = 49 runs, 1 at a time"
    assert Campaign().single


@given(COUNTS, COUNTS, st.integers(0, 9), st.integers(1, 9), st.floats(0, 500))
def test_months_add_up_to_the_total_and_the_total_to_the_runs(runs, seeds, trials, parallel, month):
    campaign = Campaign(runs, seeds, trials, 0.0, parallel, month)
    whole, hours = campaign.money(ONE), campaign.hours(ONE)
    platform = month * hours.middle / 730
    assert whole.middle == pytest.approx(campaign.count * ONE.money.middle + platform)
    assert hours.middle >= ONE.hours.middle * campaign.count / parallel - 1e-9
    parts = campaign.by_month(ONE, BEGIN)
    assert sum(span.middle for _, span in parts) == pytest.approx(whole.middle)
    assert sum(span.high for _, span in parts) == pytest.approx(whole.high)
    names = [name for name, _ in parts]
    assert names == sorted(names)
    assert names[0] == "2026-11"


@given(COUNTS, st.integers(1, 9), st.floats(1, 1e4))
def test_a_run_within_its_limits_keeps_the_campaign_within_them(runs, parallel, limit):
    campaign = Campaign(runs, parallel=parallel)
    hours, money = campaign.of_run(limit, limit)
    rounds = -(-runs // parallel)
    assert hours * rounds == pytest.approx(limit)
    assert money * campaign.count == pytest.approx(limit)


@pytest.mark.parametrize("text", ["", "10", "100%", "-1%", "some"])
def test_another_share_is_refused(text):
    with pytest.raises(ConfigError, match="--failed"):
        read_share(text)


def test_the_deadline_of_a_plan_is_that_of_all_of_its_runs():
    options = PlanOptions(runs=4, seeds=2, deadline="10d", parallel=2)
    assert options.wish.hours == 60
    assert PlanOptions(runs=4, budget=100.0).wish.money == 25
    with pytest.raises(ConfigError, match="--begin"):
        PlanOptions(begin="soon")
