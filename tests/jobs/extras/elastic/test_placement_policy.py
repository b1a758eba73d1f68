"""Which nodes a run asks for next."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.extras.elastic.placement_policy import (
    MOST_MOVES,
    MoveRules,
    NodeChoice,
    Placed,
    following,
    leave,
)

RULES = MoveRules(wait_hours=0.25, up_hours=2.0)
CHOICES = [NodeChoice("gpu", 4), NodeChoice("gpu", 2), NodeChoice("gpu", 1), NodeChoice("a100", 4)]
LAST = len(CHOICES) - 1


def waits(choice, hours):
    return Placed(choice, hours)


def down(choice):
    return Placed(choice, 0.25, left="down")


def ran(choice, hours, left=""):
    return Placed(choice, 0.0, hours, left)


UP = ran(1, 2, "up")
IN_VAIN = [UP, down(0)]


@pytest.mark.parametrize(
    ("history", "pinned", "left"),
    [
        ([waits(0, 0.2)], None, ""),
        ([waits(0, 0.25)], None, "down"),
        ([waits(LAST, 99)], None, ""),
        ([ran(0, 99)], None, ""),
        ([ran(1, 1.9)], None, ""),
        ([ran(1, 2)], None, "up"),
        # After one and two times in vain it runs on for twice and four times as long.
        ([*IN_VAIN, ran(1, 3.9)], None, ""),
        ([*IN_VAIN, ran(1, 4)], None, "up"),
        ([*IN_VAIN, ran(1, 4, "up"), down(0), ran(1, 7.9)], None, ""),
        # The time starts anew once more nodes have come.
        ([*IN_VAIN, ran(1, 4, "up"), ran(0, 1), ran(1, 2)], None, "up"),
        ([ran(1, 0.1)] * (MOST_MOVES - 1) + [ran(1, 99)], None, ""),
        ([waits(0, 99)], 0, ""),
        ([ran(1, 99)], 1, ""),
        ([ran(1, 0.1)], 2, "pinned"),
        ([waits(0, 0)], 2, "pinned"),
    ],
)
def test_when_an_attempt_is_ended_for_other_nodes(history, pinned, left):
    assert leave(history, RULES, LAST, pinned) == left


@pytest.mark.parametrize(
    ("history", "there", "pinned", "number"),
    [
        # Nodes that were taken may be back.
        ([ran(0, 3)], {}, None, 0),
        ([ran(1, 1)], {}, None, 0),
        ([UP], {}, None, 0),
        ([down(0)], {}, None, 1),
        ([down(0)], {"gpu": 3}, None, 1),
        ([down(0)], {"gpu": 1}, None, 2),
        ([down(0)], {"gpu": 0, "a100": 4}, None, 3),
        ([down(0), down(1)], {"gpu": 0}, None, 2),
        ([down(0), down(1), down(2)], {}, None, 3),
        # In vain, so it returns to where it ran, unless more have come.
        ([ran(2, 2, "up"), down(0)], {}, None, 2),
        ([ran(2, 2, "up"), down(0)], {"gpu": 2}, None, 1),
        ([ran(0, 3, "pinned")], {"gpu": 4}, 2, 2),
    ],
)
def test_where_the_next_attempt_goes(history, there, pinned, number):
    assert following(history, CHOICES, there, pinned) == number


@given(st.lists(st.sampled_from([0, 1, 2, 3, 4]), min_size=1, max_size=400), st.data())
def test_it_never_changes_to_and_fro_without_having_run(capacities, data):
    """Whatever nodes there are: between two times that it asks for the first choice in vain, it has
    run.
    """
    history, ran_since = [], 0.0
    for there in capacities:
        number = following(history, CHOICES, {"gpu": there}) if history else 0
        if there >= CHOICES[number].nodes and CHOICES[number].cluster == "gpu":
            hours = data.draw(st.floats(0.1, 5))
            placed = Placed(number, 0.0, hours)
            history.append(Placed(number, 0.0, hours, leave([*history, placed], RULES, LAST)))
            ran_since += hours
            continue
        if number == LAST:
            # It waits there, whatever happens.
            assert leave([*history, waits(number, 99)], RULES, LAST) == ""
            return
        before = [one for one in history if one.left == "down"]
        assert leave([*history, waits(number, 0.25)], RULES, LAST) == "down"
        if number == 0 and before:
            assert ran_since > 0
            ran_since = 0.0
        history.append(down(number))
