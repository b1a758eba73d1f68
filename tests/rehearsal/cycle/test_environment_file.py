"""The variables by which another terminal finds a rehearsal that is left running."""

import subprocess
from types import SimpleNamespace

import pytest

from rehearsal.cycle import environment_file
from rehearsal.errors import RehearsalError
from rehearsal.simulator import Simulator


def test_variables_are_written_for_a_shell_and_their_owner_alone(tmp_path):
    stack = SimpleNamespace(variables={"A": 'it\'s a "test" $HOME', "B": "2"}, path=["/a b/c"])
    environment_file.write(tmp_path, stack)
    assert (tmp_path / environment_file.FILE).stat().st_mode & 0o777 == 0o600
    with pytest.raises(RehearsalError, match="no rehearsal is running"):
        environment_file.read(tmp_path, {})
    with Simulator(tmp_path / "azure"):
        text = environment_file.read(tmp_path, {})
    script = 'eval "$1"; printf "%s\\n" "$A" "$B" "$PATH"'
    shown = subprocess.run(
        ["/bin/sh", "-c", script, "sh", text],
        env={"PATH": "/bin"}, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert shown.splitlines() == ['it\'s a "test" $HOME', "2", "/a b/c:/bin"]


def test_variables_that_lead_elsewhere_are_unset(tmp_path):
    """Pulumi takes a passphrase before a file of one, and jobs a file of outputs before a stack."""
    stack = SimpleNamespace(variables={"PULUMI_STACK": "dev"}, path=["/bin"])
    environment_file.write(tmp_path, stack)
    shell = {
        "PULUMI_CONFIG_PASSPHRASE": "",
        "JOBS_OUTPUTS": "real.json",
        "PULUMI_STACK": "prod",
        "HOME": "/home",
    }
    with Simulator(tmp_path / "azure"):
        text = environment_file.read(tmp_path, shell)
    shown = subprocess.run(
        ["/bin/sh", "-c", 'eval "$1"; env', "sh", text],
        env={"PATH": "/bin:/usr/bin", **shell}, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    variables = dict(line.split("=", 1) for line in shown.splitlines())
    assert "PULUMI_CONFIG_PASSPHRASE" not in variables
    assert "JOBS_OUTPUTS" not in variables
    assert (variables["PULUMI_STACK"], variables["HOME"]) == ("dev", "/home")
