"""The table of a measurement, and its highest cost."""

from dataclasses import replace

import pytest

from common.prices import NodePrices, total
from jobs.extras.scaling import measurement
from jobs.throughput import SYNTHETIC, Expected
from tests.jobs.extras.estimate.support import DEDICATED, SPOT
from tests.jobs.extras.scaling.test_measurement import asked

ONE, TWO = asked()


def results(*points, tasks=(ONE, TWO)):
    return measurement.results(tasks, points)


def rows(*points, **options):
    return [measurement.row(result) for result in results(*points, **options)[0]]


def measured(task, *rates, **values):
    return replace(task.wanted, rates=rates, at="2026-11-23T12:00:00Z", **values)


def test_the_most_that_a_point_costs_is_hours_x_attempts_x_nodes_x_price():
    assert TWO.at_most.amount == pytest.approx(0.5 * 3 * 2 * DEDICATED)
    assert str(total(task.at_most for task in asked(prices=NodePrices()))) == "?"


def test_a_table_has_throughput_efficiency_money_and_prediction():
    first, second = rows(measured(ONE, 9000.0, 9600.0, 9500.0), measured(TWO, 18050.0))
    assert len(first) == len(measurement.HEADS)
    assert first[:6] == ["gpu", "1", SYNTHETIC, "9,500.0", "9,000.0 - 9,600.0", "3"]
    assert (first[6], second[6]) == ("100%", "95%")
    assert first[7] == f"{1e6 / 9500 / 3600 * SPOT:.4f} USD"
    assert " - " in second[8]


def test_without_one_node_there_is_no_efficiency_against_it():
    assert rows(measured(TWO, 18050.0))[0][6] == "?"


def test_without_a_price_a_million_images_cost_an_unknown_amount():
    (row,) = rows(measured(ONE, 9500.0), tasks=asked((1,), prices=NodePrices()))
    assert row[7] == "?"


def test_a_run_that_no_plan_predicts_is_measured_all_the_same():
    task = replace(ONE, expected=Expected(None, "no row of such a network"))
    assert rows(measured(ONE, 9500.0), tasks=[task])[0][-1] == "?"


def test_marked_points_stand_beside_the_table_until_they_are_measured_well():
    marked = measured(TWO, 5000.0, problem="the network was not InfiniBand")
    done, unused = results(measured(ONE, 9500.0), marked)
    assert [result["nodes"] for result in done] == [1]
    assert unused == [marked]
    assert results(marked, measured(TWO, 18000.0))[1] == []
