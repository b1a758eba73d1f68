"""The table, the sentences and the page of a sweep, and what it costs at most."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.page.render import render
from common.prices import NodePrices
from jobs.planning.points import SYNTHETIC
from jobs.scaling.expectation import cost_at_most, expected
from jobs.scaling.report import not_used, page_of, rows, sentences, sweep_of
from jobs.scaling.sweep import workload_of
from tests.jobs.planning.support import ALL, LOW
from tests.jobs.scaling.test_sweep import asked
from tests.jobs.support.samples import TRAINING

ONE, TWO = asked()


KNOWN = workload_of(TRAINING)


def expectations(all_tasks=(ONE, TWO), prices=ALL, workload=KNOWN):
    return expected(all_tasks, workload, prices, 0.5, 3)


def sweep(*points, **values):
    return sweep_of("sweep", "dev", "a training", expectations(**values), points)


def measured(task, *rates, **values):
    return replace(task.wanted, rates=rates, at="2026-11-23T12:00:00Z", **values)


@given(st.integers(1, 16), st.floats(0.1, 24), st.integers(1, 99))
def test_the_most_that_a_point_costs_is_hours_x_attempts_x_nodes_x_price(nodes, hours, attempts):
    task = replace(ONE, wanted=replace(ONE.wanted, nodes=nodes))
    of = expected([task], None, ALL, hours, attempts)
    assert cost_at_most(of, [task]).amounts["USD"] == pytest.approx(hours * attempts * nodes * LOW)


def test_a_price_that_nobody_states_is_not_guessed():
    assert str(cost_at_most(expectations(prices=NodePrices()), [ONE])) == "?"


def test_a_table_has_throughput_efficiency_money_and_prediction():
    result = sweep(measured(ONE, 9000.0, 9600.0, 9500.0), measured(TWO, 18050.0))
    first, second = rows(result.results)
    assert first[:6] == ["gpu", "1", SYNTHETIC, "9,500.0", "9,000.0 - 9,600.0", "3"]
    assert (first[6], second[6]) == ("100%", "95%")
    assert first[7].endswith("%")
    assert first[8] == f"{1e6 / 9500 / 3600 * LOW:.4f} USD"
    assert " - " in second[9]


def test_without_one_node_there_is_no_efficiency_against_it():
    assert rows(sweep(measured(TWO, 18050.0)).results)[0][6] == "?"


def test_what_is_outside_of_its_prediction_is_said_in_words():
    words = sentences(sweep(measured(ONE, 9500.0), measured(TWO, 9600.0)))
    assert len(words) == 1
    assert words[0].startswith("gpu, 2 nodes, synthetic: 9,600.0 images/s, below the predicted ")
    assert "above" in sentences(sweep(measured(ONE, 99_999.0)))[0]
    assert sentences(sweep(measured(ONE, 9500.0))) == [
        "every point with a prediction lies inside of it"
    ]


def test_a_training_that_no_plan_predicts_is_measured_all_the_same():
    result = sweep(measured(ONE, 9500.0), workload=None)
    assert "nothing was predicted: a plan does not predict" in sentences(result)[0]
    assert rows(result.results)[0][-1] == "?"
    assert page_of(result).plots[0].lines[0].measured


def test_marked_points_stand_beside_the_table_until_they_are_measured_well():
    marked = measured(TWO, 5000.0, problem="the network was not InfiniBand")
    result = sweep(measured(ONE, 9500.0), marked)
    assert [one.point.nodes for one in result.results] == [1]
    assert not_used(result)[0].endswith("the network was not InfiniBand")
    assert not_used(sweep(marked, measured(TWO, 18000.0))) == []
    assert result.document()["not_used"][0]["nodes"] == 2


def test_the_page_shows_predictions_as_bands_behind_the_points():
    page = page_of(sweep(measured(ONE, 9500.0), measured(TWO, 18000.0)))
    throughput, cost = page.plots
    assert [len(throughput.lines[0].marks), len(throughput.lines[0].measured)] == [2, 2]
    assert all(mark.top < mark.bottom for mark in throughput.lines[0].marks)
    assert cost.lines[0].name == f"gpu, {SYNTHETIC}"
    html = render("jobs.scaling", "scaling.html", page=page)
    assert html.count('class="plot card"') == 2
    assert "every point with a prediction lies inside" in html
