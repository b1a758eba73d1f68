"""Prices of nodes: recorded ones, and those of Azure's public list, without a network."""

import json
from urllib.parse import unquote

import pytest

from common.errors import UserError
from common.prices import RECORDED, price_list_json, read_price_list, read_retail
from infra.catalog import vm_sizes
from jobs.azure import node_prices as prices

SIZE = "Standard_ND40rs_v2"


def item(meter, amount, **changes):
    """An item in the form that Azure documents for the list."""
    return {
        "currencyCode": "USD",
        "retailPrice": amount,
        "unitPrice": amount,
        "armRegionName": "eastus",
        "armSkuName": SIZE,
        "meterName": meter,
        "skuName": meter,
        "productName": "Virtual Machines NDSv2 Series",
        "serviceName": "Virtual Machines",
        "unitOfMeasure": "1 Hour",
        "type": "Consumption",
        **changes,
    }


ANSWER = {
    "BillingCurrency": "USD",
    "Items": [
        item("ND40rs v2", 22.03),
        item("ND40rs v2 Low Priority", 4.41),
        item("ND40rs v2 Spot", 2.42),
        item("ND40rs v2", 25.0, productName="Virtual Machines NDSv2 Series Windows"),
        item("ND40rs v2", 90000.0, type="Reservation", unitOfMeasure="1 Hour"),
        item("ND40rs v2", 26.44, armRegionName="southcentralus"),
        item("ND40rs v2", 1.0, unitOfMeasure="1 GB"),
        item("ND40rs v2", 0.0),
    ],
    "NextPageLink": None,
    "Count": 8,
}


def test_low_priority_is_priced_by_the_spot_meter_and_not_by_the_retired_one():
    found = read_retail([ANSWER], "eastus", "2026-11-23")
    assert {kind: price.amount for kind, price in found.items()} == {
        (SIZE.lower(), "Dedicated"): 22.03,
        (SIZE.lower(), "LowPriority"): 2.42,
    }
    assert {price.source.date for price in found.values()} == {"2026-11-23"}


@pytest.mark.parametrize("order", [1, -1])
def test_the_lower_of_two_meters_of_one_kind_counts(order):
    both = [item("ND40rs v2", 22.03), item("ND40rs v2", 24.0, productName="Cloud Services")]
    found = read_retail([{"Items": both[::order]}], "eastus", "2026-11-23")
    assert found[SIZE.lower(), "Dedicated"].amount == 22.03


def test_an_answer_is_stored_with_its_date_and_then_precedes_what_is_recorded(tmp_path):
    asked = []

    def get(url):
        asked.append(unquote(url))
        return ANSWER

    before = prices.known("eastus", folder=tmp_path)
    assert before.find(SIZE, "LowPriority").amount == 2.42352
    path = prices.ask("eastus", [SIZE], tmp_path, get)
    assert "armRegionName eq 'eastus'" in asked[0]
    assert f"armSkuName eq '{SIZE}'" in asked[0]
    stored = read_price_list(path)
    assert stored.region == "eastus"
    after = prices.known("eastus", folder=tmp_path)
    assert after.find(SIZE, "LowPriority").amount == 2.42
    assert after.find(SIZE, "Dedicated").source.title == "Azure Retail Prices API, eastus"
    assert after.find("Standard_ND96asr_v4", "Dedicated").amount == 27.197
    other = prices.known("westeurope", folder=tmp_path)
    assert other.find(SIZE, "LowPriority") is None


def test_a_list_that_an_earlier_version_stored_has_the_price_of_spot(tmp_path):
    path = prices.ask("eastus", [SIZE], tmp_path, lambda _: ANSWER)
    stored = json.loads(path.read_text())
    (spot,) = (node for node in stored["nodes"] if node["priority"] == "Spot")
    stored["nodes"].append({**spot, "priority": "LowPriority", "hourly": 4.41})
    path.write_text(json.dumps(stored))
    assert prices.known("eastus", folder=tmp_path).find(SIZE, "LowPriority").amount == 2.42


