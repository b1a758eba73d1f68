"""The cost of a stack at rest, and that each price has a source."""

import dataclasses
import datetime as dt
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.render import costs
from infra.render.costs import Row
from infra.resources import WORKSPACE, Resource
from tests.infra.support.production import changed
from tests.infra.support.stacks import rendered
from tests.infra.support.variants import OPTIONS

BOOK = costs.read()
STACK = list(rendered("dev"))


def azure(kind, inputs=None):
    return Resource(f"azure-native:{kind}", kind, inputs or {}, {}, "")


def by_item(stack, book=BOOK):
    return {row.item: row for row in costs.rows(stack, book)}


def test_every_resource_is_in_one_row_or_part_of_another():
    rows = costs.rows(STACK, BOOK)
    wanted = [
        one for one in STACK if one.type.startswith("azure-native:") and one.kind not in BOOK.parts
    ]
    assert sum(len(row.names) for row in rows) == len(wanted)


def test_a_premium_registry_and_a_nat_gateway_cost_while_they_rest():
    rows = by_item(STACK)
    assert rows["Container registry, Premium"].monthly == 50
    assert rows["NAT gateway"].monthly == 32.85


def test_a_price_holds_for_the_tier_that_it_was_found_for_only():
    basic = by_item(changed("registry", "sku", {"name": "Basic"}, STACK))
    assert basic["containerregistry:Registry"].each is None
    zones = [azure("storage:StorageAccount", {"sku": {"name": "Premium_ZRS"}})]
    assert list(by_item(zones)) == ["Storage account, Premium block blobs, ZRS"]


def test_an_unknown_price_is_a_question_mark_and_the_total_the_least():
    rows = costs.rows([azure("new:Thing"), azure("network:NatGateway")], BOOK)
    text = costs.table(rows, BOOK)
    assert "| new:Thing | 1 | ? | ? | no price is recorded |  |" in text
    assert "**at least 32.85**" in text


def test_a_table_cites_only_the_sources_that_it_uses():
    text = costs.table(costs.rows([azure("network:NatGateway")], BOOK), BOOK)
    assert "[1]" in text
    assert text.count("https://") == 1
    assert "**32.85**" in text
    assert "nat_gateway_test.golden), 2024-07-01" in text


def test_each_price_in_a_table_has_its_region_and_date():
    text = costs.table(costs.rows(STACK, BOOK), BOOK)
    rows = [line.split(" | ") for line in text.splitlines() if re.search(r"\| \[\d+\] \|$", line)]
    assert len(rows) > 5
    for item, _, _, monthly, _, region, date, _ in rows:
        assert region or monthly in ("?", "0.00"), item
        assert re.fullmatch(r"20\d\d-\d\d-\d\d", date)


def test_the_dearest_comes_first_then_the_unknown_then_the_free():
    rows = costs.rows(STACK, BOOK)
    ranks = [0 if row.monthly else 1 if row.monthly is None else 2 for row in rows]
    assert ranks == sorted(ranks)
    paid = [row.monthly for row in rows if row.monthly]
    assert paid == sorted(paid, reverse=True)


def test_every_price_has_a_source_with_an_address_and_a_past_date():
    for price in BOOK.prices:
        source = BOOK.sources[price.source]
        assert source.url.startswith("https://"), price.item
        assert dt.date.fromisoformat(source.date) <= dt.datetime.now(dt.UTC).date()
        assert source.title


def test_every_price_above_zero_says_where_it_holds():
    assert [p.item for p in BOOK.prices if p.price and p.price.amount and not p.region] == []


def test_every_source_is_used():
    assert {price.source for price in BOOK.prices} == set(BOOK.sources)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data["sources"].pop("registry"), "unknown sources registry"),
        (
            lambda data: data["parts"].update({"network:NatGateway": "x"}),
            "network:NatGateway is both priced and listed as a part",
        ),
    ],
)
def test_a_book_that_contradicts_itself_is_refused(tmp_path, change, message):
    data = json.loads(costs.PRICES.read_text(encoding="utf-8"))
    change(data)
    path = tmp_path / "prices.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        costs.read([path])


@given(st.lists(st.one_of(st.none(), st.floats(0, 1000)), max_size=6))
def test_the_total_is_complete_only_if_every_price_is_known(prices):
    rows = [Row("x", price, "", None, ("a", "b")) for price in prices]
    known, complete = costs.total(rows)
    assert complete == (None not in prices)
    assert known == pytest.approx(2 * sum(price for price in prices if price is not None))


def test_the_first_price_that_fits_is_taken():
    [declared] = [one for one in STACK if one.kind == WORKSPACE]
    encrypted = {**declared.inputs, "encryption": {"status": "Enabled"}}
    workspace = [dataclasses.replace(declared, inputs=encrypted)]
    assert by_item(workspace)["Workspace with customer-managed keys"].each is None
    plain = dataclasses.replace(BOOK, prices=[p for p in BOOK.prices if not p.where])
    assert by_item(workspace, plain)["Workspace"].each == 0


@pytest.mark.parametrize("option", ["as it is", "everything on", "everything theirs"])
def test_every_resource_of_a_stack_has_an_entry(option):
    rows = costs.rows(rendered("dev", **OPTIONS[option]), BOOK)
    assert [row.item for row in rows if row.source is None] == []


def test_what_costs_nothing_is_named_in_a_sentence():
    text = costs.table(costs.rows(STACK, BOOK), BOOK)
    assert "\nNo fixed cost: Blob container (3) [" in text
    assert "| Blob container" not in text
