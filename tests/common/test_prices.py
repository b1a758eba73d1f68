"""Prices: which one applies, and that an unknown one is never taken for zero."""

import pytest

from common.prices import Cost, NodePrices, Price, PriceSource, money, read_vm_sizes, total

TODAY = "2026-11-23"
SOURCE = PriceSource("a list", "https://example.com", TODAY)


def usd(amount):
    return Price(amount, "USD", "hour", SOURCE)


def listed(*values, currency="USD", unit="OneHour"):
    """A size in the form of Azure's published example."""
    prices = [
        {"retailPrice": amount, "osType": system, "vmTier": tier} for amount, system, tier in values
    ]
    estimate = {"billingCurrency": currency, "unitOfMeasure": unit, "values": prices}
    return {"value": [{"name": "Standard_DS3_v2", "vCPUs": 4, "estimatedVMPrices": estimate}]}


def test_the_price_of_linux_nodes_is_read_for_each_priority():
    answer = listed(
        (0.2, "Windows", "LowPriority"),
        (0.06, "Linux", "LowPriority"),
        (0.5, "Windows", "Standard"),
        (0.29, "Linux", "Standard"),
    )
    prices = NodePrices((read_vm_sizes(answer, TODAY),))
    low, dedicated = (prices.find("STANDARD_DS3_v2", p) for p in ("LowPriority", "Dedicated"))
    assert (low.amount, low.currency, low.unit, low.source.date) == (0.06, "USD", "hour", TODAY)
    assert dedicated.amount == 0.29


@pytest.mark.parametrize("order", [1, -1])
def test_low_priority_has_the_price_of_the_spot_meter(order):
    both = [(0.03, "Linux", "Spot"), (0.06, "Linux", "LowPriority")][::order]
    prices = NodePrices((read_vm_sizes(listed(*both), TODAY),))
    assert prices.find("Standard_DS3_v2", "LowPriority").amount == 0.03
    assert prices.find("Standard_DS3_v2", "Dedicated") is None


@pytest.mark.parametrize("order", [1, -1])
def test_the_lower_of_two_prices_of_one_tier_counts(order):
    values = [(0.82, "Linux", "Standard"), (1.56, "Linux", "Standard"),
              (0.16, "Linux", "LowPriority"), (0.62, "Linux", "LowPriority"),
              (0.2, "Linux", "Spot"), (0.3, "Linux", "Spot")][::order]  # fmt: skip
    prices = NodePrices((read_vm_sizes(listed(*values), TODAY),))
    assert prices.find("Standard_DS3_v2", "Dedicated").amount == 0.82
    assert prices.find("Standard_DS3_v2", "LowPriority").amount == 0.2


def test_spot_reaches_the_pay_as_you_go_price_whether_or_not_its_own_is_known():
    dedicated = (0.29, "Linux", "Standard")
    for known in ([dedicated], [dedicated, (0.03, "Linux", "Spot")]):
        prices = NodePrices((read_vm_sizes(listed(*known), TODAY),))
        assert prices.highest("Standard_DS3_v2", "LowPriority").amount == 0.29
        assert prices.highest("Standard_DS3_v2", "Dedicated").amount == 0.29
    alone = NodePrices((read_vm_sizes(listed((0.03, "Linux", "Spot")), TODAY),))
    assert alone.highest("Standard_DS3_v2", "LowPriority") is None


def test_the_highest_price_is_in_the_currency_of_the_price_and_not_below_it():
    euros = Price(9, "EUR", "hour", SOURCE)
    prices = NodePrices(({("a", "LowPriority"): usd(1)}, {("a", "Dedicated"): euros}))
    assert prices.highest("a", "LowPriority") is None
    older = NodePrices(({("a", "LowPriority"): usd(3)}, {("a", "Dedicated"): usd(2)}))
    assert older.highest("a", "LowPriority").amount == 3


@pytest.mark.parametrize(
    "answer",
    [
        listed((0.0, "Linux", "Standard")),
        listed((None, "Linux", "Standard")),
        listed((0.29, "Linux", "Standard"), unit="OneMonth"),
        listed((0.29, "Linux", "Standard"), currency=None),
        {"value": [{"name": "Standard_DS3_v2", "estimatedVMPrices": None}]},
        {"value": [{"name": "Standard_DS3_v2"}]},
        {},
        [],
    ],
)
def test_what_azure_does_not_state_is_unknown_and_not_free(answer):
    assert NodePrices((read_vm_sizes(answer, TODAY),)).find("Standard_DS3_v2", "Dedicated") is None


def test_the_first_source_that_states_a_price_applies():
    first, second = {("a", "Dedicated"): usd(1)}, {("a", "Dedicated"): usd(2), ("b", "x"): usd(3)}
    prices = NodePrices((first, second))
    assert prices.find("A", "Dedicated").amount == 1
    assert prices.find("b", "x").amount == 3


def test_a_sum_with_an_unknown_part_is_a_lower_bound():
    known, unknown = Cost(7200, usd(1.5)), Cost(3600, None)
    assert str(total([known])) == "3.00 USD"
    assert str(total([known, unknown])) == "at least 3.00 USD"
    assert str(total([unknown])) == "?"
    assert str(total([Cost(None, usd(1))])) == "?"
    assert total([known, unknown]).node_seconds == 10800


def test_nodes_that_have_not_run_cost_nothing_whatever_their_price():
    assert str(total([])) == str(total([Cost(0.0, None), Cost(0.0, usd(1))])) == "-"
    assert str(total([Cost(0.0, None), Cost(3600, usd(2))])) == "2.00 USD"


def test_currencies_are_not_added_to_each_other():
    euros = Price(1, "EUR", "hour", SOURCE)
    assert str(total([Cost(3600, usd(2)), Cost(3600, euros)])) == "2.00 USD + 1.00 EUR"


@pytest.mark.parametrize(
    ("amount", "text"), [(1234.5, "1,234.50 USD"), (1, "1.00 USD"), (0.0123, "0.0123 USD")]
)
def test_small_amounts_have_more_digits(amount, text):
    assert money(amount, "USD") == text
