"""What is recommended is possible, on the Pareto front, and otherwise the nearest to the wish."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import ConfigError
from jobs.extras.estimate.choosing.advice import (
    ENDS,
    Wish,
    hours_of,
    money_of,
    pareto,
    read_deadline,
)
from jobs.extras.estimate.forecast import Choice
from jobs.throughput import Span
from tests.jobs.extras.estimate.support import NDV2

VALUES = st.floats(0.1, 100)


@st.composite
def choices(draw):
    def one():
        hours, cost = (Span(*sorted(draw(st.tuples(VALUES, VALUES, VALUES)))) for _ in range(2))
        known = draw(st.booleans())
        return Choice(NDV2, 1, "Dedicated", hours=hours, money=cost if known else None)

    return [one() for _ in range(draw(st.integers(0, 8)))]


def beats(one, other, end):
    better = hours_of(one, end) <= hours_of(other, end), money_of(one, end) <= money_of(other, end)
    same = (hours_of(one, end), money_of(one, end)) == (hours_of(other, end), money_of(other, end))
    return all(better) and not same


@given(choices(), VALUES, st.sampled_from(list(ENDS)))
def test_a_recommendation_is_on_the_front_and_meets_the_wish_if_anything_does(found, limit, end):
    known = [choice for choice in found if choice.recommendable]
    for wish, of, better in (
        (Wish(hours=limit), hours_of, money_of),
        (Wish(money=limit), money_of, hours_of),
    ):
        advice = wish.advice(found, end)
        fitting = [choice for choice in known if of(choice, end) <= limit]
        assert advice.possible == bool(fitting)
        assert (advice.choice is None) == (not known)
        if advice.choice is not None:
            assert not any(beats(other, advice.choice, end) for other in known)
        if fitting:
            assert of(advice.choice, end) <= limit
            assert better(advice.choice, end) == min(better(one, end) for one in fitting)
        elif known:
            assert of(advice.choice, end) == min(of(one, end) for one in known)


@given(choices(), st.sampled_from(list(ENDS)))
def test_the_front_is_all_that_nothing_beats(found, end):
    known = [choice for choice in found if choice.recommendable]
    front = pareto(found, end)
    places = {(hours_of(one, end), money_of(one, end)) for one in front}
    for choice in known:
        beaten = any(beats(other, choice, end) for other in known)
        assert beaten == ((hours_of(choice, end), money_of(choice, end)) not in places)


@pytest.mark.parametrize(
    ("text", "hours"), [("2h", 2), ("1.5 h", 1.5), ("90min", 1.5), ("30d", 720)]
)
def test_a_deadline_is_read(text, hours):
    assert read_deadline(text) == hours


@pytest.mark.parametrize("text", ["", "2", "h", "-1h", "0h", "2 days"])
def test_another_text_is_refused(text):
    with pytest.raises(ConfigError, match="--deadline"):
        read_deadline(text)
