"""The commands of the workflows in .github/, one life of a stack: a pull request's preview, a
deployment after approval, drift, submissions, and supervision.

Each test reads the commands from the workflow's own file. GitHub's own part is not here: it waits
for the approval, and its actions sign in; the simulator's sign-in takes their place.
"""

import json
import subprocess
from contextlib import ExitStack
from dataclasses import dataclass, field

import pytest

from jobs.errors import AccessError
from jobs.exit_status import DRIFT
from rehearsal.pulumi.deployment import ROOT, SUBSCRIPTION
from rehearsal.pulumi.provider.server import Provider
from tests.jobs.support.github import github
from tests.rehearsal.scenarios.cloud import TINY, Cloud, cloud_in
from tests.rehearsal.support.workflows import commands, runs_on

pytestmark = pytest.mark.rehearse_all

__all__ = ["github"]

ACCOUNTS = "Microsoft.Storage/storageAccounts"
SECONDS = 600
SCIENTISTS = "0d6b1f6e-0000-4000-8000-000000000013"
INSIDE = "inside-the-network"


@dataclass
class Team:
    """A repository on GitHub with its variables, and the identities of its workflows."""

    cloud: Cloud
    identities: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Client id and secret by purpose."""
    providers: dict[str, Provider] = field(default_factory=dict)
    """Pulumi's provider by purpose: it signs in by itself, as the identity of the job."""
    variables: dict[str, str] = field(default_factory=dict)
    """The repository's variables."""

    def run(self, workflow, purpose, status=0, *, environment=None, **context):
        """Run a workflow's commands in order; return their output. Only the last one may end
        with another status than 0.
        """
        context = {f"vars.{name}": value for name, value in self.variables.items()} | context
        azure = self.cloud.azure
        inside = runs_on(workflow, context) == INSIDE
        steps, said = commands(workflow, context), ""
        assert steps
        for number, (line, variables) in enumerate(steps):
            ended = subprocess.run(
                ["bash", "-e", "-c", line],
                cwd=ROOT,
                env={
                    **self.cloud.deployment.command_environment,
                    **azure.environment_of(*self.identities[purpose]),
                    **self.providers[purpose].environment,
                    "GITHUB_STEP_SUMMARY": str(self.cloud.folder / "summary.md"),
                    "RUNNER_ENVIRONMENT": "self-hosted" if inside else "github-hosted",
                    **variables,
                    **(environment or {}),
                },
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
            )
            said += f"$ {line}\n{ended.stdout}{ended.stderr}"
            last = number == len(steps) - 1
            # make has its own status for a command that failed.
            expected = {status, 2} if last and status and line.startswith("make ") else {
                status if last else 0
            }  # fmt: skip
            assert ended.returncode in expected, said
            assert not status or ended.returncode == status or f"Error {status}" in said, said
        return said


@pytest.fixture(scope="module")
def team(tmp_path_factory):
    with cloud_in(tmp_path_factory.mktemp("pipelines"), roles=True) as cloud, ExitStack() as opened:
        cloud.deployment.configure("people.scientists", SCIENTISTS)
        # The variables of the sign-in come from `backend`, as a team gets them.
        answer = json.loads(
            cloud.jobs("backend", "--repository", "team/platform", "--yes", "True", "--json").out
        )
        team = Team(cloud, variables=answer["variables"])
        # The simulator's engine keeps its state in a folder, not in the account.
        team.variables["PULUMI_BACKEND_URL"] = cloud.deployment.variables["PULUMI_BACKEND_URL"]
        for purpose, principal in answer["principals"].items():
            groups = [SCIENTISTS] if purpose == "jobs" else []
            client = cloud.azure.identity.add_client(principal, groups=groups)
            environment = cloud.azure.environment_of(*client)
            team.identities[purpose] = client
            team.providers[purpose] = opened.enter_context(
                Provider(environment, cloud.azure.url, SUBSCRIPTION)
            )
        yield team


def changes(team):
    return [one for one in team.cloud.changes() if SUBSCRIPTION in one]


class TestPlatform:
    def test_a_pull_request_shows_what_it_would_create_and_creates_nothing(self, team, github):
        team.cloud.azure.admin.forget_requests()
        context = {
            "github.event.pull_request.number": "7",
            "github.token": github.environment["GITHUB_TOKEN"],
        }
        said = team.run("preview", "preview", environment=github.environment, **context)
        assert "to create; see build/preview.md" in said
        (comment,) = github.comments.values()
        assert "### Preview of stack `dev`" in comment
        assert "| create | `workspace` |" in comment
        assert SUBSCRIPTION not in comment
        assert changes(team) == []

    def test_after_the_approval_main_is_deployed(self, team):
        said = team.run("up", "up")
        assert "stack dev: workspace" in said
        assert "unchanged" in team.cloud.pulumi("preview", "--expect-no-changes")

    def test_an_identity_for_previews_cannot_deploy(self, team):
        team.cloud.deployment.configure("budget.amount", "501")
        said = team.run("up", "preview", 1)
        assert "AuthorizationFailed" in said
        team.cloud.deployment.configure("budget.amount", "500")

    def test_a_night_without_drift_is_quiet(self, team):
        team.cloud.azure.admin.forget_requests()
        assert "stack dev: no drift" in team.run("drift", "preview")
        assert changes(team) == []

    def test_drift_fails_the_night_with_resource_and_property(self, team):
        azure = team.cloud.azure
        account = next(
            one for one in azure.resources.of_kind(ACCOUNTS) if one["name"].startswith("hvddevdata")
        )
        azure.resources.update(account["id"], {"minimumTlsVersion": "TLS1_0"})
        said = team.run("drift", "preview", DRIFT)
        assert (
            "storage-data (azure-native:storage:StorageAccount): differs in minimumTlsVersion"
            in said
        )
        assert (
            "1 resource changed outside of Pulumi" in (team.cloud.folder / "summary.md").read_text()
        )
        assert azure.resources.get(account["id"])["properties"]["minimumTlsVersion"] == "TLS1_0"

    def test_what_the_night_has_printed_restores_it(self, team):
        team.cloud.jobs("up", "--refresh", "True", "--yes", "True")
        assert "stack dev: no drift" in team.run("drift", "preview")


SUBMISSION = {
    "inputs.preset": "digits",
    "inputs.nodes": "2",
    "inputs.options": f"--name by-hand -- {' '.join(TINY)} --epochs 3",
}


class TestJobs:
    def test_a_machine_of_github_refuses_to_submit_before_it_asks_azure(self, team):
        team.cloud.azure.admin.forget_requests()
        said = team.run("submit", "jobs", AccessError.exit_code, **SUBMISSION)
        assert "this machine belongs to GitHub" in said
        assert "RUNNER_INSIDE" in said
        assert team.cloud.azure.requests == []

    def test_a_runner_inside_the_network_submits(self, team):
        team.variables["RUNNER_INSIDE"] = INSIDE
        said = team.run("submit", "jobs", **SUBMISSION)
        assert "by-hand-r1: submitted" in said
        job = f"{team.cloud.workspace}/jobs/by-hand-r1"
        assert team.cloud.wait_until_ended(job) == "Completed"

    def test_supervision_runs_anywhere(self, team):
        assert "by-hand: by-hand-r1: training completed" in team.run("supervise", "jobs")
