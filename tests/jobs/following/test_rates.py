"""The price of Spot moves while a run uses it: it is asked for again, and the change is told."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from common.prices import NodePrices, Price, PriceSource
from jobs.azure.workspace import connect
from jobs.cli import main
from jobs.errors import UnreachableError
from jobs.following import rates
from jobs.following.rates import ASK_SECONDS, Rates, moved
from jobs.spec.budget_policy import Budget
from tests.jobs.support.platform import platform
from tests.jobs.support.tiny import TRAINED, begin

CLUSTERS = list(platform().clusters.values())
GPU = platform().clusters["gpu"]


def usd(amount, currency="USD"):
    return Price(amount, currency, "hour", PriceSource("", "", ""))


class Market:
    """A list of prices that moves, and the hours that pass."""

    def __init__(self):
        self.price, self.hours, self.asked, self.said = 2.0, 0.0, 0, []
        self.rates = Rates(self.read, self.said.append, lambda: self.hours * 3600)

    def read(self):
        self.asked += 1
        if self.price is None:
            raise UnreachableError("no answer")
        size = GPU.size.lower()
        kinds = {(size, "LowPriority"): usd(self.price), (size, "Dedicated"): usd(20)}
        return NodePrices((kinds,))


def test_a_price_is_asked_for_repeatedly_and_told_if_it_has_moved_by_a_tenth():
    market = Market()
    for market.hours, market.price in ((0, 2.0), (0.2, 9.0), (4, 2.19), (8, 2.5), (12, 2.0)):
        market.rates.look(CLUSTERS)
    assert market.asked == 4
    assert ASK_SECONDS == 900
    assert market.said == [
        f"the price of Spot {GPU.size} has risen by 25%, from 2.00 USD to 2.50 USD an hour, of at"
        " most 20.00 USD",
        f"the price of Spot {GPU.size} has fallen by 20%, from 2.50 USD to 2.00 USD an hour, of at"
        " most 20.00 USD",
    ]


def test_an_attempt_gets_the_prices_of_now_whenever_they_were_asked_for():
    market = Market()
    market.rates.look(CLUSTERS)
    market.price = 3.0
    budget = market.rates.priced(Budget(50, "USD", 2.0, nodes=1, at_most=18), GPU)
    assert (budget.price, budget.at_most) == (3, 20)
    assert "has risen by 50%" in market.said[0]
    # The budget of the attempt before is known from its tags, even on another machine.
    other = Market()
    assert other.rates.priced(Budget(50, "USD", 4.0, nodes=1), GPU).price == 2
    assert "has fallen by 50%, from 4.00 USD" in other.said[0]


def test_the_highest_price_of_a_time_is_known_only_if_it_was_watched():
    market = Market()
    for market.hours, market.price in ((0, 2.0), (0.5, 9.0), (1, 2.0)):
        market.rates.look(CLUSTERS)
    market.hours = 1.25
    assert market.rates.highest(GPU, 1.25 * 3600).amount == 9
    market.hours = 2
    assert market.rates.highest(GPU, 3 * 3600) is None
    # Azure did not answer for hours.
    market.hours = 5
    assert market.rates.highest(GPU, 4 * 3600) is None
    assert market.rates.highest(GPU, 60).amount == 2


LIMIT, MOST, START = 100.0, 22.0, 2.0
PATHS = {
    "constant": lambda hours, begun: START,
    "rises right after the first start": lambda hours, begun: MOST if hours else START,
    "doubles during each attempt": lambda hours, begun: min(
        MOST, START * (1 if hours < begun + 0.5 else 2)
    ),
    "cheap at each start, then high": lambda hours, begun: START if hours == begun else MOST,
    "falls": lambda hours, begun: max(START, MOST - hours),
}


@pytest.mark.parametrize("watched", [True, False])
@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_a_run_costs_at_most_its_budget_whatever_the_price_does(path, watched):
    """Attempts follow each other until the budget is used up; each runs until its limit. The
    supervisor sees the prices at its looks, or none while an attempt runs.
    """
    market, step, cost, attempts = Market(), 0.25, 0.0, 0

    def prices():
        market.asked += 1
        size = GPU.size.lower()
        low = usd(path(market.hours, begun))
        return NodePrices(({(size, "LowPriority"): low, (size, "Dedicated"): usd(MOST)},))

    begun = 0.0
    market.rates = Rates(prices, market.said.append, lambda: market.hours * 3600)
    budget = market.rates.priced(Budget(LIMIT, "USD", START, nodes=2, at_most=MOST), GPU)
    while not budget.used_up:
        attempts += 1
        begun, limit = market.hours, budget.limits().timeout_seconds
        while (market.hours - begun) * 3600 < limit:
            part = min(step, limit / 3600 - (market.hours - begun)) + 1e-9
            # The price that begins at a look lasts until the next one.
            cost += path(market.hours, begun) * budget.nodes * part
            market.hours += part
            if watched:
                market.rates.look([GPU])
        seen = market.rates.highest(GPU, limit)
        budget = market.rates.priced(budget.after(limit, seen), GPU)
    assert cost <= LIMIT * (1 + 1e-6)
    assert budget.spent == pytest.approx(cost, rel=1) or not watched
    assert attempts < 100


def test_an_answer_that_does_not_come_changes_nothing():
    market = Market()
    market.price = None
    budget = Budget(50, "USD", 2.0, nodes=1, at_most=18)
    assert market.rates.priced(budget, GPU) == budget
    assert market.rates.priced(budget, None) == budget
    assert market.said == []


def test_dedicated_nodes_have_a_price_that_is_not_asked_for():
    market = Market()
    market.rates.look([one for one in CLUSTERS if one.priority == "Dedicated"])
    assert market.asked == 0


@pytest.mark.parametrize("now", [usd(2.19), usd(1.81), usd(9, "EUR")])
def test_a_small_change_or_another_currency_is_not_told(now):
    assert moved(usd(2), now) is None


def test_a_further_attempt_is_limited_by_the_prices_of_now(live, outputs, capsys):
    once = 'if [ ! -e "${{outputs.run}}/n" ] && touch "${{outputs.run}}/n"'
    command = f": --max-seconds 22200; {once}; then exit 143; fi; {TRAINED}"
    cluster = outputs.clusters["gpu"]
    cores = 40
    tags = Budget(5, "USD", 0.01 * cores, nodes=1, at_most=0.05 * cores).tags
    begin(live, "moved", command, cluster=cluster, timeout="PT2H30M", tags=tags)
    live.azure.admin.spot_price(0.04)
    try:
        again = ["--supervise", "--resubmit.backoff-seconds", "0.1", "--poll-seconds", "0.1"]
        assert main(["follow", "moved", *again]) == 0
    finally:
        live.azure.admin.spot_price(0.01)
    assert "has risen by 300%, from 0.4000 USD to 1.60 USD an hour" in capsys.readouterr().out
    _, second = connect(outputs).jobs.attempts("moved")
    left = Budget.of(second.tags, second.nodes)
    assert (left.price, left.at_most) == (pytest.approx(1.6), pytest.approx(2.0))


def test_a_price_is_not_watched_while_the_machine_is_suspended(monkeypatch):
    now = [datetime(2026, 1, 5, 12, tzinfo=UTC)]
    monkeypatch.setattr(
        rates, "read_prices", lambda _: NodePrices(({(GPU.size.lower(), "LowPriority"): usd(2)},))
    )
    own = rates.rates_of(SimpleNamespace(now=lambda: now[0]), SimpleNamespace(say=pytest.fail))
    own.look([GPU])
    now[0] += timedelta(hours=3)
    assert own.highest(GPU, 3 * 3600) is None
