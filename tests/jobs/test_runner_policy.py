"""Commands that a machine of GitHub refuses for a private stack."""

import json
from dataclasses import replace

import pytest

from infra.outputs import Access, to_dict
from jobs.cli import COMMANDS, main
from jobs.errors import AccessError
from jobs.runner_policy import HOSTED, refusal
from tests.jobs.support.platform import platform

PRIVATE = Access("private", (), ())
OPEN = Access("allowlisted", ("52.174.12.7",), ("workspace", "default_storage", "data_storage"))


@pytest.mark.parametrize(
    ("access", "runner", "refused"),
    [
        (PRIVATE, HOSTED, True),
        (PRIVATE, "self-hosted", False),
        (PRIVATE, None, False),
        (OPEN, HOSTED, False),
    ],
)
def test_only_a_machine_of_github_and_a_private_stack_do_not_go_together(access, runner, refused):
    environment = {} if runner is None else {"RUNNER_ENVIRONMENT": runner}
    said = refusal("submit", access, environment)
    assert (said is not None) == refused


@pytest.fixture
def private(tmp_path, monkeypatch):
    """Outputs of a private stack, on a machine of GitHub."""
    monkeypatch.setenv("RUNNER_ENVIRONMENT", HOSTED)
    file = tmp_path / "outputs.json"
    file.write_text(json.dumps(to_dict(replace(platform(), access=PRIVATE))))
    return str(file)


@pytest.mark.parametrize(
    "command",
    [
        ("submit", "--preset", "digits"),
        ("upload", "photos", "--to", "raw/photos"),
        ("download", "one"),
    ],
)
def test_a_command_that_moves_data_is_refused_before_any_request(private, capsys, command):
    assert main([*command, "--outputs", private]) == AccessError.exit_code
    said = capsys.readouterr().err
    assert f"{command[0]}: this machine belongs to GitHub" in said
    assert "RUNNER_INSIDE" in said
    assert "nothing was sent" in said


def test_what_needs_resource_manager_only_runs_anywhere():
    anywhere = {name for name, command in COMMANDS.items() if not command.data}
    assert anywhere >= {"preview", "up", "drift", "supervise", "status", "cancel", "teardown"}
