"""How the platform is reached: subnets, zones, endpoints, hubs, and allowed addresses."""

import json
import re

import pytest

from infra.render.snapshot import snapshot
from infra.resources import COMPUTE, WORKSPACE, of_kind, requirements
from tests.infra.support.stacks import only, rendered
from tests.infra.support.variants import NETWORK, OPTIONS, ROUTES, SERVICES, ZONES

ACCOUNT_ID = re.compile(r"/subscriptions/.*/Microsoft.Storage/storageAccounts/[^/]+")
ENDPOINT = "network:PrivateEndpoint"
ZONE_GROUP = "network:PrivateDnsZoneGroup"


def test_only_training_sends_by_a_storage_endpoint_and_to_own_accounts():
    resources = rendered("dev")
    subnets = only(resources, "network:VirtualNetwork").inputs["subnets"]
    with_endpoint = [subnet["name"] for subnet in subnets if subnet.get("serviceEndpoints")]
    assert with_endpoint == ["snet-training"]
    policy = only(resources, "network:ServiceEndpointPolicy")
    own, service = policy.inputs["serviceEndpointPolicyDefinitions"]
    assert sorted(own["serviceResources"]) == sorted(
        one.id for one in of_kind(resources, "storage:StorageAccount")
    )
    assert service["serviceResources"] == ["/services/Azure/MachineLearning"]
    assert service["service"] == "Global"


def test_storage_lets_exactly_the_allowed_addresses_in():
    overrides = OPTIONS["allowlisted"]
    accounts = of_kind(rendered("dev", **overrides), "storage:StorageAccount")
    assert len(accounts) == 2
    for account in accounts:
        rules = account.inputs["networkRuleSet"]
        assert rules["defaultAction"] == "Deny"
        assert [rule["iPAddressOrRange"] for rule in rules["ipRules"]] == overrides[
            "allowed_addresses"
        ]


def test_a_taken_network_is_not_declared_and_its_subnets_are_used():
    resources = rendered("dev", **OPTIONS["their network"])
    assert not [one for one in resources if one.type.startswith("azure-native:network:Virtual")]
    assert not of_kind(resources, "network:NatGateway")
    assert not of_kind(resources, "network:NetworkSecurityGroup")
    given = NETWORK["network.existing"]
    used = {one.inputs["subnet"]["id"] for one in of_kind(resources, ENDPOINT)}
    assert used == {given["endpoints_subnet"]}
    nodes = {
        one.inputs["properties"]["properties"]["subnet"]["id"]
        for one in of_kind(resources, COMPUTE)
    }
    assert nodes == {given["training_subnet"], given["build_subnet"]}


def test_taken_zones_are_not_declared_and_are_used():
    resources = rendered("dev", **OPTIONS["their network and zones"])
    assert not [one for one in resources if one.type.startswith("azure-native:privatedns:")]
    for group in of_kind(resources, ZONE_GROUP):
        for config in group.inputs["privateDnsZoneConfigs"]:
            assert config["privateDnsZoneId"].startswith(f"{ZONES}/providers/Microsoft.Network/")


LINK = "privatedns:VirtualNetworkLink"


def test_zones_are_linked_to_the_network_and_to_every_peer():
    resources = rendered("dev", **OPTIONS["peered with two"])
    network = only(resources, "network:VirtualNetwork").id
    for zone in of_kind(resources, "privatedns:PrivateZone"):
        links = [
            one.inputs
            for one in of_kind(resources, LINK)
            if one.inputs["privateZoneName"] == zone.inputs["privateZoneName"]
        ]
        linked = {one["virtualNetwork"]["id"] for one in links}
        assert linked == {network, *OPTIONS["peered with two"]["network.peer_with"]}
        assert len({one["virtualNetworkLinkName"] for one in links}) == len(links) == 3


@pytest.mark.parametrize("option", ["spoke", "their network, links declared"])
def test_a_hubs_zones_are_linked_where_they_are_before_an_endpoint_is_recorded(option):
    resources = rendered("dev", **OPTIONS[option])
    assert not of_kind(resources, "privatedns:PrivateZone")
    links = of_kind(resources, LINK)
    networks = of_kind(resources, "network:VirtualNetwork")
    network = networks[0].id if networks else NETWORK["network.existing"]["virtual_network"]
    for link in links:
        assert link.id.startswith(f"{ZONES}/providers/Microsoft.Network/privateDnsZones/")
        assert link.inputs["virtualNetwork"]["id"] == network
        assert link.inputs["virtualNetworkLinkName"] != "hvd-dev-link", "teams share a hub's zone"
    needed = requirements(resources)
    for group in of_kind(resources, ZONE_GROUP):
        zones = {config["privateDnsZoneId"] for config in group.inputs["privateDnsZoneConfigs"]}
        assert zones <= {
            one.id.partition("/virtualNetworkLinks/")[0]
            for one in links
            if one.key in needed[group.key]
        }


