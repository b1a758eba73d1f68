"""Rules on the network: subnets, security rules, public addresses, private endpoints, names."""

from collections.abc import Iterator, Mapping, Sequence
from ipaddress import IPv4Network
from typing import Any, Final

from infra.catalog import resource_ids
from infra.naming import SubnetRole
from infra.resources import NETWORK, Resource, entries_at, input_at, of_kind, texts_at
from infra.rules.facts import Allowed, Traffic, of_leaves
from infra.rules.own_services import TYPES, label_of, targets
from infra.rules.rule import Faults, Rule, named, values_at
from infra.settings import Settings

SECURITY_GROUP: Final = "network:NetworkSecurityGroup"
PRIVATE_ENDPOINT: Final = "network:PrivateEndpoint"
PUBLIC_ADDRESS: Final = "network:PublicIPAddress"
BASTION: Final = "network:BastionHost"
HTTPS: Final = frozenset({"443"})
WEB: Final = frozenset({"80", "443"})

SERVICES: Final[Mapping[str, frozenset[str]]] = {
    "AzureActiveDirectory": WEB,
    "AzureMachineLearning": frozenset({"443", "8787", "18881", "5831"}),
    "BatchNodeManagement.{region}": HTTPS,
    "AzureResourceManager": HTTPS,
    "Storage.{region}": HTTPS,
    "MicrosoftContainerRegistry": HTTPS,
    "AzureFrontDoor.FirstParty": HTTPS,
    "AzureFrontDoor.FrontEnd": HTTPS,
    "AzureMonitor": HTTPS,
    "AzureKeyVault.{region}": HTTPS,
    "Keyvault.{region}": HTTPS,
}
"""Ports on which nodes may reach Azure's services, by service tag (Azure Machine Learning,
"Configure inbound and outbound network traffic"). A tag without the region would include every
customer's resources in every region."""

ENDPOINT_PORTS: Final = frozenset({"443", "445"})
"""Ports of private endpoints: HTTPS, and the workspace's file share."""
DNS: Final = frozenset({"53"})


def _subnets(network: Resource, settings: Settings) -> Iterator[str]:
    if network.kind != NETWORK:
        return
    roles = {name: role for role, name in settings.subnet_names.items()}
    declared = [str(subnet.get("name")) for subnet in entries_at(network, "subnets")]
    if missing := sorted(roles.keys() - set(declared)):
        yield f"has no subnet {', '.join(missing)}"
    for name, subnet in zip(declared, entries_at(network, "subnets"), strict=True):
        if name in roles:
            for fault in _subnet(subnet, roles[name], settings):
                yield f"subnet {name} {fault}"
        else:
            yield f"subnet {name} is not one that the settings plan"


def _subnet(subnet: Mapping[str, Any], role: SubnetRole, settings: Settings) -> Iterator[str]:
    names, endpoints = settings.names, role == "endpoints"
    more = settings.leaf_subnets
    stays = not more[role].leaves if role in more else endpoints
    if not _refers(subnet.get("networkSecurityGroup"), names.network_security_group(role)):
        yield f"is not associated with {names.network_security_group(role)}"
    if subnet.get("defaultOutboundAccess") is not False:
        yield "has Azure's default outbound access"
    if subnet.get("addressPrefix") != str(settings.address_plan.subnets.get(role)):
        yield f"has the range {subnet.get('addressPrefix')}, which is not planned"
    services = [endpoint.get("service") for endpoint in subnet.get("serviceEndpoints") or ()]
    if services != (["Microsoft.Storage"] if role == "training" else []):
        yield f"has service endpoints of {services}"
    policies = subnet.get("serviceEndpointPolicies") or ()
    own = [_refers(policy, names.service_endpoint_policy) for policy in policies]
    if (services or policies) and own != [True]:
        yield "reaches storage accounts that are not the stack's"
    gateway, routes = subnet.get("natGateway"), str((subnet.get("routeTable") or {}).get("id"))
    firewall = None if stays else settings.network.route_table
    if routes.lower() != str(firewall).lower():
        yield f"has the route table {routes} and must have {firewall}"
    if gateway and (stays or firewall or not _refers(gateway, names.nat_gateway)):
        yield "reaches the internet through another gateway than planned"
    elif not (gateway or stays or firewall):
        yield f"is not associated with {names.nat_gateway}"
    wanted = "NetworkSecurityGroupEnabled" if endpoints else "Disabled"
    if subnet.get("privateEndpointNetworkPolicies") != wanted:
        yield f"must have privateEndpointNetworkPolicies {wanted}"


CLOSED_SUBNETS = Rule(
    "closed-subnets",
    "Every subnet has the range, the security group and the way out that are planned for it, no "
    "default outbound access, and reaches only the stack's own accounts through service endpoints.",
    "Restore the subnet; set defaultOutboundAccess to false when a subnet is created.",
    of_resource=_subnets,
)


