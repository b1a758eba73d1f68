"""Pulumi's real engine runs the unchanged program against the simulator."""

import hashlib
import json
from dataclasses import replace

import pytest

from infra.outputs import from_dict
from infra.render import render
from rehearsal.pulumi.deployment import ROOT, SUBSCRIPTION, Deployment
from tests.infra.support.variants import OPTIONS
from tests.rehearsal.support.engine import exported, ran, resource_count
from tests.rehearsal.support.registered import declared, registered

pytestmark = pytest.mark.rehearse_all


def digests():
    """Of the repository's own settings."""
    return {
        path: hashlib.sha256(path.read_bytes()).hexdigest() for path in ROOT.glob("Pulumi*.yaml")
    }


BEFORE = digests()


@pytest.fixture(scope="module")
def deployed(deployment):
    """The dev stack; `test_policies_engine.py` previews it first."""
    output = ran(deployment, "up", "--yes", "--skip-preview")
    assert f"{resource_count()} created" in output
    return deployment


def paths(settings):
    """Paths of a stack's configuration and their values."""
    for key, value in settings.items():
        if isinstance(value, dict):
            yield from ((f"{key}.{inner}", one) for inner, one in value.items())
        elif isinstance(value, list):
            yield from ((f"{key}[{number}]", one) for number, one in enumerate(value))
        else:
            yield key, str(value).lower() if isinstance(value, bool) else value


def previewed(deployment):
    """The resources that a preview of a stack that does not exist would register."""
    steps = json.loads(ran(deployment, "preview", "--json"))["steps"]
    assert {step["op"] for step in steps} == {"create"}
    return [step["newState"] for step in steps]


@pytest.fixture
def tenant(empty_azure, monkeypatch):
    """Let rendering make identities in this tenant."""
    monkeypatch.setattr("infra.render.mocks.TENANT", empty_azure.options.tenant_id)


def test_jobs_read_the_outputs_which_lead_to_the_simulator(empty_azure, deployed):
    outputs = from_dict(json.loads(ran(deployed, "stack", "output", "platform", "--json")))
    assert outputs.subscription_id == SUBSCRIPTION
    assert outputs.tenant_id == empty_azure.options.tenant_id
    stores = (outputs.datastores.raw, outputs.datastores.prepared, outputs.datastores.results)
    for store in stores:
        assert store.blob_endpoint == empty_azure.blob_endpoint(store.account)
        assert empty_azure.blobs.container(store.account, store.container).exists()
    identity = empty_azure.resources.of_kind("Microsoft.ManagedIdentity/userAssignedIdentities")
    by_name = {one["name"]: one["properties"]["clientId"] for one in identity}
    assert outputs.identities.training == by_name["hvd-dev-id-training"]


@pytest.mark.usefixtures("tenant")
def test_the_engine_registers_what_rendering_shows(deployed):
    """The same resources and components, with inputs, ids and options."""
    engine, rendered = (
        registered(exported(deployed)["deployment"]["resources"]),
        declared(render.render("dev", deployed.own_settings)),
    )
    assert engine.keys() == rendered.keys()
    for key, resource in rendered.items():
        assert engine[key] == resource


@pytest.mark.parametrize(
    ("stack", "overrides"),
    [("prod", {}), ("dev", OPTIONS["everything on"])],
    ids=["prod", "everything on"],
)
@pytest.mark.usefixtures("tenant")
def test_a_preview_registers_what_rendering_shows(empty_azure, stack, overrides, tmp_path):
    """All but what Azure alone can say of resources that do not exist yet."""
    with Deployment(empty_azure, tmp_path, stack) as deployment:
        settings = [f"{path}={value}" for path, value in paths(overrides)]
        if settings:
            ran(deployment, "config", "set-all", "--path", *(f"--plaintext={s}" for s in settings))
        engine = registered(previewed(deployment))
    rendered = declared(render.render(stack, overrides | deployment.own_settings))
    assert engine.keys() == rendered.keys()
    for key, resource in rendered.items():
        assert engine[key] == replace(resource, id="")


def test_no_file_of_the_repository_was_touched(deployed):
    assert digests() == BEFORE
