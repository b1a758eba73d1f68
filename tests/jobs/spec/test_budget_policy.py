"""A budget becomes time limits of each attempt, and one that is too small is refused."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.prices import Price
from jobs.errors import SpecError
from jobs.spec.budget_policy import Budget, limited, with_max_seconds
from tests.jobs.support.platform import platform
from tests.jobs.support.samples import training

amounts = st.floats(0.01, 1e4)
budgets = st.builds(
    Budget,
    limit=amounts,
    currency=st.just("USD"),
    price=st.floats(0.01, 100),
    nodes=st.integers(1, 100),
    spent=st.floats(0, 1e4),
    margin_seconds=st.integers(1, 3600).map(float),
    at_most=st.none() | st.floats(0.01, 100),
    longest_seconds=st.none() | st.integers(3600, 10**6),
)


def test_a_budget_is_time_that_its_nodes_may_run():
    limits = Budget(50, "USD", price=5.0, nodes=2).limits()
    # 10 USD an hour, of which 5 minutes are kept for starting and saving.
    assert (limits.timeout_seconds, limits.max_seconds) == (5 * 3600, 5 * 3600 - 300)


def test_a_shorter_timeout_stays_and_the_trainer_saves_before_it():
    limits = Budget(50, "USD", 5.0, 2, longest_seconds=3600).limits()
    assert (limits.timeout_seconds, limits.max_seconds) == (3600, 3300)


def test_a_timeout_too_short_for_the_margin_is_refused():
    with pytest.raises(SpecError, match=r"--timeout-hours: 0\.125, but .* pass more than 0\.167"):
        Budget(50, "USD", 5.0, 2, longest_seconds=450).limits()


@given(budgets)
def test_no_attempt_may_cost_more_than_is_left(budget):
    longest = budget.longest_seconds or 1e9
    try:
        limits = budget.limits()
    except SpecError:
        assert budget.used_up or longest < 2 * budget.margin_seconds
        return
    highest = max(budget.price, budget.at_most or 0)
    cost = limits.timeout_seconds / 3600 * highest * budget.nodes
    assert budget.spent + cost <= budget.limit * (1 + 1e-9)
    assert limits.max_seconds > 0
    assert limits.max_seconds == limits.timeout_seconds - int(budget.margin_seconds)
    # After it has run to its end, nothing useful is left.
    if limits.timeout_seconds < longest - 1 and budget.price == highest:
        assert budget.after(limits.timeout_seconds).used_up


@given(budgets)
def test_the_tags_of_a_job_tell_every_supervisor_the_same(budget):
    read = Budget.of(budget.tags, budget.nodes)
    assert read.limit == pytest.approx(budget.limit)
    assert read.spent == pytest.approx(budget.spent, abs=1e-6)
    assert read.price == pytest.approx(budget.price)
    assert read.highest == pytest.approx(budget.highest)
    assert read.longest_seconds == budget.longest_seconds
    assert read.tags == Budget.of(read.tags, budget.nodes).tags


@pytest.mark.parametrize(
    "change", [{"budget": "all"}, {"node_price": "0 USD"}, {"budget_margin": ""}]
)
def test_tags_that_are_not_ours_are_no_budget(change):
    assert Budget.of({**Budget(50, "USD", 5.0, 2).tags, **change}, 2) is None
    assert Budget.of({}, 2) is None


def test_a_budget_too_small_for_a_useful_start_is_refused_with_the_figures():
    with pytest.raises(SpecError) as told:
        limited(training(4, platform()), Budget(2, "USD", 4.41, nodes=4, spent=0.5))
    (text,) = told.value.problems
    assert (
        "--budget: 1.50 USD after the 0.5000 USD that earlier attempts cost pays for 4 nodes at"
        in text
    )
    assert (
        "4.41 USD an hour each for 5 min 6 s, but 5 min 0 s are kept for starting and saving"
        in text
    )
    assert "pass more than 3.44 USD, fewer --nodes, or a shorter --budget-margin-minutes" in text
    enough = Budget(3.441, "USD", 4.41, nodes=4, spent=0.5)
    assert limited(training(4, platform()), enough).timeout_seconds == 600


def test_a_training_within_a_budget_stops_by_itself_before_its_job_is_ended():
    before = training(4, platform())
    spec = limited(before, Budget(100, "USD", 5.0, nodes=4))
    assert spec.command == f"{before.command} --max-seconds 17700"
    assert spec.timeout_seconds == 5 * 3600
    assert spec.tags["longest_seconds"] == str(before.timeout_seconds)
    assert spec.tags.items() >= {"budget": "100 USD", "node_price": "5 USD"}.items()
    assert "100.00 USD: pays for 4 nodes at 5.00 USD an hour each for 5 h 0 min" in spec.notes[-1]


def test_a_budget_longer_than_the_timeout_says_when_the_trainer_stops():
    spec = limited(replace(training(4, platform()), timeout_seconds=3600), Budget(100, "USD", 5, 4))
    assert "saves its state and stops 5 min 0 s before its timeout of 60 min 0 s" in spec.notes[-1]


def test_a_budget_on_spot_is_time_at_the_pay_as_you_go_price_and_says_both():
    spot, dedicated = (Price(amount, "USD", "hour", None) for amount in (2.0, 20.0))
    budget = Budget(50, "USD", 9.0, nodes=1).priced(spot, dedicated)
    assert budget.limits().timeout_seconds == 2.5 * 3600
    # It is spent at the highest price that was seen, or that is possible if none was.
    assert budget.after(3600, spot).spent == 2
    assert budget.after(3600, replace(spot, amount=3.0)).spent == 3
    assert budget.after(3600, replace(spot, amount=3.0, currency="EUR")).spent == 20
    assert budget.after(3600).spent == 20
    assert (
        "pays for 1 node at 20.00 USD an hour for 2 h 30 min at the pay-as-you-go price, which"
        in (budget.words())
    )
    assert "for 25 h 0 min at the 2.00 USD of now" in budget.words()
    # 25 hours, each billed at 20 USD and counted at 2.
    assert "at most 50.00 USD, or 500.00 USD if the price rises to 20.00 USD" in budget.words()
    assert budget.after(3600).worst == 20 + 300
    assert budget.worst == 25 * 20
    assert Budget(50, "USD", 9.0, nodes=1).words().endswith("All attempts cost at most 50.00 USD")
    euros = Price(1.0, "EUR", "hour", None)
    assert budget.priced(euros, dedicated) == budget.priced(None, None) == budget
    assert budget.priced(spot, euros).highest == 2


def test_tags_of_an_earlier_version_have_one_price():
    tags = {
        key: text for key, text in Budget(50, "USD", 5.0, 2).tags.items() if "at_most" not in key
    }
    assert Budget.of(tags, 2).highest == 5


def test_the_limit_of_a_command_is_replaced():
    assert with_max_seconds("train --max-seconds 17700 --x 1", 60) == "train --max-seconds 60 --x 1"
    assert with_max_seconds("train --max-seconds 17.5", 60) == "train --max-seconds 60"
