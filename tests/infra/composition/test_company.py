"""The worked example of a company's subscription renders, keeps the rules, and is on its page."""

import json
import subprocess

import pytest

from infra.policies.pack import check
from infra.render import egress, roles
from infra.render.render import run
from infra.resources import ASSIGNMENT, STORAGE, WORKSPACE, of_kind
from infra.stack_config import configuration
from infra.validation import load
from tests import ROOT
from tests.infra.support.stacks import key, only
from tests.infra.support.stacks import rendered as declared_by
from tests.infra.support.variants import OPTIONS

FILE = ROOT / "docs" / "examples" / "Pulumi.company.yaml"
PAGE = (ROOT / "docs" / "reference" / "roles.md").read_text(encoding="utf-8")
GROUP = "/subscriptions/00000000-0000-4000-8000-00000000000a/resourceGroups/rg-ml-research"


@pytest.fixture(scope="module")
def values():
    return configuration("company", FILE)[1]


@pytest.fixture(scope="module")
def rendered(values):
    return run("company", {}, FILE)


def test_everything_is_declared_in_the_vended_group_and_keeps_the_rules(rendered, values):
    azure = [one for one in rendered.resources if one.type.startswith("azure-native:")]
    assert [one.id for one in azure if not one.id.startswith(f"{GROUP}/providers/")] == []
    assert check(rendered.resources, load(values | {"stack": "company"})) == []
    assert not of_kind(azure, ASSIGNMENT)


def test_the_key_of_the_company_encrypts_and_the_workspace_keeps_a_vault_of_its_own(
    rendered, values
):
    workspace = only(rendered.resources, WORKSPACE).inputs
    own = only(rendered.resources, "keyvault:Vault")
    assert workspace["keyVault"] == own.id
    assert workspace["enableServiceSideCMKEncryption"] is True
    encryption = values["encryption"]
    used = workspace["encryption"]["keyVaultProperties"]
    assert used["keyVaultArmId"] == encryption["key_vault"]
    assert used["keyIdentifier"] == encryption["key_uri"]
    for account in of_kind(rendered.resources, STORAGE):
        assert account.inputs["identity"]["userAssignedIdentities"] == [encryption["identity"]]


def test_the_owner_gets_each_role_that_a_stack_of_its_own_would_declare(rendered):
    declared = of_kind(run("company", {"roles": "declared"}, FILE).resources, ASSIGNMENT)
    assert {one["name"] for one in rendered.roles} == {
        one.inputs["roleAssignmentName"] for one in declared
    }
    by_name = {one.inputs["roleAssignmentName"]: one.inputs for one in declared}
    for one in rendered.roles:
        its = by_name[one["name"]]
        assert its["roleDefinitionId"].endswith(one["role_id"])
        assert (its["scope"], its.get("condition", "")) == (one["scope"], one["condition"])
        assert (its["principalId"], its["principalType"]) == (
            one["principal_id"],
            one["principal_type"],
        )


def test_workspace_and_clusters_wait_for_the_roles_of_their_identities(rendered):
    workspace = only(rendered.resources, WORKSPACE)
    waits = set(workspace.options["dependsOn"])
    needed = [one for one in rendered.roles if one["label"].startswith("workspace-")]
    early = {key(ASSIGNMENT, one["label"]) for one in needed if one["scope"] != workspace.id}
    assert early
    assert early <= waits


def test_the_script_of_the_owner_assigns_each_role_once_and_knows_no_guid_of_azure(
    rendered, capsys, monkeypatch
):
    monkeypatch.setattr(roles, "run", lambda _stack, _overrides: rendered)
    assert roles.main(["company", "--script"]) == 0
    script = capsys.readouterr().out
    assert [line.split()[1] for line in script.splitlines() if line.startswith("assign ")] == [
        one["name"] for one in rendered.roles
    ]
    identities = {one["principal_id"] for one in rendered.roles if one["identity"]}
    assert not [one for one in identities if one in script]
    assert 'containers/azureml-blobstore-$workspace_guid"' in script
    assert roles.main(["company", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == len(rendered.roles)
    assert roles.main(["company"]) == 0
    assert "hvd-company-id-training" in capsys.readouterr().out


def test_the_script_of_an_owner_who_is_not_signed_in_leaves_out_nothing_in_silence(
    rendered, monkeypatch, tmp_path
):
    monkeypatch.setattr(roles, "run", lambda _stack, _overrides: rendered)
    needed = [one | {"definition": ""} for one in roles.needed(roles.run("company", {}))]
    (tmp_path / "assign.sh").write_text(roles.script("company", needed))
    program = tmp_path / "az"
    program.write_text("#!/bin/sh\necho \"Please run 'az login'\" >&2\nexit 1\n")
    program.chmod(0o755)
    ended = subprocess.run(
        ["bash", "assign.sh"],
        cwd=tmp_path,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    assert "az login" in ended.stderr
    assert "left out" not in ended.stdout


def test_a_stack_that_assigns_its_roles_has_none_for_the_owner(capsys):
    assert roles.main(["dev", "--script"]) == 2
    assert "assigns its roles itself" in capsys.readouterr().err


def test_the_page_has_the_roles_that_the_development_stack_assigns(capsys):
    assert roles.main(["dev"]) == 0
    on_page = PAGE.split("<!-- roles of dev -->\n")[1].split("<!-- end -->")[0]
    assert on_page == capsys.readouterr().out, "paste the output of `make roles STACK=dev`"


def test_declared_roles_are_by_identity_and_group():
    resources = declared_by("dev", **OPTIONS["people"])
    rows = roles.declared(resources)
    assert "| hvd-dev-id-training | Storage Blob Data Reader | " in rows
    assert "| group 33333333-3333-3333-3333-333333333332 | AzureML Data Scientist | " in rows
    assert rows == roles.declared(resources[::-1])


def test_the_page_has_the_traffic_that_the_owner_of_the_network_opens(values):
    on_page = PAGE.split("<!-- egress of company -->\n")[1].split("<!-- end -->")[0]
    printed = egress.table(load(values | {"stack": "company"}))
    assert on_page == printed, "paste `make egress STACK=company`"
