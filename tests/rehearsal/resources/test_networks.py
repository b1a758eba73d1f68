"""Networks: what refers to something needs it, and what something refers to stays."""

import pytest

from tests.rehearsal.support.small_platform import PROVIDERS, error

NETWORK = f"{PROVIDERS}/Microsoft.Network"
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
        assert client.ask("DELETE", identifier).status_code in {202, 204}


def test_what_is_referred_to_must_be_there(client):
    answer = client.put(VNET, network(subnet(networkSecurityGroup={"id": NSG})))
    assert error(answer) == (400, "InvalidResourceReference")
    assert NSG in answer.json()["error"]["message"]
    assert client.get(VNET).status_code == 404


def test_subnets_are_resources_of_their_own(made):
    subnets = made.get(VNET).json()["properties"]["subnets"]
    assert [shown["id"] for shown in subnets] == [SUBNET]
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
    assert error(answer) == (400, code)
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
