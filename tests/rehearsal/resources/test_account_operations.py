"""What Azure refuses for a while only: operations that overlap, and roles that are too new."""

import threading

import pytest

from rehearsal.options import Options
from rehearsal.simulator import Simulator
from tests.rehearsal.support.small_platform import (
    ACCOUNT,
    GROUP,
    PROVIDERS,
    SUBSCRIPTION,
    WORKSPACE,
    Client,
    compute,
    error,
)
from tests.rehearsal.support.waiting import until

BUSY = (409, "StorageAccountOperationInProgress")
IDENTITY = f"{PROVIDERS}/Microsoft.ManagedIdentity/userAssignedIdentities/workspace"
ENDPOINT = f"{PROVIDERS}/Microsoft.Network/privateEndpoints/blob"
CONTRIBUTOR = "b24988ac-6180-42a0-ab88-20f7382dd24c"
ASSIGNMENT = f"{ACCOUNT}/providers/Microsoft.Authorization/roleAssignments/1"


def endpoint(account):
    connection = {"name": "blob", "properties": {"privateLinkServiceId": account}}
    return {"location": "westeurope", "properties": {"privateLinkServiceConnections": [connection]}}


def test_an_operation_on_an_account_refuses_others_on_it_until_it_ends(tmp_path):
    with Simulator(tmp_path, Options(account_seconds=3.0)) as azure:
        azure.put(GROUP, "", {"location": "westeurope"})
        for account in (ACCOUNT, f"{ACCOUNT}2"):
            azure.put(account, "", {"location": "westeurope", "properties": {}})
        client, url = Client(azure), f"{ACCOUNT}/blobServices/default/containers/results"
        other = Client(azure)
        # Whichever of the two comes first, the other is refused: this one tries until it runs.
        operation = threading.Thread(target=until, args=(lambda: other.put(url, {}).ok,))
        operation.start()
        policy = "managementPolicies/default"
        until(lambda: not client.put(f"{ACCOUNT}/{policy}", {}).ok)
        assert error(client.put(WORKSPACE, {"properties": {"storageAccount": ACCOUNT}})) == BUSY
        # Such an endpoint exists although it was refused.
        assert error(client.put(ENDPOINT, endpoint(ACCOUNT))) == BUSY
        assert client.get(ENDPOINT).ok
        # Other accounts, reads and roles are not refused.
        assert client.get(ACCOUNT).ok
        assert client.put(ASSIGNMENT, {"properties": {}}).ok
        assert client.put(f"{ACCOUNT}2/{policy}", {}).ok
        until(lambda: client.put(f"{ACCOUNT}/{policy}", {}).ok)
        operation.join()


def test_a_workspace_is_refused_until_the_role_of_its_identity_has_an_effect(tmp_path):
    with Simulator(tmp_path, Options(role_seconds=2.0)) as azure:
        client = Client(azure)
        azure.put(GROUP, "", {"location": "westeurope"})
        azure.put(ACCOUNT, "", {"location": "westeurope", "properties": {}})
        identity = azure.put(IDENTITY, "", {"location": "westeurope"})
        workspace = {
            "location": "westeurope",
            "identity": {"type": "UserAssigned", "userAssignedIdentities": {IDENTITY: {}}},
            "properties": {"storageAccount": ACCOUNT},
        }
        refused = (403, "AuthorizationFailed")
        assert error(client.put(WORKSPACE, workspace)) == refused
        role = f"{SUBSCRIPTION}/providers/Microsoft.Authorization/roleDefinitions/{CONTRIBUTOR}"
        principal = identity["properties"]["principalId"]
        properties = {"principalId": principal, "roleDefinitionId": role}
        assert client.put(ASSIGNMENT, {"properties": properties}).ok
        assert error(client.put(WORKSPACE, workspace)) == refused
        until(lambda: client.put(WORKSPACE, workspace).ok)


def test_a_provider_is_refused_until_it_is_registered(client, azure):
    registry = f"{PROVIDERS}/Microsoft.ContainerRegistry/registries/registered"
    azure.admin.unregister("Microsoft.ContainerRegistry")
    assert error(client.put(registry, {})) == (409, "MissingSubscriptionRegistration")
    azure.admin.clear_faults()
    assert client.put(registry, {}).ok
    assert client.ask("DELETE", registry).ok


@pytest.mark.parametrize(
    ("priority", "quota"),
    [("LowPriority", "totalLowPriorityCores"), ("Dedicated", "standardNDSv2Family")],
)
def test_a_cluster_is_refused_if_its_quota_is_less_than_one_node(client, azure, priority, quota):
    cluster = f"{WORKSPACE}/computes/another"
    azure.admin.quota("westeurope", quota, 39)
    refused = client.put(cluster, compute(priority=priority))
    assert error(refused) == (400, "BadRequest")
    assert "vCPU quota of 39" in refused.json()["error"]["message"]
    azure.admin.quota("westeurope", quota, 40)
    assert client.put(cluster, compute(priority=priority)).ok
    azure.admin.quota("westeurope", quota, 1_000)
    assert client.ask("DELETE", cluster, underlyingResourceAction="Delete").ok
