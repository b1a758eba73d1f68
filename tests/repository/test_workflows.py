"""The workflows of GitHub Actions: no secret, few permissions, pinned actions, our own commands."""

import re

import pytest
import yaml

from tests import ROOT

FOLDER = ROOT / ".github"
WORKFLOWS = sorted((FOLDER / "workflows").glob("*.yml"))
ACTION = FOLDER / "actions" / "platform" / "action.yml"
PLATFORM = ("preview", "up", "drift", "submit", "supervise")
"""Workflows that sign in to Azure."""
OURS = re.compile(r"make (-C tools )?[a-z-]+( |$)|\.venv/bin/python -m jobs [a-z]+ |\.ci/run$")
"""Beginnings of the commands of this repository."""


def document(path):
    return yaml.safe_load(path.read_text())


def jobs(path):
    return document(path)["jobs"].values()


def steps(path):
    if path == ACTION:
        return document(path)["runs"]["steps"]
    return [step for job in jobs(path) for step in job["steps"]]


def named(name):
    return FOLDER / "workflows" / f"{name}.yml"


@pytest.mark.parametrize("path", [*WORKFLOWS, ACTION], ids=lambda path: path.stem)
def test_an_action_of_others_is_pinned_to_a_commit_with_its_version(path):
    used = re.findall(r"uses: (.+)$", path.read_text(), re.MULTILINE)
    for action in used:
        assert re.fullmatch(
            r"[\w.-]+/[\w.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+|\./\.github/actions/platform", action
        ), action


@pytest.mark.parametrize("path", [*WORKFLOWS, ACTION], ids=lambda path: path.stem)
def test_every_command_is_one_of_this_repository_and_takes_what_others_wrote_from_variables(path):
    for step in steps(path):
        if "run" in step:
            assert OURS.match(step["run"]), step["run"]
            assert "\n" not in step["run"]
            # A title or an input that is put into a command could hold a command itself.
            assert "${{" not in step["run"]


@pytest.mark.parametrize("path", [*WORKFLOWS, ACTION], ids=lambda path: path.stem)
def test_no_workflow_needs_a_secret(path):
    assert "secrets" not in path.read_text()


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_may_do_only_what_it_needs(path):
    wanted = {"contents": "read"}
    if path.stem in PLATFORM:
        wanted["id-token"] = "write"
    if path.stem == "preview":
        wanted["pull-requests"] = "write"
    assert document(path)["permissions"] == wanted
    for job in jobs(path):
        assert "permissions" not in job
        assert job["timeout-minutes"] <= 350


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_checkout_leaves_no_token_behind(path):
    checkouts = [step for step in steps(path) if "actions/checkout" in step.get("uses", "")]
    assert checkouts
    assert all(step["with"] == {"persist-credentials": False} for step in checkouts)


@pytest.mark.parametrize("name", PLATFORM)
def test_a_job_signs_in_as_the_identity_of_its_purpose(name):
    client = {"up": "UP", "submit": "JOBS", "supervise": "JOBS"}.get(name, "PREVIEW")
    expected = f"${{{{ vars.{client}_CLIENT_ID }}}}"
    (job,) = jobs(named(name))
    (sign_in,) = (step for step in job["steps"] if step.get("uses", "").startswith("./"))
    assert sign_in["with"]["client-id"] == job["env"]["ARM_CLIENT_ID"] == expected
    assert "vars.PULUMI_BACKEND_URL != ''" in job["if"]


def test_only_the_deployment_waits_for_an_approval_and_only_on_main():
    environments = {name: job.get("environment") for name in PLATFORM for job in jobs(named(name))}
    assert [name for name, environment in environments.items() if environment] == ["up"]
    for name in ("up", "drift", "submit", "supervise"):
        assert "github.ref == 'refs/heads/main'" in next(iter(jobs(named(name))))["if"]


def test_only_what_moves_data_may_run_inside_the_network():
    inside = {
        path.stem for path in WORKFLOWS for job in jobs(path) if "RUNNER_INSIDE" in job["runs-on"]
    }
    assert inside == {"submit"}


def test_a_fork_cannot_ask_for_a_preview():
    text = named("preview").read_text()
    assert "pull_request_target" not in text
    assert "github.event.pull_request.head.repo.full_name == github.repository" in text


def test_workflows_install_the_pulumi_that_is_rehearsed():
    rehearsed = re.search(
        r"^\tgithub.com/pulumi/pulumi/pkg/v3 v(\S+)",
        (ROOT / "rehearsal" / "pulumi" / "go.mod").read_text(),
        re.MULTILINE,
    )[1]
    (install,) = (step for step in steps(ACTION) if "pulumi/actions" in step.get("uses", ""))
    assert install["with"] == {"pulumi-version": rehearsed}
