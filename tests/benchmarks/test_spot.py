"""A simulated run on Spot nodes that come and go."""

import pytest

from benchmarks.documents import result
from benchmarks.spot import simulation as spot
from benchmarks.spot.simulation import (
    FOLDER,
    HELD,
    make_trace,
    name_of,
    offered,
    oracle,
    outcome,
    simulate,
)
from jobs.elastic.placement_policy import Choice, Rules
from rehearsal.capacity import Moment, Trace

CHOICES, RULES = offered()
ALWAYS = Trace([Moment(0, 4, 2.0)])
HALF = Trace([Moment(0, 2, 2.0)])


@pytest.mark.parametrize(("held", "gone"), HELD)
def test_the_traces_are_those_of_their_seeds(held, gone):
    assert Trace.read(FOLDER / name_of(held, gone)) == make_trace(held, gone)


def test_with_all_nodes_a_run_takes_its_work_and_one_start():
    for choices in (CHOICES, CHOICES[:1]):
        took = outcome(ALWAYS, choices, RULES)
        assert took.hours == pytest.approx(24.25, abs=0.05)
        assert took.usd == pytest.approx(24.25 * 4 * 2, abs=0.5)
        assert took.attempts == 1


def test_with_half_of_the_nodes_only_a_run_that_takes_fewer_ends():
    assert outcome(HALF, CHOICES[:1], RULES).hours is None
    took = outcome(HALF, CHOICES, RULES)
    # It waits for 4 nodes at first, and again after 1, 2, 4, ... hours.
    assert 48.5 < took.hours < 55
    assert oracle(HALF, CHOICES).hours == pytest.approx(48, abs=0.05)


def test_nodes_that_wait_for_others_cost_money():
    phases = list(simulate(Trace([Moment(0, 3, 2.0)]), [Choice("gpu", 4)], Rules(1, 1)))
    assert phases[-1].done == 0
    assert phases[-1].usd == pytest.approx(spot.DAYS * 24 * 3 * 2, rel=0.01)


def test_the_recorded_table_is_what_the_policy_does_and_keeps_its_goal():
    traces = result("spot")["traces"]
    assert len(traces) == 10
    name = name_of(*HELD[0])
    again = outcome(Trace.read(FOLDER / name), CHOICES, RULES)
    assert vars(again) == pytest.approx(traces[name.removesuffix(".csv")]["with what there is"])
    for ways in traces.values():
        wait, elastic, best = ways["wait"], ways["with what there is"], ways["oracle"]
        # Never worse than waiting by more than a tenth, and never better than the oracle.
        assert elastic["hours"] <= 1.1 * (wait["hours"] or spot.DAYS * 24)
        assert elastic["usd"] <= 1.1 * wait["usd"]
        assert best["hours"] <= elastic["hours"]
