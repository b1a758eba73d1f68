"""Waiting ends with the condition or the timeout, and checks at least once."""

import pytest

from common.waiting import wait_until


def test_waiting_ends_when_the_condition_holds():
    values = iter([0, [], "yes"])
    assert wait_until(lambda: next(values), timeout_seconds=600, poll_seconds=0)


def test_waiting_ends_when_the_time_is_over():
    asked = []
    assert not wait_until(lambda: asked.append(1), timeout_seconds=0)
    assert asked == [1]


def test_a_condition_that_holds_at_once_is_not_waited_for():
    assert wait_until(lambda: True, timeout_seconds=0, poll_seconds=3600)


def test_an_error_of_the_condition_ends_the_waiting():
    with pytest.raises(ZeroDivisionError):
        wait_until(lambda: 1 / 0, timeout_seconds=600)