@pytest.mark.parametrize("option", ["records by policy", "their network, records by policy"])
def test_a_company_whose_policy_records_names_gets_endpoints_alone(option):
    resources = rendered("dev", **OPTIONS[option])
    assert len(of_kind(resources, ENDPOINT)) == 6
    assert not of_kind(resources, ZONE_GROUP)
    assert not [one for one in resources if one.type.startswith("azure-native:privatedns:")]


def test_a_spoke_leaves_through_the_hub():
    resources = rendered("dev", **OPTIONS["spoke"])
    assert not of_kind(resources, "network:NatGateway")
    assert not of_kind(resources, "network:PublicIPAddress")
    network = only(resources, "network:VirtualNetwork").inputs
    assert network["dhcpOptions"] == {"dnsServers": ["10.0.0.4", "10.0.0.5"]}
    [peering] = network["virtualNetworkPeerings"]
    assert peering["useRemoteGateways"] is True
    assert peering["allowGatewayTransit"] is False
    ways = {
        one["name"]: (one.get("routeTable"), one.get("natGateway")) for one in network["subnets"]
    }
    firewall = ({"id": ROUTES}, None)
    assert ways == {
        "snet-training": firewall,
        "snet-build": firewall,
        "snet-endpoints": (None, None),
        "snet-jump": firewall,
    }


def test_the_rules_of_a_spoke():
    resources = json.loads(snapshot(rendered("dev", **OPTIONS["their services with endpoints"])))
    private = {
        name: [
            rule
            for rule in resources[f"network:NetworkSecurityGroup nsg-{name}"]["securityRules"]
            if "Allow" in rule and rule.split(" -> ")[1][0].isdigit()
        ]
        for name in ("training", "endpoints", "jump")
    }
    assert private == {
        "training": [
            "Inbound 100 Allow * 10.64.0.0/24 -> 10.64.0.0/24 * (allow-own-subnet-inbound)",
            "Outbound 100 Allow * 10.64.0.0/24 -> 10.64.0.0/24 * (allow-own-subnet-outbound)",
            "Outbound 110 Allow Tcp 10.64.0.0/24 -> 10.64.1.0/27,10.0.8.0/27,10.0.9.0/27 443,445 "
            "(allow-endpoints)",
            "Outbound 120 Allow * 10.64.0.0/24 -> 10.0.0.4,10.0.0.5 53 (allow-dns)",
        ],
        "endpoints": [
            "Inbound 100 Allow Tcp 10.64.0.0/24,10.64.1.32/28 -> 10.64.1.0/27 443,445 "
            "(allow-nodes)",
            "Inbound 110 Allow Tcp 10.64.1.48/28,10.0.0.0/16 -> 10.64.1.0/27 443 (allow-others)",
        ],
        "jump": [
            "Inbound 100 Allow * 10.64.1.48/28 -> 10.64.1.48/28 * (allow-own-subnet-inbound)",
            "Inbound 110 Allow Tcp 10.0.1.0/26 -> 10.64.1.48/28 22,3389 (allow-remote-access)",
            "Outbound 100 Allow * 10.64.1.48/28 -> 10.64.1.48/28 * (allow-own-subnet-outbound)",
            "Outbound 110 Allow Tcp 10.64.1.48/28 -> 10.64.1.0/27,10.0.8.0/27,10.0.9.0/27 443 "
            "(allow-endpoints)",
            "Outbound 120 Allow * 10.64.1.48/28 -> 10.0.0.4,10.0.0.5 53 (allow-dns)",
        ],
    }


@pytest.mark.parametrize(
    "option", ["their services with endpoints", "everything theirs, with endpoints"]
)
def test_services_that_bring_their_endpoints_get_neither_an_endpoint_nor_a_record(option):
    resources = rendered("dev", **OPTIONS[option])
    assert [one.name for one in of_kind(resources, ENDPOINT)] == ["workspace"]
    assert [one.name for one in of_kind(resources, ZONE_GROUP)] == ["workspace"]
    assert only(resources, WORKSPACE).inputs["containerRegistry"] == SERVICES["registry.existing"]
