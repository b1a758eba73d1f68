"""Pulumi's engine asks the policy pack about the program, and about what it has deployed."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from infra.policies import pack
from rehearsal.pulumi.deployment import ROOT
from tests.rehearsal.support.engine import exported, ran, resource_count

pytestmark = pytest.mark.rehearse_all

PACK = "infra/policies"
"""From the repository's folder, as a person gives it."""
OPENED = """
def mistaken(args):
    if args.type_ == "azure-native:storage:StorageAccount" and args.name == "storage-data":
        args.props["public_network_access"] = "Enabled"
    return pulumi.ResourceTransformationResult(args.props, args.opts)
"""
"""A mistake in the program: one account that answers the internet."""
READS = "training-prepared-storage-blob-data-reader"
WRITES = f"""
def mistaken(args):
    if args.name == "{READS}":
        role = "ba92f5b4-2d11-453d-a403-e96b0029c9fe"
        args.props["role_definition_id"] = f"/providers/x/roleDefinitions/{{role}}"
    return pulumi.ResourceTransformationResult(args.props, args.opts)
"""
"""Another one: training could write training data."""


@pytest.fixture(scope="module")
def update(deployment):
    """The output of a preview and an update under the pack."""
    return ran(deployment, "up", "--yes", "--policy-pack", PACK)


def mistaken(folder, mistake):
    """The folder of a program with a mistake."""
    for name in ("Pulumi.yaml", ".venv"):
        (folder / name).symlink_to(ROOT / name)
    shutil.copytree(ROOT / "infra", folder / "infra")
    main = folder / "infra" / "__main__.py"
    text = main.read_text(encoding="utf-8")
    declared = "for name, value in platform.declare("
    assert declared in text
    made = f"{mistake}\n\npulumi.runtime.register_stack_transformation(mistaken)\n"
    main.write_text(text.replace(declared, f"{made}{declared}"), encoding="utf-8")
    return folder


def analyze_file(deployment, document, folder):
    """`pulumi policy analyze` of an exported state."""
    file = folder / "state.json"
    file.write_text(json.dumps(document), encoding="utf-8")
    return subprocess.run(
        [str(deployment.program), "policy", "analyze", "--file", str(file), "--policy-pack", PACK],
        cwd=ROOT,
        env=os.environ | deployment.environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def access(azure):
    """Whether the account of the data answers the internet."""
    accounts = azure.resources.of_kind("Microsoft.Storage/storageAccounts")
    (account,) = [one for one in accounts if one["kind"] == "BlockBlobStorage"]
    return account["properties"]["publicNetworkAccess"]


def test_the_program_keeps_every_rule_in_a_preview_and_in_an_update(update):
    assert f"{resource_count()} created" in update
    assert update.count("private-training-platform@v1.0.0") == 2
    assert "[mandatory]" not in update


def test_an_update_leaves_no_rule_unchecked(update):
    """Only a preview of a resource that does not exist yet may not know enough."""
    _, _, after_preview = update.partition("Updating")
    assert "can't run policy" not in after_preview


def test_a_resource_that_breaks_a_rule_is_not_changed(empty_azure, deployment, update, tmp_path):
    folder = str(mistaken(tmp_path, OPENED))
    for command in (("preview",), ("up", "--yes", "--skip-preview")):
        ended = deployment.run(*command, "--cwd", folder, "--policy-pack", str(ROOT / PACK))
        assert ended.returncode != 0
        assert (
            "[mandatory]  no-public-endpoint  (azure-native:storage:StorageAccount: storage-data)"
            in ended.stdout
        )
        assert "publicNetworkAccess is 'Enabled' and must be 'Disabled'" in ended.stdout
        assert access(empty_azure) == "Disabled"


def test_a_refresh_holds_to_the_rules_what_is_declared_and_not_what_is_to_be_deleted(
    deployment, update, tmp_path
):
    deployment.configure("clusters.preparation", "null")
    try:
        refreshed = ("preview", "--refresh", "--policy-pack", str(ROOT / PACK))
        kept = ran(deployment, *refreshed)
        ended = deployment.run(*refreshed, "--cwd", str(mistaken(tmp_path, WRITES)))
    finally:
        deployment.reset()
    assert "identity-preparation" in kept
    assert "[mandatory]" not in kept
    assert ended.returncode != 0
    said = [line for line in ended.stdout.splitlines() if "[mandatory]" in line]
    assert len(said) == 1, ended.stdout
    assert f"least-privilege  (azure-native:authorization:RoleAssignment: {READS})" in said[0]


def test_the_state_of_the_stack_keeps_every_rule(deployment, update):
    output = ran(deployment, "policy", "analyze", "--policy-pack", PACK)
    assert "private-training-platform@v1.0.0" in output
    assert "can't run policy" not in output
    assert "[mandatory]" not in output


def test_a_state_that_breaks_rules_is_told_with_the_resources(deployment, update, tmp_path):
    document = exported(deployment)
    rows = document["deployment"]["resources"]
    vault = next(row for row in rows if row["type"] == "azure-native:keyvault/v20260201:Vault")
    vault["inputs"]["properties"]["enableRbacAuthorization"] = False
    document["deployment"]["resources"] = [
        row for row in rows if row["type"] != "azure-native:consumption:Budget"
    ]
    ended = analyze_file(deployment, document, tmp_path)
    assert ended.returncode != 0
    found = {rule.name for rule in pack.ALL if f"[mandatory]  {rule.name}  " in ended.stdout}
    assert found == {"no-keys", "complete"}
    assert "vault (keyvault:Vault): properties.enableRbacAuthorization is false" in ended.stdout


def test_what_was_opened_by_hand_is_a_violation_after_a_refresh(empty_azure, deployment, update):
    accounts = empty_azure.resources.of_kind("Microsoft.Storage/storageAccounts")
    (account,) = [one for one in accounts if one["kind"] == "BlockBlobStorage"]
    empty_azure.resources.update(account["id"], {"publicNetworkAccess": "Enabled"})
    output = ran(deployment, "refresh", "--yes", "--skip-preview", "--diff")
    assert [line.replace(" ", "") for line in output.splitlines() if "=>" in line] == [
        '~publicNetworkAccess:"Disabled"=>"Enabled"'
    ]
    ended = deployment.run("policy", "analyze", "--policy-pack", PACK)
    assert ended.returncode != 0
    assert "no-public-endpoint" in ended.stdout
    assert "storage-data (storage:StorageAccount): publicNetworkAccess is 'Enabled'" in ended.stdout


def test_nothing_runs_on_when_the_commands_have_ended(deployment, update):
    """Neither the host nor a pack; both have the environment of their command."""
    home = f"PULUMI_HOME={deployment.environment['PULUMI_HOME']}".encode()
    assert running(home) == []


def running(variable):
    """Processes that were started with a variable."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and variable in (folder / "environ").read_bytes().split(b"\0"):
                found.append((folder / "cmdline").read_bytes())
        except OSError:
            continue
    return found
