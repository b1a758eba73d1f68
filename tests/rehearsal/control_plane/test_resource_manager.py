"""Resource Manager stores, shows, lists and deletes resources of any kind."""

from dataclasses import replace

from rehearsal.control_plane.resource_manager import merged
from rehearsal.simulator import Simulator
from tests.rehearsal.support.small_platform import (
    ACCOUNT,
    CLUSTER,
    GROUP,
    OPTIONS,
    PROVIDERS,
    SUBSCRIPTION,
    WORKSPACE,
    Client,
    compute,
    declare,
    error,
)
from tests.rehearsal.support.waiting import until


def test_a_change_merges_and_null_removes():
    before = {"a": {"b": 1, "c": 2}, "d": 3}
    assert merged(before, {"a": {"b": None, "e": 4}, "d": 5}) == {"a": {"c": 2, "e": 4}, "d": 5}
    assert before == {"a": {"b": 1, "c": 2}, "d": 3}


def test_a_resource_is_what_azure_would_show(client):
    workspace = client.get(WORKSPACE).json()
    assert workspace["id"] == WORKSPACE
    assert workspace["type"] == "Microsoft.MachineLearningServices/workspaces"
    assert workspace["properties"]["provisioningState"] == "Succeeded"
    assert workspace["systemData"]["createdBy"] == "platform"
    account = client.get(ACCOUNT).json()
    assert account["properties"]["primaryEndpoints"]["blob"] == client.azure.blob_endpoint(
        "teststore"
    )
    assert "key" not in account


def test_ids_have_no_case(client):
    shouted = WORKSPACE.upper().replace("SUBSCRIPTIONS", "subscriptions")
    assert client.get(shouted).status_code == 200


def test_what_is_missing_is_named(client):
    missing = client.get(f"{WORKSPACE}/computes/nobody")
    assert error(missing) == (404, "ResourceNotFound")
    assert "nobody" in missing.json()["error"]["message"]
    assert error(client.get(f"{SUBSCRIPTION}/resourceGroups/none/providers/a/b/c")) == (
        404,
        "ResourceGroupNotFound",
    )
    orphan = f"{PROVIDERS}/Microsoft.MachineLearningServices/workspaces/none/computes/gpu"
    assert error(client.put(orphan, compute())) == (404, "ParentResourceNotFound")
    assert client.ask("DELETE", f"{PROVIDERS}/a/b/none").status_code == 204


def test_any_kind_of_resource_is_kept_changed_listed_and_deleted(client):
    network = f"{PROVIDERS}/Microsoft.Network/virtualNetworks/net"
    assert client.put(network, {"location": "x", "properties": {"a": 1}}).status_code == 201
    assert client.put(network, {"location": "x", "properties": {"b": 2}}).status_code == 200
    patched = client.ask("PATCH", network, {"tags": {"c": "d"}, "properties": {"b": None}}).json()
    assert patched["tags"] == {"c": "d"}
    assert "a" not in patched["properties"]
    assert "b" not in patched["properties"]
    client.put(f"{network}/subnets/one", {})
    subnets = client.get(f"{network}/subnets").json()["value"]
    assert [subnet["name"] for subnet in subnets] == ["one"]
    networks = client.get(f"{PROVIDERS}/Microsoft.Network/virtualNetworks").json()["value"]
    assert [listed["name"] for listed in networks] == ["net"]
    below_group = [listed["id"] for listed in client.get(f"{GROUP}/resources").json()["value"]]
    assert network in below_group
    assert f"{network}/subnets/one" not in below_group
    role = f"{network}/providers/Microsoft.Authorization/roleAssignments/1"
    assert (
        client.put(role, {"properties": {"principalId": "p", "principalType": "User"}}).status_code
        == 201
    )
    assert client.get(role).json()["type"] == "Microsoft.Authorization/roleAssignments"
    assert client.ask("DELETE", network).status_code == 202
    assert client.get(role).status_code == 404
    assert client.get(f"{network}/subnets/one").status_code == 404


def test_a_group_takes_all_that_is_in_it_with_it(client):
    group = GROUP.replace("/rg", "/short")
    account = ACCOUNT.replace("/rg/", "/short/").replace("teststore", "shortstore")
    workspace = WORKSPACE.replace("/rg/", "/short/")
    body = {"location": "westeurope", "properties": {"storageAccount": account}}
    assert client.put(group, {"location": "westeurope"}).status_code == 201
    assert client.put(account, {"location": "westeurope"}).status_code == 202
    assert client.put(workspace, body).status_code == 202
    assert client.ask("HEAD", group).status_code == 204
    assert client.ask("DELETE", group).status_code == 202
    assert client.ask("HEAD", group).status_code == 404
    assert error(client.get(workspace)) == (404, "ResourceGroupNotFound")
    client.put(group, {"location": "westeurope"})
    client.put(account, {"location": "westeurope"})
    assert error(client.put(workspace, body)) == (409, "Conflict")
    assert client.ask("DELETE", workspace, forceToPurge="true").status_code in {200, 204}
    assert client.put(workspace, body).status_code == 202
    client.ask("DELETE", group, forceToPurge="true")


def test_a_deletion_goes_on_after_it_was_accepted_and_comes_to_its_end(tmp_path):
    with Simulator(tmp_path, replace(OPTIONS, operation_seconds=2.0)) as azure:
        declare(azure)
        client = Client(azure)
        accepted = client.ask("DELETE", CLUSTER, underlyingResourceAction="Delete")
        assert accepted.status_code == 202
        operation = accepted.headers["Azure-AsyncOperation"].removeprefix(azure.url)
        assert client.get(operation).json() == {"status": "InProgress"}
        assert client.get(CLUSTER).json()["properties"]["provisioningState"] == "Deleting"
        until(lambda: client.get(operation).json()["status"] == "Succeeded")
        assert client.get(CLUSTER).status_code == 404


def test_the_subscriptions_with_a_group_are_listed_and_providers_can_be_registered(client):
    listed = client.get("/subscriptions").json()["value"]
    assert SUBSCRIPTION in [one["id"] for one in listed]
    client.azure.admin.unregister("Microsoft.KeyVault")
    provider = f"{SUBSCRIPTION}/providers/Microsoft.KeyVault"
    assert client.get(provider).json()["registrationState"] == "NotRegistered"
    answer = client.ask("POST", f"{provider}/register")
    assert answer.json()["registrationState"] == "Registered"
    assert client.get(provider).json()["registrationState"] == "Registered"


def test_a_feature_is_registered_as_azs_feature_register_does_it(client):
    client.azure.admin.unregister("EncryptionAtHost")
    feature = (
        f"{SUBSCRIPTION}/providers/Microsoft.Features/providers/Microsoft.Compute/features"
        "/EncryptionAtHost"
    )
    assert client.get(feature).json()["properties"]["state"] == "NotRegistered"
    assert client.ask("POST", f"{feature}/register").json()["properties"]["state"] == "Registered"
    assert client.get(feature).json()["properties"]["state"] == "Registered"
