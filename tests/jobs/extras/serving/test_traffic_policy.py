"""How an endpoint's requests are divided between its deployments."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.extras.serving.traffic_policy import Traffic, TrafficError, back, give, parse, without

BOTH = ("blue", "green")


def test_a_new_deployment_gets_its_part_and_the_other_keeps_the_rest():
    assert give(Traffic({"blue": 100}), BOTH, "green", 10).live == {"blue": 90, "green": 10}


def test_a_promotion_takes_all_requests_from_the_others():
    promoted = give(Traffic({"blue": 90, "green": 10}), BOTH, "green", 100)
    assert promoted.live == {"green": 100}


def test_copies_go_to_a_deployment_that_answers_nothing():
    mirrored = give(Traffic({"blue": 100}), BOTH, "green", 0, 20)
    assert (mirrored.live, mirrored.mirror) == ({"blue": 100}, {"green": 20})
    assert give(mirrored, BOTH, "green", 10).mirror == {}


@pytest.mark.parametrize(
    ("live", "to", "percent", "mirror", "why"),
    [
        ({"blue": 100}, "red", 10, 0, "no deployment 'red'; deployments: blue, green"),
        ({"blue": 100}, "green", 10, 10, "not both"),
        ({}, "green", 10, 0, "remaining 90 %"),
        ({"blue": 100}, "blue", 0, 0, "answers all requests"),
        ({}, "green", 0, 10, "no deployment answers"),
    ],
)
def test_impossible_traffic_is_refused_with_the_reason(live, to, percent, mirror, why):
    with pytest.raises(TrafficError, match=why):
        give(Traffic(live), BOTH, to, percent, mirror)


@given(
    st.dictionaries(st.sampled_from("abcd"), st.integers(1, 100), min_size=1),
    st.integers(0, 100),
)
def test_the_parts_always_sum_to_100(weights, percent):
    total = sum(weights.values())
    live = {name: round(100 * part / total) for name, part in weights.items()}
    now = Traffic({name: part for name, part in live.items() if part})
    divided = give(now, {*now.live, "new"}, "new", percent)
    assert sum(divided.live.values()) == 100
    assert divided.live.get("new", 0) == percent


def test_a_deployment_that_answers_requests_cannot_be_removed():
    with pytest.raises(TrafficError, match="answers 10 %"):
        without(Traffic({"blue": 90, "green": 10}), "green")
    left = without(Traffic({"blue": 100}, {"green": 5}), "green")
    assert left == Traffic({"blue": 100})


def test_a_roll_back_restores_what_was():
    before = Traffic({"blue": 90, "green": 10})
    assert back(before, BOTH) == before
    with pytest.raises(TrafficError, match="green had traffic before and was deleted"):
        back(before, ["blue"])
    with pytest.raises(TrafficError, match="no earlier traffic"):
        back(None, BOTH)


@pytest.mark.parametrize(
    "traffic",
    [Traffic(), Traffic({"blue": 100}), Traffic({"blue": 90, "green": 10}, {"red": 5})],
)
def test_traffic_is_read_as_it_was_written(traffic):
    assert parse(str(traffic)) == traffic


@pytest.mark.parametrize("text", ["", "blue", "blue=x", "=5"])
def test_other_text_is_no_traffic(text):
    assert parse(text) is None
