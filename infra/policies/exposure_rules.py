"""Rules on network exposure: what can be reached, and from where."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from infra.policies.rule import ALLOWLISTED, PRIVATE, Posture, ResourceRule, StackRule, named, wants
from infra.resources import (
    COMPUTE,
    CONTAINER,
    NETWORK,
    REGISTRY,
    STORAGE,
    VAULT,
    WORKSPACE,
    Resource,
    entries_at,
    input_at,
    of_kind,
)

ANYWHERE = frozenset({"*", "any", "internet", "0.0.0.0/0", "::/0"})
"""Spellings of the whole internet in a network rule."""


def _endpoints(resource: Resource, posture: Posture) -> Iterator[str]:
    kind = resource.kind
    if kind == CONTAINER:
        yield from wants(resource, "publicAccess", "None")
    elif kind == WORKSPACE and posture.profile == ALLOWLISTED:
        yield from wants(resource, "publicNetworkAccess", "Enabled")
    elif kind == VAULT:
        yield from wants(resource, "properties.publicNetworkAccess", "Disabled")
        yield from wants(resource, "properties.networkAcls.defaultAction", "Deny")
    elif kind == STORAGE:
        yield from _account(resource, posture)
    elif kind in {WORKSPACE, REGISTRY}:
        yield from wants(resource, "publicNetworkAccess", "Disabled")


def _account(account: Resource, posture: Posture) -> Iterator[str]:
    yield from wants(account, "networkRuleSet.defaultAction", "Deny")
    ranges = [
        rule.get("iPAddressOrRange") for rule in entries_at(account, "networkRuleSet.ipRules")
    ]
    if posture.profile == PRIVATE:
        yield from wants(account, "publicNetworkAccess", "Disabled")
        if ranges:
            yield f"networkRuleSet allows {', '.join(map(str, ranges))}"
        return
    for unknown in sorted(str(range_) for range_ in ranges if range_ not in posture.addresses):
        yield f"networkRuleSet allows {unknown}, which is not in the stack's allowed_addresses"


NO_PUBLIC_ENDPOINT = ResourceRule(
    "no-public-endpoint",
    "Workspace, registry, vault and storage are reachable through private endpoints only. In the "
    "allowlisted profile the workspace has a public endpoint with Entra sign-in, and storage is "
    "open to the listed addresses.",
    "Disable public access, or choose the network profile that allows it.",
    _endpoints,
)


def _addresses(
    resources: Sequence[Resource], _posture: Posture
) -> Iterator[tuple[Resource | None, str]]:
    nat_address_ids = [
        str(address.get("id"))
        for gateway in of_kind(resources, "network:NatGateway")
        for address in entries_at(gateway, "publicIpAddresses")
    ]
    for address in of_kind(resources, "network:PublicIPAddress"):
        name = str(input_at(address, "publicIpAddressName"))
        if not any(
            named(id_, "Microsoft.Network/publicIPAddresses", name) for id_ in nat_address_ids
        ):
            yield address, "is a public address that belongs to no NAT gateway"


NO_PUBLIC_ADDRESS = StackRule(
    "no-public-address",
    "Only NAT gateways have public addresses: they allow outbound traffic only.",
    "Remove it; reach the network through peering or through a jump host behind Bastion.",
    _addresses,
)


def _subnets(resource: Resource, _posture: Posture) -> Iterator[str]:
    if resource.kind != NETWORK:
        return
    for subnet in entries_at(resource, "subnets"):
        name = subnet.get("name")
        if not subnet.get("networkSecurityGroup"):
            yield f"subnet {name} has no network security group"
        if subnet.get("defaultOutboundAccess") is not False:
            yield f"subnet {name} has Azure's default outbound access"


CLOSED_SUBNETS = ResourceRule(
    "closed-subnets",
    "Every subnet has a network security group and no default outbound access.",
    "Associate a group, and set defaultOutboundAccess to false when the subnet is created.",
    _subnets,
)


def _network_rules(resource: Resource, _posture: Posture) -> Iterator[str]:
    if resource.kind != "network:NetworkSecurityGroup":
        return
    rules = entries_at(resource, "securityRules")
    for rule in rules:
        if _is(rule, "direction", "Inbound") and _is(rule, "access", "Allow"):
            sources = [rule.get("sourceAddressPrefix"), *(rule.get("sourceAddressPrefixes") or ())]
            for source in sources:
                if str(source).lower() in ANYWHERE:
                    yield f"rule {rule.get('name')} allows inbound traffic from {source}"
    for direction in ("Inbound", "Outbound"):
        last = max(
            (rule for rule in rules if _is(rule, "direction", direction)),
            key=lambda rule: int(rule.get("priority", 0)),
            default=None,
        )
        if last is None or not _is(last, "access", "Deny") or not _matches_all(last):
            yield f"its last {direction.lower()} rule does not deny everything"


def _matches_all(rule: Mapping[str, Any]) -> bool:
    ports = [rule.get("destinationPortRange"), *(rule.get("destinationPortRanges") or ())]
    ends = ("sourceAddressPrefix", "destinationAddressPrefix", "protocol")
    return "*" in ports and all(_is(rule, end, "*") for end in ends)


def _is(rule: Mapping[str, Any], key: str, expected: str) -> bool:
    return str(rule.get(key)).lower() == expected.lower()


CLOSED_NETWORK_RULES = ResourceRule(
    "closed-network-rules",
    "No inbound traffic from the internet is allowed, and whatever no rule allows is denied in "
    "both directions.",
    "Name the service tag or subnet to allow, and end with a rule that denies everything.",
    _network_rules,
)


def _nodes(resource: Resource, _posture: Posture) -> Iterator[str]:
    if resource.kind != COMPUTE:
        return
    nodes = "properties.properties."
    yield from wants(resource, nodes + "enableNodePublicIp", expected=False)
    yield from wants(resource, nodes + "remoteLoginPortPublicAccess", "Disabled")
    if not input_at(resource, nodes + "subnet.id"):
        yield f"{nodes}subnet.id is not set, so its nodes are not in a subnet of the stack"


NODES_WITHOUT_PUBLIC_ADDRESS = ResourceRule(
    "nodes-without-public-address",
    "Cluster nodes are in the stack's subnets, have no public address and accept no SSH from "
    "outside.",
    "Set the three properties when the cluster is created: Azure cannot change them later.",
    _nodes,
)

RULES = (
    NO_PUBLIC_ENDPOINT,
    NO_PUBLIC_ADDRESS,
    CLOSED_SUBNETS,
    CLOSED_NETWORK_RULES,
    NODES_WITHOUT_PUBLIC_ADDRESS,
)
