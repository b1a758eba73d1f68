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


def test_what_the_condition_returned_is_returned():
    values = iter([None, "found"])
    assert wait_until(lambda: next(values), timeout_seconds=600, poll_seconds=0) == "found"
    assert wait_until(lambda: None, timeout_seconds=0) is None


def test_the_condition_is_checked_when_the_time_is_over_however_rarely_it_is_checked():
    asked = []
    assert not wait_until(lambda: asked.append(1), timeout_seconds=0.01, poll_seconds=3600)
    assert asked == [1, 1]


def test_a_condition_that_holds_at_once_is_not_waited_for():
    assert wait_until(lambda: True, timeout_seconds=0, poll_seconds=3600)


def test_an_error_of_the_condition_ends_the_waiting():
    with pytest.raises(ZeroDivisionError):
        wait_until(lambda: 1 / 0, timeout_seconds=600)