def _security_rules(group: Resource, settings: Settings) -> Iterator[str]:
    if group.kind != SECURITY_GROUP:
        return
    names = {settings.names.network_security_group(role): role for role in settings.subnet_names}
    role = names.get(str(input_at(group, "networkSecurityGroupName")))
    if role is None:
        yield "is a security group of no planned subnet"
        return
    rules = entries_at(group, "securityRules")
    for rule in rules:
        if _is(rule, "access", "Allow"):
            for fault in _allowed(rule, role, settings):
                yield f"rule {rule.get('name')} {fault}"
    for direction in ("Inbound", "Outbound"):
        last = max(
            (rule for rule in rules if _is(rule, "direction", direction)),
            key=lambda rule: int(rule.get("priority", 0)),
            default=None,
        )
        if last is None or not _is(last, "access", "Deny") or not _matches_all(last):
            yield f"its last {direction.lower()} rule does not deny everything"


def _allowed(rule: Mapping[str, Any], role: SubnetRole, settings: Settings) -> Iterator[str]:
    """Yield the traffic that a rule allows beyond that of its subnet."""
    of_leaf = _of_leaf(role)
    if of_leaf.faults is not None:
        yield from of_leaf.faults(rule, settings)
        return
    near, far = ("destination", "source"), ("source", "destination")
    own, other = near if _is(rule, "direction", "Inbound") else far
    for address in texts_at(rule, f"{own}AddressPrefix"):
        if not _within(address, settings.address_plan.subnets[role]):
            yield f"is about {address}, which is not its subnet"
    ports = set(texts_at(rule, "destinationPortRange"))
    traffic = _inbound(role, settings) if other == "source" else _outbound(role, settings)
    for address in texts_at(rule, f"{other}AddressPrefix"):
        permitted = _ports(address, traffic, settings)
        if permitted is not None and not ports <= permitted:
            yield (
                f"allows traffic with {address} on ports {', '.join(sorted(ports))} instead of "
                f"{', '.join(sorted(permitted)) or 'none'}"
            )


def _of_leaf(role: SubnetRole) -> Traffic:
    """Return the traffic of a leaf's subnet; none for those of the trunk."""
    return next((facts.traffic[role] for facts in of_leaves() if role in facts.traffic), Traffic())


def _ports(address: str, traffic: Allowed, settings: Settings) -> frozenset[str] | None:
    """Return the ports of the allowed traffic with an address; None for all."""
    tag = address.replace(f".{settings.location}", ".{region}")
    for other, ports in traffic:
        if other == tag or (isinstance(other, IPv4Network) and _within(address, other)):
            return ports
    return frozenset()


def _inbound(role: SubnetRole, settings: Settings) -> Allowed:
    plan, network = settings.address_plan, settings.network
    if role != "endpoints":
        return [(plan.subnets[role], None), *_of_leaf(role).inbound(settings)]
    nodes = [plan.subnets[nodes] for nodes in ("training", "build") if nodes in plan.subnets]
    others = [plan.space, *map(IPv4Network, network.peer_address_spaces)]
    return [*((space, ENDPOINT_PORTS) for space in nodes), *((space, HTTPS) for space in others)]


def _outbound(role: SubnetRole, settings: Settings) -> Allowed:
    plan, network = settings.address_plan, settings.network
    if role == "endpoints":
        return []
    endpoints: list[str | IPv4Network] = [
        plan.subnets["endpoints"],
        *map(IPv4Network, network.existing_endpoints.values()),
        *(["Storage.{region}"] if network.storage_over_smb else []),
    ]
    return [
        (plan.subnets[role], None),
        *((IPv4Network(server), DNS) for server in network.dns_servers),
        *((target, ENDPOINT_PORTS) for target in endpoints),
        *SERVICES.items(),
        ("Internet", WEB if role == "build" else _of_leaf(role).internet),
    ]


def _within(address: str, space: IPv4Network) -> bool:
    try:
        return IPv4Network(address).subnet_of(space)
    except ValueError:
        return False


def _matches_all(rule: Mapping[str, Any]) -> bool:
    ends = ("sourceAddressPrefix", "destinationAddressPrefix", "protocol", "sourcePortRange")
    return "*" in texts_at(rule, "destinationPortRange") and all(
        _is(rule, end, "*") for end in ends
    )


def _is(rule: Mapping[str, Any], key: str, expected: str) -> bool:
    return str(rule.get(key)).lower() == expected.lower()


def _refers(reference: object, name: str) -> bool:
    """Check whether a sub-resource reference is to the resource of this name."""
    id_ = reference.get("id") if isinstance(reference, Mapping) else None
    return resource_ids.name(str(id_)).lower() == name.lower()


