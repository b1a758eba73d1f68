"""The table and the sentences of a measurement, and what it costs at most."""

from dataclasses import replace

import pytest

from common.prices import NodePrices, total
from jobs.extras.scaling.report import Measured
from jobs.throughput import SYNTHETIC
from tests.jobs.extras.estimate.support import DEDICATED, SPOT
from tests.jobs.extras.scaling.test_measurement import asked, unpredicted

ONE, TWO = asked()


def report(*points, tasks=(ONE, TWO)):
    return Measured.of("sweep", "dev", tasks, points)


def rows(result):
    return [one.row() for one in result.results]


def measured(task, *rates, **values):
    return replace(task.wanted, rates=rates, at="2026-11-23T12:00:00Z", **values)


def test_the_most_that_a_point_costs_is_hours_x_attempts_x_nodes_x_price():
    assert TWO.at_most.amount == pytest.approx(0.5 * 3 * 2 * DEDICATED)
    assert str(total(task.at_most for task in asked(prices=NodePrices()))) == "?"


def test_a_table_has_throughput_efficiency_money_and_prediction():
    result = report(measured(ONE, 9000.0, 9600.0, 9500.0), measured(TWO, 18050.0))
    first, second = rows(result)
    assert first[:6] == ["gpu", "1", SYNTHETIC, "9,500.0", "9,000.0 - 9,600.0", "3"]
    assert (first[6], second[6]) == ("100%", "95%")
    assert first[7].endswith("%")
    assert first[8] == f"{1e6 / 9500 / 3600 * SPOT:.4f} USD"
    assert " - " in second[9]


def test_without_one_node_there_is_no_efficiency_against_it():
    assert rows(report(measured(TWO, 18050.0)))[0][6] == "?"


def test_what_is_outside_of_its_prediction_is_said_in_words():
    words = report(measured(ONE, 9500.0), measured(TWO, 4600.0)).sentences()
    assert len(words) == 1
    assert words[0].startswith("gpu, 2 nodes, synthetic: 4,600.0 images/s, below the predicted ")
    assert "above" in report(measured(ONE, 99_999.0)).sentences()[0]
    assert report(measured(ONE, 9500.0)).sentences() == [
        "every point with a prediction lies inside of it"
    ]


def test_a_training_that_no_plan_predicts_is_measured_all_the_same():
    result = report(measured(ONE, 9500.0), tasks=asked(predicts=unpredicted))
    assert "nothing was predicted: " in result.sentences()[0]
    assert rows(result)[0][-1] == "?"


def test_marked_points_stand_beside_the_table_until_they_are_measured_well():
    marked = measured(TWO, 5000.0, problem="the network was not InfiniBand")
    result = report(measured(ONE, 9500.0), marked)
    assert [one.point.nodes for one in result.results] == [1]
    assert result.not_used()[0].endswith("the network was not InfiniBand")
    assert report(marked, measured(TWO, 18000.0)).not_used() == []
    assert result.document()["not_used"][0]["nodes"] == 2
