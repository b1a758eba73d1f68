"""Pulumi's real engine runs the unchanged program against Azure on loopback."""

import hashlib
import json
from collections import Counter

import pytest

from infra import render
from infra.outputs import from_dict
from rehearsal.deployment import BUILT, ROOT, SUBSCRIPTION, Deployment, program
from rehearsal.errors import RehearsalError
from rehearsal.loopback import Loopback
from rehearsal.options import Options

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def azure(tmp_path_factory):
    try:
        program()
    except RehearsalError:
        pytest.skip(f"needs Pulumi's engine, on the path or in {BUILT} (`make engine`)")
    with Loopback(tmp_path_factory.mktemp("azure"), Options()) as azure:
        yield azure


@pytest.fixture(scope="module")
def files_before():
    return {path: _digest(path) for path in ROOT.glob("Pulumi*.yaml")}


@pytest.fixture(scope="module")
def deployment(azure, tmp_path_factory, files_before):
    with Deployment(azure, tmp_path_factory.mktemp("pulumi")) as deployment:
        yield deployment


@pytest.fixture(scope="module")
def deployed(deployment):
    """The dev stack, after a preview and an update."""
    said = ran(deployment, "up", "--yes")
    assert "118 created" in said
    return deployment


@pytest.fixture
def changed(deployed):
    """The stack, to be configured; it is as before afterwards."""
    yield deployed
    deployed.reset()


def ran(deployment, *arguments):
    ended = deployment.run(*arguments)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def _digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def state(deployment):
    document = json.loads(ran(deployment, "stack", "export"))
    resources = document["deployment"].get("resources", [])
    return [one for one in resources if one["type"].startswith("azure-native:")]


def test_a_second_update_changes_nothing(deployed):
    said = ran(deployed, "up", "--yes", "--skip-preview", "--expect-no-changes")
    assert "118 unchanged" in said


def test_the_outputs_are_read_by_the_jobs_and_lead_to_the_loopback(azure, deployed):
    outputs = from_dict(json.loads(ran(deployed, "stack", "output", "platform", "--json")))
    assert outputs.subscription_id == SUBSCRIPTION
    assert outputs.tenant_id == azure.options.tenant_id
    stores = (outputs.datastores.raw, outputs.datastores.prepared, outputs.datastores.results)
    for store in stores:
        assert store.blob_endpoint == azure.blob_endpoint(store.account)
        assert azure.blobs.container(store.account, store.container).exists()
    identity = azure.resources.of_kind("Microsoft.ManagedIdentity/userAssignedIdentities")
    by_name = {one["name"]: one["properties"]["clientId"] for one in identity}
    assert outputs.identities.training == by_name["hvd-dev-id-training"]


def test_the_engine_registers_what_rendering_shows(deployed, azure, monkeypatch):
    """The same types, names and inputs, but for what only Azure can say."""
    monkeypatch.setattr("infra.mocks.SUBSCRIPTION", SUBSCRIPTION)
    monkeypatch.setattr("infra.mocks.TENANT", azure.options.tenant_id)
    rendered = [one for one in render.render("dev", {}) if one.type.startswith("azure-native:")]
    found = {(one["type"], one["urn"].rpartition("::")[2]): one for one in state(deployed)}
    assert Counter(type_ for type_, _ in found) == Counter(one.type for one in rendered)
    for one in rendered:
        known = found[one.type, one.name]
        assert known["id"] == one.id, one.name
        inputs = {name: value for name, value in known["inputs"].items() if name != "principalId"}
        expected = {name: value for name, value in one.inputs.items() if name != "principalId"}
        assert inputs == expected, one.name


def test_only_what_somebody_edited_drifts(azure, deployed):
    group = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/hvd-dev-rg"
    account = f"{group}/providers/Microsoft.Storage/storageAccounts"
    (name,) = [
        one["name"]
        for one in azure.resources.of_kind("Microsoft.Storage/storageAccounts")
        if one["kind"] == "StorageV2"
    ]
    azure.resources.update(f"{account}/{name}", {"publicNetworkAccess": "Enabled"})
    said = ran(deployed, "preview", "--refresh", "--diff")
    assert '~ publicNetworkAccess: "Enabled" => "Disabled"' in said
    assert "1 to update" in said
    assert "117 unchanged" in said
    ran(deployed, "up", "--yes", "--skip-preview", "--refresh")
    assert azure.resources.get(f"{account}/{name}")["properties"]["publicNetworkAccess"] == (
        "Disabled"
    )


def test_what_azure_would_silently_keep_is_refused_in_a_preview(changed):
    """The program's own hooks run in the engine."""
    changed.configure("registry.zone_redundant", "true")
    ended = changed.run("preview")
    assert ended.returncode != 0
    assert "registry: zoneRedundancy cannot change from 'Disabled' to 'Enabled'" in ended.stdout


def test_another_size_of_nodes_replaces_the_cluster_and_more_nodes_do_not(changed):
    changed.configure("clusters.gpu.max_nodes", "1")
    changed.configure("clusters.preparation.size", "Standard_D16ads_v5")
    said = ran(changed, "preview", "--diff")
    assert "1 to update" in said
    assert "1 to replace" in said
    assert "~ maxNodeCount: 2 => 1" in said
    assert '~ vmSize: "Standard_D8ads_v5" => "Standard_D16ads_v5"' in said


def test_destroying_leaves_nothing_but_what_azure_keeps(azure, deployed):
    ran(deployed, "destroy", "--yes", "--skip-preview")
    left = azure.resources.of_kind("Microsoft.Resources/resourceGroups")
    assert left == []
    assert state(deployed) == []


def test_no_file_of_the_repository_was_touched(deployed, files_before):
    assert {path: _digest(path) for path in ROOT.glob("Pulumi*.yaml")} == files_before
