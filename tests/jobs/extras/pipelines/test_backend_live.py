"""`backend` on the simulator: the place of Pulumi's state, and the identities of the workflows."""

import json
from types import SimpleNamespace

import pytest
import requests as http

from common.errors import UserError
from infra.catalog import roles as catalog
from infra.prerequisites import read_file
from jobs.cli import main
from jobs.errors import RequestError
from jobs.extras.pipelines import backend, declaration
from jobs.extras.pipelines.declaration import ROLES, StateNames, holds
from rehearsal.options import Options
from rehearsal.simulator import Simulator
from tests.infra.support.stacks import file_of

SUBSCRIPTION = "00000000-0000-4000-8000-000000000002"
SOMEBODY = "00000000-0000-4000-8000-00000000000a"
DEPLOYERS = "00000000-0000-4000-8000-00000000000b"
NOBODY = "00000000-0000-4000-8000-00000000000c"
BACKEND = ("backend", "--stack", "dev", "--yes", "True")
WITH_WORKFLOWS = (*BACKEND, "--repository", "team/platform")
ASSIGNMENT = "Microsoft.Authorization/roleAssignments"
OWNER = "8e3af657-a8ff-443c-a75c-2fe8c4bcb635"


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    """Settings of a stack that Pulumi does not know."""
    settings = tmp_path_factory.mktemp("settings") / "Pulumi.dev.yaml"
    text = file_of("dev").read_text()
    pins = f"    id: {SUBSCRIPTION}\n    tenant: {Options().tenant_id}\n    low_priority_cores: 100"
    settings.write_text(text.replace("    low_priority_cores: 100", pins))
    return settings


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    """An Azure without anything."""
    folder = tmp_path_factory.mktemp("azure")
    with Simulator(folder, Options(subscriptions=(SUBSCRIPTION,))) as azure:
        azure.identity.join(SOMEBODY, DEPLOYERS)
        yield azure


@pytest.fixture
def azure(started, settings, monkeypatch):
    """That Azure, which the commands of a test talk to."""
    monkeypatch.setenv("PULUMI_OPTION_CONFIG_FILE", str(settings))
    monkeypatch.setattr("jobs.extras.pipelines.backend._PAUSE_SECONDS", 0.01)
    for name, value in started.environment.items():
        monkeypatch.setenv(name, value)
    started.admin.forget_requests()
    return started


@pytest.fixture
def answer(azure, capsys):
    """The answer about everything, which exists from then on."""
    assert main([*WITH_WORKFLOWS, "--json"]) == 0
    azure.admin.forget_requests()
    return json.loads(capsys.readouterr().out)


@pytest.fixture
def names():
    return StateNames("hvd", SUBSCRIPTION)


def changes(azure):
    return [
        f"{one.method} {one.path}"
        for one in azure.requests
        if one.method != "GET" and one.path.startswith("/subscriptions/")
    ]


def assigned(azure, principal=None):
    """Roles by name and last part of their scope."""
    return {
        (
            ROLES[one["properties"]["roleDefinitionId"].rpartition("/")[2]],
            one["id"].partition("/providers/Microsoft.Authorization")[0].rpartition("/")[2],
        )
        for one in azure.resources.of_kind(ASSIGNMENT)
        if principal in (None, one["properties"]["principalId"])
    }


def test_without_a_terminal_nothing_is_created_unless_confirmed(azure, capsys):
    assert main(["backend", "--stack", "dev"]) == UserError.exit_code
    said = capsys.readouterr()
    assert "--yes" in said.err
    assert "storage account without keys" in said.out
    assert changes(azure) == []


def test_the_state_has_no_keys_is_kept_and_open_to_identities_only(azure, names, capsys):
    assert main(BACKEND) == 0
    account = azure.resources.get(names.account_id)["properties"]
    assert account["allowSharedKeyAccess"] is False
    assert account["allowBlobPublicAccess"] is False
    service = azure.resources.get(f"{names.account_id}/blobServices/default")["properties"]
    assert service["isVersioningEnabled"]
    assert service["deleteRetentionPolicy"] == {"enabled": True, "days": 90}
    vault = azure.resources.get(names.vault_id)["properties"]
    assert vault["enableRbacAuthorization"]
    assert vault["enablePurgeProtection"]
    me = azure.environment["AZURE_CLIENT_ID"]
    writes = {("Storage Blob Data Contributor", "pulumi"), ("Key Vault Crypto User", "pulumi")}
    assert assigned(azure) == assigned(azure, me) == writes
    said = capsys.readouterr().out
    assert "less than 1 USD a month" in said
    assert f"pulumi login 'azblob://pulumi?storage_account={names.account}'" in said
    assert f"'azurekeyvault://{names.vault}.vault.azure.net/keys/pulumi'" in said
    assert main([*BACKEND, "--deployers", SOMEBODY]) == 0
    assert assigned(azure, SOMEBODY) == writes


def test_an_unknown_deployer_is_named(azure, capsys):
    assert main([*BACKEND, "--deployers", NOBODY]) == RequestError.exit_code
    said = capsys.readouterr().err
    assert f"of {NOBODY} on pulumi: the directory does not know the id" in said
    assert "Check --deployers, which takes object ids" in said
    assert assigned(azure, NOBODY) == set()


