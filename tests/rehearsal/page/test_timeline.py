"""The time line: where its bars, marks and curves are."""

import dataclasses

import pytest

from rehearsal.page.record import Attempt, NodePool, StepResult
from rehearsal.page.timeline import Axis, axis_of, levels
from tests.rehearsal.support.parsed_page import EMPTY, Page


def test_the_axis_goes_from_the_beginning_to_the_end():
    axis = Axis(100.0, 300.0, 20.0, 90.0)
    assert (axis.at(100.0), axis.at(200.0), axis.at(300.0)) == (20.0, 55.0, 90.0)
    assert (axis.at(0.0), axis.at(1e12)) == (20.0, 90.0)


@pytest.mark.parametrize("length", [1, 7, 59, 60, 61, 330, 3600, 5000, 90_000, 1e9])
@pytest.mark.parametrize("most", [5, 9])
def test_marks_are_few_and_in_order_and_within_the_axis(length, most):
    marks = Axis(0.0, length, 0.0, 100.0).marks(most)
    places = [place for place, _ in marks]
    assert places[0] == 0.0
    assert places == sorted(set(places))
    assert 1 <= len(marks) <= most
    assert len({label for _, label in marks}) == len(marks)


def test_an_axis_holds_what_outlives_the_cycle():
    late = Attempt("j", "c", 1, 1, 1001.0, 1500.0, "Completed")
    assert axis_of(dataclasses.replace(EMPTY, attempts=(late,)), 0, 100).ended == 1500.0
    assert axis_of(EMPTY, 0, 100).ended > EMPTY.began


def test_a_step_is_a_bar_where_it_was_in_both_pictures():
    step = StepResult("s", "S", "", 1025.0, 50.0, "ok")
    page = Page(dataclasses.replace(EMPTY, seconds=100.0, steps=(step,)))
    for bar, (left, right) in zip(page.of("rect", "class", "step"), [(29, 90), (6, 94)],
                                  strict=True):  # fmt: skip
        assert float(bar["x"].rstrip("%")) == pytest.approx(left + (right - left) / 4, abs=0.01)
        assert float(bar["width"].rstrip("%")) == pytest.approx((right - left) / 2, abs=0.01)


def test_an_attempt_that_still_runs_is_drawn_to_the_end():
    running = Attempt("j", "c", 1, 2, 1050.0, None, "Running")
    page = Page(dataclasses.replace(EMPTY, seconds=100.0, attempts=(running,)))
    wide = page.of("rect", "class", "attempt")[0]
    assert float(wide["x"].rstrip("%")) + float(wide["width"].rstrip("%")) == pytest.approx(90)
    assert "still running" in page.seen
    assert "not completed" not in page.seen


def test_the_curve_of_nodes_joins_samples_that_say_the_same():
    pool = NodePool("c", "s", "p", ((0.0, 0), (1.0, 2), (2.0, 2), (3.0, 2), (4.0, 0)))
    assert list(levels(pool, 9.0)) == [(0.0, 1.0, 0), (1.0, 4.0, 2), (4.0, 9.0, 0)]
