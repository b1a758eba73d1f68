"""The provider as the engine speaks to it, with the simulator behind it."""

import grpc
import pytest
from pulumi.runtime.proto import provider_pb2 as protocol
from pulumi.runtime.proto.provider_pb2_grpc import ResourceProviderStub

from rehearsal.pulumi.provider.server import CLIENT_CONFIG, Provider
from rehearsal.pulumi.provider.values import UNKNOWN, plain, struct
from tests.rehearsal.support.small_platform import (
    ACCOUNT,
    CLUSTER,
    GROUP,
    SUBSCRIPTION,
    compute,
)

SUBSCRIPTION_ID = SUBSCRIPTION.rpartition("/")[2]
NSG = "azure-native:network:NetworkSecurityGroup"
BLOBS = "azure-native:storage:BlobServiceProperties"
COMPUTE = "azure-native:machinelearningservices:Compute"
IDENTITY = "azure-native:managedidentity:UserAssignedIdentity"
VAULT = "azure-native:keyvault:Vault"
Diff = protocol.PropertyDiff.Kind


@pytest.fixture(scope="module")
def provider(azure):
    with Provider(azure.environment, azure.url, SUBSCRIPTION_ID) as provider:
        name, _, port = provider.environment["PULUMI_DEBUG_PROVIDERS"].partition(":")
        assert name == "azure-native"
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield ResourceProviderStub(channel)


def urn(token):
    return f"urn:pulumi:dev::project::platform:index:Part${token}::name"


def nsg(**changed):
    name = {"networkSecurityGroupName": "own", "resourceGroupName": "rg"}
    return {**name, "location": "westeurope", **changed}


@pytest.fixture
def made(provider, client):
    """A resource that the provider has made."""
    request = protocol.CreateRequest(urn=urn(NSG), properties=struct(nsg()))
    answer = provider.Create(request)
    yield answer
    client.ask("DELETE", answer.id)


def refusal(function, request):
    with pytest.raises(grpc.RpcError) as caught:
        function(request)
    return caught.value.details()


def test_who_deploys_is_known(provider, azure):
    answer = provider.Invoke(protocol.InvokeRequest(tok=CLIENT_CONFIG))
    found = plain(getattr(answer, "return"))
    assert found["subscriptionId"] == SUBSCRIPTION_ID
    assert found["tenantId"] == azure.options.tenant_id
    assert found["clientId"] == azure.environment["AZURE_CLIENT_ID"]


def test_questions_and_types_that_are_not_known_are_refused_by_name(provider):
    question = protocol.InvokeRequest(tok="azure-native:storage:listStorageAccountKeys")
    assert "listStorageAccountKeys" in refusal(provider.Invoke, question)
    unknown = protocol.CheckRequest(urn=urn("azure-native:web:Site"))
    assert "azure-native:web:Site is not supported here" in refusal(provider.Check, unknown)


def test_check_names_each_property_that_is_wrong(provider):
    request = protocol.CheckRequest(urn=urn(NSG), news=struct(nsg(rules=[], location=None)))
    answer = provider.Check(request)
    assert [one.property for one in answer.failures] == ["rules"]


def test_a_preview_asks_azure_nothing_and_knows_only_the_inputs(provider, azure):
    azure.admin.forget_requests()
    inputs = {"resourceName": UNKNOWN, "resourceGroupName": "rg", "location": "westeurope"}
    request = protocol.CreateRequest(urn=urn(IDENTITY), properties=struct(inputs), preview=True)
    answer = provider.Create(request)
    assert plain(answer.properties) == inputs
    assert not answer.id
    assert azure.requests == []


def test_a_preview_does_not_know_what_azure_adds_to_what_is_given(provider):
    """An object that looked complete would lead the program to take missing properties for empty
    ones."""
    inputs = {"vaultName": "own-vault", "resourceGroupName": "rg", "properties": {"tenantId": "t"}}
    request = protocol.CreateRequest(urn=urn(VAULT), properties=struct(inputs), preview=True)
    found = plain(provider.Create(request).properties)
    assert found["properties"] == {"tenantId": "t", "vaultUri": UNKNOWN}
    recorded = {**inputs, "properties": {"tenantId": "t", "vaultUri": "https://own-vault/"}}
    changed = {**inputs, "properties": {"tenantId": "other"}}
    update = protocol.UpdateRequest(
        urn=urn(VAULT), olds=struct(recorded), news=struct(changed), preview=True
    )
    found = plain(provider.Update(update).properties)
    assert found["properties"] == {"tenantId": "other", "vaultUri": "https://own-vault/"}


def test_what_was_made_is_there_and_comes_back_as_azure_shows_it(client, made):
    assert made.id == f"{GROUP}/providers/Microsoft.Network/networkSecurityGroups/own"
    assert client.get(made.id).ok
    found = plain(made.properties)
    assert found["name"] == "own"
    assert found["provisioningState"] == "Succeeded"


