"""The managed network of a workspace: what Azure refuses, once and for ever, or for a while."""

import threading

import pytest

from rehearsal.options import Options
from rehearsal.simulator import Simulator
from tests.rehearsal.support.small_platform import (
    ACCOUNT,
    CLUSTER,
    GROUP,
    PROVIDERS,
    WORKSPACE,
    Client,
    compute,
    error,
    give,
)
from tests.rehearsal.support.waiting import until

APPROVER = "b556d68e-0be0-4f35-a333-ad7ee1ce17ea"
IDENTITY = f"{PROVIDERS}/Microsoft.ManagedIdentity/userAssignedIdentities/workspace"
DATA = f"{ACCOUNT}2"
RULE = f"{WORKSPACE}/outboundRules"
REFUSED = (400, "UserError")
ONLY = "AllowOnlyApprovedOutbound"


def workspace(mode, **properties):
    return {
        "location": "westeurope",
        "identity": {"type": "UserAssigned", "userAssignedIdentities": {IDENTITY: {}}},
        "properties": {
            "storageAccount": ACCOUNT,
            "provisionNetworkNow": True,
            "managedNetwork": {"isolationMode": mode},
            **properties,
        },
    }


def endpoint(target, part="blob"):
    destination = {"serviceResourceId": target, "subresourceTarget": part}
    return {"properties": {"type": "PrivateEndpoint", "destination": destination}}


def host(name):
    return {"properties": {"type": "FQDN", "destination": name}}


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    options = Options(account_seconds=0.5, roles=True)
    with Simulator(tmp_path_factory.mktemp("network"), options) as azure:
        azure.put(GROUP, "", {"location": "westeurope"})
        for account in (ACCOUNT, DATA):
            azure.put(account, "", {"location": "westeurope", "properties": {}})
        azure.put(IDENTITY, "", {"location": "westeurope"})
        yield azure


@pytest.fixture
def made(network):
    """A client, with a workspace that has a managed network."""
    client = Client(network)
    assert client.put(WORKSPACE, workspace(ONLY)).ok
    return client


def test_the_way_into_it_is_one_way(made):
    for mode in ("Disabled", "AllowInternetOutbound"):
        assert error(made.put(WORKSPACE, workspace(mode))) == REFUSED
    assert made.put(WORKSPACE, workspace(ONLY)).ok
    assert made.get(WORKSPACE).json()["properties"]["managedNetwork"]["status"] == {
        "status": "Active",
        "sparkReady": False,
    }


def test_a_workspace_with_computes_does_not_get_one(network):
    client, other = Client(network), f"{WORKSPACE}2"
    assert client.put(other, workspace("Disabled")).ok
    assert client.put(f"{other}/computes/cluster", compute()).ok
    assert error(client.put(other, workspace(ONLY))) == REFUSED


def test_nodes_take_no_subnet_and_no_other_region(made):
    subnet = {"serverlessComputeCustomSubnet": f"{GROUP}/subnets/nodes"}
    refused = made.put(WORKSPACE, workspace(ONLY, serverlessComputeSettings=subnet))
    assert error(refused) == REFUSED
    cluster = compute()
    cluster["properties"]["properties"]["subnet"] = {"id": f"{GROUP}/subnets/nodes"}
    assert error(made.put(CLUSTER, cluster)) == REFUSED
    assert error(made.put(CLUSTER, compute() | {"location": "northeurope"})) == REFUSED
    assert made.put(CLUSTER, compute()).ok


def test_rules_inside_a_workspace_fail_at_the_second_deployment(made):
    inside = workspace(ONLY)
    inside["properties"]["managedNetwork"]["outboundRules"] = {"data": endpoint(DATA)["properties"]}
    assert error(made.put(WORKSPACE, inside)) == (500, "InternalServerError")


def test_what_the_service_approves_itself_is_not_declared_again(made):
    assert error(made.put(f"{RULE}/own", endpoint(ACCOUNT))) == REFUSED
    assert error(made.put(f"{RULE}/storage", host("x.blob.core.windows.net"))) == REFUSED
    assert error(made.put(f"{RULE}/gone", endpoint(f"{DATA}gone"))) == REFUSED
    assert made.put(f"{RULE}/packages", host("pypi.org")).ok
    shown = made.get(WORKSPACE).json()["properties"]["managedNetwork"]["outboundRules"]
    assert shown["packages"]["status"] == "Active"
    assert {one["category"] for name, one in shown.items() if name.startswith("__SYS")} == {
        "Required"
    }


def test_an_endpoint_stays_pending_until_the_workspace_may_approve_it(made, network):
    pending = made.put(f"{RULE}/data", endpoint(DATA)).json()
    assert pending["properties"]["status"] == "Inactive"
    principal = network.resources.get(IDENTITY)["properties"]["principalId"]
    give(network, principal, APPROVER, DATA)
    approved = made.put(f"{RULE}/data", endpoint(DATA)).json()
    assert approved["properties"]["status"] == "Active"


def test_rules_at_the_same_time_are_refused(made, network):
    other, name = Client(network), f"{RULE}/host"
    operation = threading.Thread(target=until, args=(lambda: other.put(name, host("a.org")).ok,))
    operation.start()
    until(lambda: not made.put(f"{RULE}/another", host("b.org")).ok)
    refused = made.put(f"{RULE}/another", host("b.org"))
    assert refused.ok or error(refused) == (409, "Conflict")
    until(lambda: made.put(f"{RULE}/another", host("b.org")).ok)
    operation.join()
