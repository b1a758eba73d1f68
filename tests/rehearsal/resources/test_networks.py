"""Networks of Azure on loopback: an order is asked for, as Azure asks for it."""

import pytest

from tests.rehearsal.conftest import GROUP

NETWORK = f"{GROUP}/providers/Microsoft.Network"
VNET = f"{NETWORK}/virtualNetworks/vnet"
NSG = f"{NETWORK}/networkSecurityGroups/nsg"
SUBNET = f"{VNET}/subnets/inside"
ENDPOINT = f"{NETWORK}/privateEndpoints/endpoint"


def subnet(name="inside", **properties):
    return {"name": name, "properties": {"addressPrefix": "10.0.0.0/25", **properties}}


def network(*subnets):
    return {"location": "westeurope", "properties": {"subnets": list(subnets)}}


@pytest.fixture
def made(client):
    """A network with a subnet that a private endpoint is in."""
    assert client.put(NSG, {"location": "westeurope"}).ok
    assert client.put(VNET, network(subnet(networkSecurityGroup={"id": NSG}))).ok
    endpoint = {"location": "westeurope", "properties": {"subnet": {"id": SUBNET}}}
    assert client.put(ENDPOINT, endpoint).ok
    yield client
    for identifier in (ENDPOINT, VNET, NSG):
        assert client.ask("DELETE", identifier).status_code in {200, 204}


def test_what_is_referred_to_must_be_there(client):
    answer = client.put(VNET, network(subnet(networkSecurityGroup={"id": NSG})))
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "InvalidResourceReference"
    assert NSG in answer.json()["error"]["message"]
    assert client.get(VNET).status_code == 404


def test_subnets_are_resources_of_their_own(made):
    shown = made.get(VNET).json()["properties"]["subnets"]
    assert [one["id"] for one in shown] == [SUBNET]
    assert made.get(SUBNET).json()["properties"]["networkSecurityGroup"]["id"] == NSG
    assert made.put(VNET, network(subnet(), subnet("more"))).ok
    assert made.get(f"{VNET}/subnets/more").ok
    assert made.put(VNET, network(subnet())).ok
    assert made.get(f"{VNET}/subnets/more").status_code == 404


@pytest.mark.parametrize(
    ("identifier", "code"),
    [
        (NSG, "InUseNetworkSecurityGroupCannotBeDeleted"),
        (VNET, "InUseSubnetCannotBeDeleted"),
    ],
)
def test_what_is_in_use_cannot_be_deleted(made, identifier, code):
    answer = made.ask("DELETE", identifier)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == code
    assert made.get(identifier).ok


def test_an_endpoint_has_an_interface_and_is_approved(made):
    body = {
        "location": "westeurope",
        "properties": {
            "subnet": {"id": SUBNET},
            "customNetworkInterfaceName": "nic",
            "privateLinkServiceConnections": [
                {"name": "one", "properties": {"groupIds": ["blob"]}}
            ],
        },
    }
    shown = made.put(ENDPOINT, body).json()["properties"]
    assert shown["networkInterfaces"] == [{"id": f"{NETWORK}/networkInterfaces/nic"}]
    (connection,) = shown["privateLinkServiceConnections"]
    assert connection["properties"]["privateLinkServiceConnectionState"]["status"] == "Approved"


def test_an_account_comes_with_the_services_of_its_kind(client):
    accounts = f"{GROUP}/providers/Microsoft.Storage/storageAccounts"
    for name, kind, expected in (
        ("general", "StorageV2", 200),
        ("blocks", "BlockBlobStorage", 404),
    ):
        assert client.put(f"{accounts}/{name}", {"location": "westeurope", "kind": kind}).ok
        assert client.get(f"{accounts}/{name}/blobServices/default").ok
        files = client.get(f"{accounts}/{name}/fileServices/default")
        assert files.status_code == expected
        assert client.ask("DELETE", f"{accounts}/{name}").ok


def test_registries_and_logs_are_given_addresses_and_ids(client):
    registry = f"{GROUP}/providers/Microsoft.ContainerRegistry/registries/Images"
    logs = f"{GROUP}/providers/Microsoft.OperationalInsights/workspaces/logs"
    shown = client.put(registry, {"location": "westeurope"}).json()["properties"]
    assert shown["loginServer"] == "images.azurecr.io"
    first = client.put(logs, {"location": "westeurope"}).json()["properties"]["customerId"]
    again = client.put(logs, {"location": "westeurope", "tags": {}}).json()["properties"]
    assert again["customerId"] == first
    for identifier in (registry, logs):
        assert client.ask("DELETE", identifier).ok
