"""How a commissioning runs its commands, and goes on with a step that was interrupted."""

import sys

import pytest

from common.errors import ConfigError
from jobs.commission.command import Commissioning, CommissionOptions
from jobs.commission.record import Record
from jobs.console import Console
from tests.jobs.support.platform import platform

TALKATIVE = """#!{python}
import json, sys
print(json.dumps({{"arguments": sys.argv[1:], "padding": "x" * 200_000}}))
print("the last note", file=sys.stderr)
sys.exit(3)
"""


@pytest.fixture
def commissioning(tmp_path):
    """A commissioning whose record is in a folder of the test."""
    record = Record(tmp_path / "facts.json")
    return Commissioning(CommissionOptions(), platform(), Console(), record)


@pytest.mark.parametrize("name", ["", "my first", "../first", "f" * 41])
def test_a_name_that_no_run_can_have_is_refused_before_anything_runs(name):
    with pytest.raises(ConfigError, match="--name"):
        CommissionOptions(name)


def test_a_command_whose_document_is_longer_than_a_pipe_ends(commissioning, tmp_path, monkeypatch):
    program = tmp_path / "python"
    program.write_text(TALKATIVE.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(program))
    output = commissioning._call("stacks", "first-cancelled", quiet=True)
    assert (output.status, output.text) == (3, "the last note")
    assert output.answer["arguments"] == ["-m", "jobs", "stacks", "--json", "first-cancelled"]
    assert len(output.answer["padding"]) == 200_000
