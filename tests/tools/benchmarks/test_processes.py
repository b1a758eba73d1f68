"""Measurements in processes of their own."""

import pytest

from common.errors import UserError
from tools.benchmarks.processes import in_process, in_world

HERE = "tests.tools.benchmarks.test_processes"


def added(one, other):
    return {"sum": one + other}


def refused():
    raise UserError("it cannot be measured")


@pytest.mark.slow
def test_a_function_is_called_in_a_process_or_as_each_of_some_ranks():
    assert in_process(f"{HERE}:added", one=1, other=2) == {"sum": 3}
    assert in_world(f"{HERE}:added", 2, one=[1], other=[2]) == {"sum": [1, 2]}


@pytest.mark.slow
def test_a_process_that_fails_says_why_and_fails_the_measurement(capfd):
    with pytest.raises(UserError, match="the measurement failed with exit status 1"):
        in_process(f"{HERE}:refused")
    assert "error: it cannot be measured" in capfd.readouterr().err