def test_the_prices_of_the_workspace_precede_all_others(tmp_path):
    prices.ask("eastus", [SIZE], tmp_path, lambda _: ANSWER)
    own = read_retail([{"Items": [item("ND40rs v2", 17.0)]}], "eastus", "2026-11-23")
    found = prices.known("eastus", own, tmp_path)
    assert found.find(SIZE, "Dedicated").amount == 17
    assert found.find(SIZE, "LowPriority").amount == 2.42


def test_all_pages_are_read_but_only_of_the_same_server(tmp_path):
    first = {"Items": [item("ND40rs v2", 22.03)], "NextPageLink": f"{prices.LIST}?$skip=1000"}
    second = {"Items": [item("ND40rs v2 Spot", 2.42)]}
    path = prices.ask("eastus", [SIZE], tmp_path, lambda url: second if "skip" in url else first)
    assert len(read_price_list(path).prices) == 2
    astray = {**first, "NextPageLink": "https://example.com/prices"}
    with pytest.raises(UserError, match="not as documented"):
        prices.ask("eastus", [SIZE], tmp_path, lambda _: astray)
    with pytest.raises(UserError, match="not as documented"):
        prices.ask("eastus", [SIZE], tmp_path, lambda _: first)


@pytest.mark.parametrize("answer", [{}, {"Items": None}, {"Items": [{"retailPrice": "?"}]}, []])
def test_an_answer_of_another_form_is_refused_and_nothing_stored(tmp_path, answer):
    with pytest.raises(UserError, match="not as documented"):
        prices.ask("eastus", [SIZE], tmp_path, lambda _: answer)
    assert list(tmp_path.iterdir()) == []


def test_a_region_without_prices_is_an_error(tmp_path):
    with pytest.raises(UserError, match="check --region"):
        prices.ask("eastus", [SIZE], tmp_path, lambda _: {"Items": []})


def test_a_broken_stored_answer_is_named(tmp_path):
    prices.stored_file(tmp_path, "eastus").write_text("{}")
    with pytest.raises(UserError, match=r"eastus\.json.*delete it"):
        prices.known("eastus", folder=tmp_path)


def test_every_recorded_price_has_source_and_date_and_belongs_to_a_size():
    recorded = read_price_list(RECORDED)
    for (size, priority), price in recorded.prices.items():
        assert vm_sizes.find(size), size
        assert priority in ("Dedicated", "LowPriority")
        assert price.source.url.startswith("https://")
        assert price.source.date[:2] == "20"
        assert price.amount > 0


def test_a_stored_list_is_read_as_it_was_written(tmp_path):
    recorded = read_price_list(RECORDED).prices
    (tmp_path / "list.json").write_text(price_list_json("eastus", recorded))
    assert read_price_list(tmp_path / "list.json").prices == recorded


def test_an_unreachable_list_is_named_with_what_happens_without_it(tmp_path, monkeypatch):
    monkeypatch.setattr(prices, "RETRIES", 0)
    with pytest.raises(UserError, match=r"cannot be read.*stored and recorded prices"):
        prices.ask("eastus", [SIZE], tmp_path, address="http://127.0.0.1:9/prices")


def test_an_answer_in_another_currency_than_was_asked_for_is_refused(tmp_path):
    with pytest.raises(UserError, match="answered in USD, not in EUR"):
        prices.ask("eastus", [SIZE], tmp_path, lambda _: ANSWER, currency="EUR")
    assert list(tmp_path.iterdir()) == []


def test_a_stored_list_of_another_region_is_refused(tmp_path):
    path = prices.ask("eastus", [SIZE], tmp_path, lambda _: ANSWER)
    path.rename(prices.stored_file(tmp_path, "westeurope"))
    with pytest.raises(UserError, match="has the prices of eastus"):
        prices.known("westeurope", folder=tmp_path)
