"""The specification of a job, without running it."""

from pathlib import Path

import pytest

from rehearsal.machine_learning import job_spec


def test_references_become_paths_and_nothing_is_quoted():
    command = "run ${{inputs.data}} ${{ inputs.epochs }} '${{outputs.run}}' ${{inputs.other}} $HOME"
    inputs = {"data": Path("/in put"), "epochs": "90"}
    line = job_spec.command_line(command, inputs, {"run": Path("/out")})
    assert line == "run /in put 90 '/out' ${{inputs.other}} $HOME"


@pytest.mark.parametrize(
    ("command", "name"), [("python -m x", "python"), ("/bin/sh -c 'a", "sh"), ("", "bash")]
)
def test_a_failed_process_is_named_by_its_first_word(command, name):
    assert job_spec.program_name(command) == name
