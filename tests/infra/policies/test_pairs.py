"""Settings that are valid together pass the rules together, in any pair."""

import itertools

import pytest

from infra.errors import SettingsError
from infra.policies import pack
from tests.infra.support.stacks import rendered, settings_of
from tests.infra.support.switches import STACKS, SWITCHES, of_stack, together


@pytest.mark.parametrize(
    "number",
    [
        number if number in "0123" else pytest.param(number, marks=pytest.mark.long)
        for number in STACKS
    ],
)
def test_no_rule_fires_on_a_pair_of_valid_settings(number):
    overrides = of_stack(number)
    violations = pack.check(rendered("dev", **overrides), settings_of("dev", **overrides))
    assert [fault.message for fault in violations] == []


def test_each_pair_of_switches_is_in_a_stack_or_refused():
    apart = [
        pair
        for pair in itertools.combinations(SWITCHES, 2)
        if not set.intersection(*(set(SWITCHES[name][0]) for name in pair))
    ]
    assert [pair for pair in apart if accepted(together(pair))] == []


def accepted(overrides):
    """Whether a stack may have these settings; None are those that exclude each other."""
    try:
        return overrides is not None and bool(settings_of("dev", **overrides))
    except SettingsError:
        return False