CLOSED_NETWORK_RULES = Rule(
    "closed-network-rules",
    "Machines exchange traffic with their own subnet, the private endpoints and the service tags "
    "of Azure Machine Learning only, each on its ports; only those subnets reach the internet "
    "that need it, and a subnet for which Azure demands rules has these. Whatever no rule allows "
    "is denied in both directions.",
    "Narrow the rule, and end with a rule that denies everything.",
    of_resource=_security_rules,
)


def is_subnet(id_: str, role: SubnetRole, settings: Settings) -> bool:
    existing = settings.network.existing
    if existing is not None:
        return id_.lower() == str(getattr(existing, f"{role}_subnet", None)).lower()
    names = settings.names
    end = f"/virtualNetworks/{names.virtual_network}/subnets/{settings.subnet_names.get(role)}"
    return id_.lower().endswith(end.lower())


def is_network(id_: str, settings: Settings) -> bool:
    existing = settings.network.existing
    known = [*settings.network.peer_with, *([existing.virtual_network] if existing else [])]
    own = f"/virtualNetworks/{settings.names.virtual_network}".lower()
    return id_.lower() in map(str.lower, known) or id_.lower().endswith(own)


MAY_BE_PUBLIC: Final = {
    "network:NatGateway": "publicIpAddresses[].id",
    BASTION: "ipConfigurations[].publicIPAddress.id",
}
"""Kinds that may have public addresses, and where these are named."""


def _addresses(resources: Sequence[Resource], _settings: Settings) -> Faults:
    used_ids = [
        str(id_)
        for resource in of_kind(resources, *MAY_BE_PUBLIC)
        for _, id_ in values_at(resource.inputs, MAY_BE_PUBLIC[resource.kind].split("."))
    ]
    for address in of_kind(resources, PUBLIC_ADDRESS):
        name = str(input_at(address, "publicIpAddressName"))
        if not any(named(id_, "Microsoft.Network/publicIPAddresses", name) for id_ in used_ids):
            yield address, "is a public address that belongs to nothing that may have one"


NO_PUBLIC_ADDRESS = Rule(
    "no-public-address",
    "Only NAT gateways, which allow outbound traffic only, and resources that serve "
    "the outside have public addresses.",
    "Remove it; reach the network through peering, or from a machine inside it.",
    of_stack=_addresses,
)

GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "default": ("blob", "file"),
    "data": ("blob",),
    "vault": ("vault",),
    "registry": ("registry",),
    "workspace": ("amlworkspace",),
    "monitor": ("azuremonitor",),
}
"""Sub-resources of each service that have a private endpoint."""


def _endpoints(resources: Sequence[Resource], settings: Settings) -> Faults:
    services = targets(resources, settings)
    zones = {kind.group: kind.zones for kind in settings.endpoint_kinds.values()}
    recorded = {
        str(input_at(group, "privateEndpointName")).lower(): {
            resource_ids.name(str(zone.get("privateDnsZoneId"))).lower()
            for zone in entries_at(group, "privateDnsZoneConfigs")
        }
        for group in of_kind(resources, "network:PrivateDnsZoneGroup")
    }
    reached: set[tuple[str, str]] = set()
    for endpoint in of_kind(resources, PRIVATE_ENDPOINT):
        if not is_subnet(str(input_at(endpoint, "subnet.id")), "endpoints", settings):
            yield endpoint, "is not in the subnet of the private endpoints"
        wanted: set[str] = set()
        for connection in entries_at(endpoint, "privateLinkServiceConnections"):
            id_ = str(connection.get("privateLinkServiceId"))
            label = label_of(id_, services)
            for group in connection.get("groupIds") or ("",):
                wanted.update(zones.get(group, ()))
                if group in GROUPS.get(label, ()):
                    reached.add((label, group))
                else:
                    yield endpoint, f"connects to {group} of {id_}, not to a service of the stack"
        name = str(input_at(endpoint, "privateEndpointName")).lower()
        if settings.network.dns_mode != "policy" and recorded.get(name, set()) != wanted:
            yield endpoint, f"its names are not recorded in {' and '.join(sorted(wanted))}"
    for service in of_kind(resources, *TYPES):
        type_, key = TYPES[service.kind]
        label = label_of(f"/providers/{type_}/{input_at(service, key)}", services)
        for group in GROUPS.get(label, ()):
            if (label, group) not in reached:
                yield service, f"has no private endpoint for {group}"


PRIVATE_ENDPOINTS = Rule(
    "private-endpoints",
    "Every service has its private endpoints in their own subnet, and no endpoint leads out of the "
    "stack. The names of each are recorded in the zones of its kind, so that no client is led to a "
    "public address.",
    "Restore the endpoint or its zone group, or remove the one that leads elsewhere.",
    of_stack=_endpoints,
)
