"""Pulumi's real engine runs the unchanged program against Azure on loopback."""

import hashlib
import json
from dataclasses import replace

import pytest

from infra.offline import render
from infra.outputs import from_dict
from rehearsal.loopback import Loopback
from rehearsal.options import Options
from rehearsal.pulumi.deployment import ROOT, SUBSCRIPTION, Deployment
from tests.infra.support.variants import OPTIONS
from tests.rehearsal.support.registered import declared, registered

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def azure(tmp_path_factory):
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
    """The dev stack; `test_policies_engine.py` previews it first."""
    said = ran(deployment, "up", "--yes", "--skip-preview")
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


def paths(settings):
    """Paths of a stack's configuration and their values."""
    for key, value in settings.items():
        if isinstance(value, dict):
            yield from ((f"{key}.{inner}", one) for inner, one in value.items())
        elif isinstance(value, list):
            yield from ((f"{key}[{number}]", one) for number, one in enumerate(value))
        else:
            yield key, str(value).lower() if isinstance(value, bool) else value


def state(deployment):
    document = json.loads(ran(deployment, "stack", "export"))
    return document["deployment"].get("resources", [])


def previewed(deployment):
    """What a preview of a stack that does not exist would register."""
    steps = json.loads(ran(deployment, "preview", "--json"))["steps"]
    assert {step["op"] for step in steps} == {"create"}
    return [step["newState"] for step in steps]


def as_deployed_here(azure, monkeypatch):
    """Let rendering use this subscription and tenant."""
    monkeypatch.setattr("infra.offline.mocks.SUBSCRIPTION", SUBSCRIPTION)
    monkeypatch.setattr("infra.offline.mocks.TENANT", azure.options.tenant_id)


@pytest.mark.rehearse_all
def test_a_second_update_changes_nothing(deployed):
    said = ran(deployed, "up", "--yes", "--skip-preview", "--expect-no-changes")
    assert "118 unchanged" in said


@pytest.mark.rehearse_all
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


@pytest.mark.rehearse_all
def test_the_engine_registers_what_rendering_shows(deployed, azure, monkeypatch):
    """The same resources and components, with inputs, ids and options."""
    as_deployed_here(azure, monkeypatch)
    found, wanted = registered(state(deployed)), declared(render.render("dev", {}))
    assert found.keys() == wanted.keys()
    for key, one in wanted.items():
        assert found[key] == one


@pytest.mark.parametrize(
    ("stack", "overrides"),
    [("prod", {}), ("dev", OPTIONS["everything on"])],
    ids=["prod", "everything on"],
)
def test_a_preview_registers_what_rendering_shows(azure, stack, overrides, tmp_path, monkeypatch):
    """All but what Azure alone can say of resources that do not exist yet."""
    as_deployed_here(azure, monkeypatch)
    with Deployment(azure, tmp_path, stack) as deployment:
        settings = [f"{path}={value}" for path, value in paths(overrides)]
        if settings:
            ran(deployment, "config", "set-all", "--path", *(f"--plaintext={s}" for s in settings))
        found = registered(previewed(deployment))
    wanted = declared(render.render(stack, overrides))
    assert found.keys() == wanted.keys()
    for key, one in wanted.items():
        assert found[key] == replace(one, id="")


@pytest.mark.rehearse_all
def test_only_what_somebody_edited_drifts_and_an_update_takes_it_back(azure, deployed):
    accounts = azure.resources.of_kind("Microsoft.Storage/storageAccounts")
    (account,) = [one["id"] for one in accounts if one["kind"] == "StorageV2"]
    azure.resources.update(account, {"publicNetworkAccess": "Enabled"})
    said = ran(deployed, "up", "--yes", "--skip-preview", "--refresh", "--diff")
    assert [line.replace(" ", "") for line in said.splitlines() if "=>" in line] == [
        '~publicNetworkAccess:"Disabled"=>"Enabled"',
        '~publicNetworkAccess:"Enabled"=>"Disabled"',
    ]
    assert "1 updated" in said
    assert "117 unchanged" in said
    found = azure.resources.get(account)["properties"]["publicNetworkAccess"]
    assert found == "Disabled"


@pytest.mark.rehearse_all
def test_what_azure_would_silently_keep_is_refused_in_a_preview(changed):
    """The program's own hooks run in the engine."""
    changed.configure("registry.zone_redundant", "true")
    ended = changed.run("preview")
    assert ended.returncode != 0
    assert "registry: zoneRedundancy cannot change from 'Disabled' to 'Enabled'" in ended.stdout


@pytest.mark.rehearse_all
def test_another_size_of_nodes_replaces_the_cluster_and_more_nodes_do_not(changed):
    changed.configure("clusters.gpu.max_nodes", "1")
    changed.configure("clusters.preparation.size", "Standard_D16ads_v5")
    said = ran(changed, "preview", "--diff")
    assert "1 to update" in said
    assert "1 to replace" in said
    assert "~ maxNodeCount: 2 => 1" in said
    assert '~ vmSize: "Standard_D8ads_v5" => "Standard_D16ads_v5"' in said


@pytest.mark.rehearse_all
def test_destroying_leaves_nothing_but_what_azure_keeps(azure, deployed):
    ran(deployed, "destroy", "--yes", "--skip-preview")
    left = azure.resources.of_kind("Microsoft.Resources/resourceGroups")
    assert left == []
    assert [one for one in state(deployed) if one["type"].startswith("azure-native:")] == []


@pytest.mark.rehearse_all
def test_no_file_of_the_repository_was_touched(deployed, files_before):
    assert {path: _digest(path) for path in ROOT.glob("Pulumi*.yaml")} == files_before