def test_what_is_there_already_is_not_made(provider, made):
    request = protocol.CreateRequest(urn=urn(NSG), properties=struct(nsg()))
    assert "already existing resource" in refusal(provider.Create, request)


def test_azures_refusal_is_told_with_its_code(provider):
    rules = {"networkSecurityGroupName": "own", "resourceGroupName": "none"}
    request = protocol.CreateRequest(
        urn=urn(NSG), properties=struct({**rules, "location": "westeurope"})
    )
    said = refusal(provider.Create, request)
    assert 'Status=404 Code="ResourceGroupNotFound"' in said


def test_a_throttled_request_is_sent_again(provider, azure, client):
    azure.admin.fault("PUT .*/networkSecurityGroups/own", status=429, retry_after=0, times=1)
    answer = provider.Create(protocol.CreateRequest(urn=urn(NSG), properties=struct(nsg())))
    statuses = [one.status for one in azure.requests if one.method == "PUT"]
    assert statuses[-2:] == [429, 201]
    assert client.ask("DELETE", answer.id).ok


def test_a_change_behind_pulumis_back_is_read_as_drift(provider, azure, made):
    azure.resources.update(made.id, {"flushConnection": True})
    read = protocol.ReadRequest(
        id=made.id, urn=urn(NSG), inputs=struct(nsg()), properties=made.properties
    )
    assert plain(provider.Read(read).inputs) == nsg(flushConnection=True)


def test_what_is_gone_is_read_as_nothing_and_deleted_silently(provider, client, made):
    assert client.ask("DELETE", made.id).ok
    read = protocol.ReadRequest(id=made.id, urn=urn(NSG), inputs=struct(nsg()))
    assert not provider.Read(read).id
    provider.Delete(protocol.DeleteRequest(id=made.id, urn=urn(NSG)))


def test_what_no_stack_has_made_is_looked_up_by_its_id_alone(provider):
    store = urn("azure-native:storage:StorageAccount")
    assert provider.Read(protocol.ReadRequest(id=ACCOUNT, urn=store)).id == ACCOUNT
    assert not provider.Read(protocol.ReadRequest(id=f"{ACCOUNT}x", urn=store)).id


def test_diff_says_where_and_whether_it_takes_another_resource(provider, made):
    def compared(**changed):
        return provider.Diff(
            protocol.DiffRequest(
                id=made.id, urn=urn(NSG), old_inputs=struct(nsg()), news=struct(nsg(**changed))
            )
        )

    assert compared().changes == protocol.DiffResponse.DIFF_NONE
    tags = compared(tags={"owner": "me"})
    assert [(path, one.kind) for path, one in tags.detailedDiff.items()] == [("tags", Diff.ADD)]
    assert list(tags.replaces) == []
    place = compared(location="northeurope")
    assert list(place.replaces) == ["location"]
    # The new one has the name of the old one.
    assert place.deleteBeforeReplace
    renamed = compared(networkSecurityGroupName="other")
    assert renamed.detailedDiff["networkSecurityGroupName"].kind == Diff.UPDATE_REPLACE
    assert not renamed.deleteBeforeReplace
    unknown = compared(networkSecurityGroupName=UNKNOWN)
    assert not unknown.deleteBeforeReplace


def test_an_update_keeps_the_resource_and_its_preview_changes_nothing(provider, client, made):
    request = protocol.UpdateRequest(
        id=made.id, urn=urn(NSG), olds=made.properties, news=struct(nsg(tags={"owner": "me"}))
    )
    request.preview = True
    assert plain(provider.Update(request).properties)["tags"] == {"owner": "me"}
    assert "tags" not in client.get(made.id).json()
    request.preview = False
    assert plain(provider.Update(request).properties)["tags"] == {"owner": "me"}
    assert client.get(made.id).json()["tags"] == {"owner": "me"}


def test_settings_that_come_with_an_account_are_reset_not_deleted(provider, client):
    inputs = {
        "accountName": "teststore",
        "resourceGroupName": "rg",
        "blobServicesName": "default",
        "isVersioningEnabled": True,
    }
    made = provider.Create(protocol.CreateRequest(urn=urn(BLOBS), properties=struct(inputs)))
    assert client.get(made.id).json()["properties"]["isVersioningEnabled"]
    provider.Delete(protocol.DeleteRequest(id=made.id, urn=urn(BLOBS)))
    assert "isVersioningEnabled" not in client.get(made.id).json()["properties"]


def test_a_cluster_is_deleted_as_azure_native_deletes_it(provider, azure, client):
    cluster = f"{CLUSTER}-2"
    assert client.put(cluster, compute()).ok
    azure.admin.forget_requests()
    provider.Delete(protocol.DeleteRequest(id=cluster, urn=urn(COMPUTE)))
    [deletion] = [one for one in azure.requests if one.method == "DELETE"]
    # Without what to do with the nodes, which Azure's specification requires.
    assert set(deletion.query.split("&")) == {"api-version=2025-12-01"}
    assert deletion.status == 202
    assert client.get(cluster).status_code == 404