def test_the_same_command_puts_right_what_somebody_has_loosened_and_nothing_else(
    azure, names, answer, capsys
):
    azure.resources.update(names.account_id, {"allowSharedKeyAccess": True})
    azure.admin.forget_requests()
    for expected in ([names.account_id], []):
        assert main([*WITH_WORKFLOWS, "--json"]) == 0
        assert changes(azure) == [f"PUT {one}" for one in expected]
        assert json.loads(capsys.readouterr().out) == {**answer, "created": expected}
        azure.admin.forget_requests()
    assert azure.resources.get(names.account_id)["properties"]["allowSharedKeyAccess"] is False


def test_each_workflow_gets_the_least_roles_and_trusts_one_occasion(azure, names, answer):
    state = {("Key Vault Crypto User", "pulumi")}
    reads, writes = (
        {*state, (f"Storage Blob Data {role}", "pulumi")} for role in ("Reader", "Contributor")
    )
    expected = {
        "preview": {*reads, ("Reader", SUBSCRIPTION)},
        "up": {
            *writes,
            ("Contributor", SUBSCRIPTION),
            ("Role Based Access Control Administrator", SUBSCRIPTION),
        },
        "jobs": reads,
    }
    assert {
        purpose: assigned(azure, principal) for purpose, principal in answer["principals"].items()
    } == expected
    trusted = {
        one["properties"]["subject"]: one["id"].split("/")[-3]
        for one in azure.resources.below(names.group_id, "/federatedIdentityCredentials/")
    }
    assert trusted.keys() == {
        "repo:team/platform:pull_request",
        "repo:team/platform:ref:refs/heads/main",
        "repo:team/platform:environment:dev",
    }
    assert trusted["repo:team/platform:environment:dev"] == "hvd-dev-up"
    assert answer["variables"]["UP_CLIENT_ID"]
    assert answer["variables"].keys() >= {"PULUMI_BACKEND_URL", "STACK", "PREVIEW_CLIENT_ID"}


def test_whoever_deploys_from_a_workflow_cannot_make_owners(azure, answer):
    principal = answer["principals"]["up"]
    azure.identity.add_client(principal)
    token = azure.identity.token(principal, azure.url)
    scope = f"/subscriptions/{SUBSCRIPTION}"

    def assign(role):
        body = declaration.assignment(scope, SOMEBODY, catalog.READER, "x")
        properties = {**body.body["properties"], "roleDefinitionId": f"{scope}/x/{role}"}
        return http.put(
            f"{azure.url}{body.id}",
            params={"api-version": body.api_version},
            json={"properties": properties},
            headers={"Authorization": f"Bearer {token}"},
            verify=str(azure.certificate.bundle),
            timeout=60,
        ).status_code

    assert assign(OWNER) == 403
    assert assign(declaration.ROLE_ADMINISTRATOR) == 403
    assert assign(catalog.BLOB_DATA_READER) in (200, 201)


def test_a_stack_without_a_subscription_is_told_where_to_get_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PULUMI_OPTION_CONFIG_FILE", str(file_of("dev")))
    assert main(BACKEND) != 0
    assert "--subscription $(az account show --query id --output tsv)" in capsys.readouterr().err


def test_a_stack_in_a_group_that_exists_gives_its_identities_that_group_only(tmp_path):
    settings = tmp_path / "Pulumi.dev.yaml"
    group = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/theirs"
    settings.write_text(
        file_of("dev").read_text() + f"  ml-azure-horovod:resource_group:\n    existing: {group}\n"
    )
    pins = {"id": SUBSCRIPTION, "tenant": Options().tenant_id}
    needs = read_file("dev", settings, pins)
    assert declaration.stack_scope(needs) == group


def test_only_the_roles_of_stacks_are_assigned_and_a_repository_is_named_as_given(settings, names):
    needs = read_file("dev", settings)
    condition = declaration.only_roles(needs)
    assert set(needs.roles) == set(catalog.NAMES)
    assert all(condition.count(role) == 2 for role in catalog.NAMES)
    assert OWNER not in condition
    assert declaration.ROLE_ADMINISTRATOR not in condition
    _, trust = declaration.identity("up", "team@12/platform@34", names, needs)
    assert trust.body["properties"]["subject"] == "repo:team@12/platform@34:environment:dev"


@pytest.mark.parametrize(
    ("existing", "wanted", "held"),
    [
        ({"a": 1, "b": 2}, {"a": 1}, True),
        ({"a": {"b": "X"}}, {"a": {"b": "x"}}, True),
        ({"a": {"subject": "repo:Team/x"}}, {"a": {"subject": "repo:team/x"}}, False),
        ({"a": ["y", "x"]}, {"a": ["x", "y"]}, True),
        ({"a": 1}, {"b": 1}, False),
        ({"a": {"b": True}}, {"a": {"b": False}}, False),
        ({}, {"a": {"b": 1}}, False),
    ],
)
def test_a_resource_may_have_more_than_is_wanted(existing, wanted, held):
    assert holds(existing, wanted) == held


def test_names_stay_the_same_and_fit_into_azures_rules():
    names = StateNames("hvd", SUBSCRIPTION.upper())
    assert names.account == StateNames("hvd", SUBSCRIPTION).account
    assert len(StateNames("a" * 11, SUBSCRIPTION).vault) <= 24


def test_what_is_new_is_used_as_it_was_seen_though_a_later_read_may_not_find_it():
    shown = {"properties": {"clientId": "c"}}
    answers = iter([None, shown, None])
    manager = SimpleNamespace(find=lambda *_: next(answers), put=lambda *_: None)
    console = SimpleNamespace(note=lambda _: None)
    wanted = SimpleNamespace(id="/identity", api_version="1", body={}, words="an identity")
    assert backend._Maker(manager, console).make(wanted) is shown
