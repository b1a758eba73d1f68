"""The time line: where its bars, marks and curves are."""

import dataclasses

import pytest

from rehearsal.page.record import Attempt, NodePool, StepResult
from rehearsal.page.timeline import Axis, axis_of, levels
from tests.rehearsal.support.parsed_page import EMPTY, Page


def test_the_axis_goes_from_the_beginning_to_the_end():
    axis = Axis(100.0, 300.0)
    assert (axis.at(100.0), axis.at(200.0), axis.at(300.0)) == (0.0, 50.0, 100.0)
    assert (axis.at(0.0), axis.at(1e12)) == (0.0, 100.0)


@pytest.mark.parametrize("length", [1, 7, 59, 60, 61, 330, 3600, 5000, 90_000, 1e9])
@pytest.mark.parametrize("most", [5, 9])
def test_marks_are_few_and_in_order_and_within_the_axis(length, most):
    marks = Axis(0.0, length).marks(most)
    places = [place for place, _ in marks]
    assert places[0] == 0.0
    assert places == sorted(set(places))
    assert 1 <= len(marks) <= most
    assert len({label for _, label in marks}) == len(marks)


def test_an_axis_holds_what_outlives_the_cycle():
    late = Attempt("j", "c", 1, 1, 1001.0, 1500.0, "Completed")
    assert axis_of(dataclasses.replace(EMPTY, attempts=(late,))).ended == 1500.0
    assert axis_of(EMPTY).ended > EMPTY.began


def test_a_step_is_a_bar_where_it_was():
    step = StepResult("s", "S", "", 1025.0, 50.0, "ok")
    cycle = dataclasses.replace(EMPTY, seconds=100.0, steps=(step,))
    page = Page(cycle)
    assert len(page.of("span", "class", "bar")) == 1
    (track,) = page.of("div", "class", "track")
    assert track["style"] == "--from: 25.0%; --to: 75.0%"


def test_an_attempt_that_still_runs_is_drawn_to_the_end():
    running = Attempt("j", "c", 1, 2, 1050.0, None, "Running")
    cycle = dataclasses.replace(EMPTY, seconds=100.0, attempts=(running,))
    page = Page(cycle)
    (track,) = page.of("div", "class", "track")
    assert track["style"] == "--from: 50.0%; --to: 100.0%"
    assert "still running" in page.seen
    assert "not completed" not in page.seen


def test_the_curve_of_nodes_joins_samples_that_say_the_same():
    pool = NodePool("c", "s", "p", ((0.0, 0), (1.0, 2), (2.0, 2), (3.0, 2), (4.0, 0)))
    assert list(levels(pool, 9.0)) == [(0.0, 1.0, 0), (1.0, 4.0, 2), (4.0, 9.0, 0)]
