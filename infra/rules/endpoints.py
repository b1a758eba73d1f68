"""Rules on private endpoints and the zones in which their names are recorded."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from infra.catalog import resource_ids
from infra.resources import (
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
from infra.rules.expected import (
    UNSET,
    Expected,
    among,
    as_set,
    exactly,
    only_if,
    shown,
    table_rule,
)
from infra.rules.facts import of_leaves
from infra.rules.literals import ZONES
from infra.rules.network import is_network, is_subnet
from infra.rules.own_services import targets
from infra.rules.rule import StackRule, named
from infra.settings import Settings

PRIVATE_ENDPOINT: Final = "network:PrivateEndpoint"
GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "default": ("blob", "file"),
    "data": ("blob",),
    "vault": ("vault",),
    "registry": ("registry",),
    "workspace": ("amlworkspace",),
}
"""Sub-resources of each service that have a private endpoint."""

NAME_INPUTS: Final = {
    VAULT: "vaultName",
    REGISTRY: "registryName",
    STORAGE: "accountName",
    WORKSPACE: "workspaceName",
}
"""Services with private endpoints, and the inputs with their names."""


def _with_endpoints() -> tuple[dict[str, tuple[str, ...]], dict[str, str]]:
    """Return the sub-resources with endpoints by service, and the inputs with services' names."""
    groups, names = dict(GROUPS), dict(NAME_INPUTS)
    for facts in of_leaves():
        for label, (kind, name, parts) in facts.endpoints.items():
            groups[label], names[kind] = parts, name
    return groups, names


def _endpoints(
    resources: Sequence[Resource], settings: Settings
) -> Iterator[tuple[Resource | None, str]]:
    services = targets(resources, settings)
    groups, name_inputs = _with_endpoints()
    reached: set[tuple[str, str]] = set()
    for endpoint in of_kind(resources, PRIVATE_ENDPOINT):
        if not is_subnet(str(input_at(endpoint, "subnet.id")), "endpoints", settings):
            yield endpoint, "is not in the subnet of the private endpoints"
        connections = entries_at(endpoint, "privateLinkServiceConnections")
        for connection in connections:
            id_ = str(connection.get("privateLinkServiceId"))
            label = next((one for one, target in services if named(id_, *target)), "")
            for group in connection.get("groupIds") or ("",):
                if group in groups.get(label, ()):
                    reached.add((label, group))
                else:
                    yield endpoint, f"connects to {group} of {id_}, not to a service of the stack"
    for service in of_kind(resources, *name_inputs):
        name = str(input_at(service, name_inputs[service.kind])).lower()
        label = next((one for one, (_, known) in services if known.lower() == name), "")
        for group in groups.get(label, ()):
            if (label, group) not in reached:
                yield service, f"has no private endpoint for {group}"


PRIVATE_ENDPOINTS = StackRule(
    "private-endpoints",
    "Every service has its private endpoints in their own subnet, and no endpoint leads out of the "
    "stack.",
    "Restore the endpoint, or remove the one that leads elsewhere.",
    _endpoints,
)


def zones_of(group: str) -> frozenset[str]:
    """Return the zones in which the names of a sub-resource are recorded."""
    more = {name: zones for facts in of_leaves() for name, zones in facts.zones.items()}
    return {**ZONES, **more}.get(group, frozenset())


def zones(settings: Settings) -> tuple[str, ...]:
    groups = [one.group for one in settings.endpoint_kinds.values()]
    return tuple(sorted(frozenset().union(*(zones_of(group) for group in groups))))


def is_zone(id_: str, settings: Settings) -> bool:
    group = (
        settings.network.existing_dns_zones or f"/resourceGroups/{settings.names.resource_group}"
    )
    return any(
        id_.lower().endswith(f"{group}/providers/Microsoft.Network/privateDnsZones/{zone}".lower())
        for zone in zones(settings)
    )


def _resolved(
    resources: Sequence[Resource], settings: Settings
) -> Iterator[tuple[Resource | None, str]]:
    groups = {
        str(input_at(one, "privateEndpointName")).lower(): {
            resource_ids.name(str(zone.get("privateDnsZoneId"))).lower()
            for zone in entries_at(one, "privateDnsZoneConfigs")
        }
        for one in of_kind(resources, "network:PrivateDnsZoneGroup")
    }
    for endpoint in of_kind(resources, PRIVATE_ENDPOINT):
        name = str(input_at(endpoint, "privateEndpointName")).lower()
        wanted: set[str] = set()
        for connection in entries_at(endpoint, "privateLinkServiceConnections"):
            wanted.update(*(zones_of(group) for group in connection.get("groupIds") or ()))
        if settings.network.dns_mode != "policy" and groups.get(name, set()) != wanted:
            yield endpoint, f"its names are not recorded in {' and '.join(sorted(wanted))}"


RESOLVED = StackRule(
    "private-names",
    "The names of every private endpoint are recorded in the zones of its kind, so that no client "
    "is led to a public address.",
    "Restore the endpoint's zone group.",
    _resolved,
)


def _peers(settings: Settings) -> dict[str, bool]:
    """Return whether the gateway of each peer is used, by the peer's id in lower case."""
    gateway = (settings.network.remote_gateway or "").lower()
    return {id_.lower(): id_.lower() == gateway for id_ in settings.network.peer_with}


def _peered(given: Sequence[Mapping[str, Any]], settings: Settings) -> bool:
    found = [
        (str((one.get("remoteVirtualNetwork") or {}).get("id")).lower(), one["useRemoteGateways"])
        for one in given
        if isinstance(one.get("useRemoteGateways"), bool)
    ]
    return len(found) == len(given) and sorted(found) == sorted(_peers(settings).items())


OWN_NETWORK = table_rule(
    "own-network",
    "The network has the address range, the peers, their gateway and the DNS servers of the "
    "stack's settings, and private DNS zones serve this network and its peers only.",
    "Remove it; to connect another network, name it in the stack's settings.",
    {
        NETWORK: {
            "addressSpace.addressPrefixes[]": as_set(lambda s: s.network.address_space),
            "virtualNetworkPeerings": only_if(
                lambda s: bool(s.network.peer_with),
                Expected(lambda s: f"those with {shown(_peers(s))}", _peered),
            ),
            "virtualNetworkPeerings[].allowGatewayTransit": exactly(value=False),
            "dhcpOptions.dnsServers": only_if(
                lambda s: bool(s.network.dns_servers), as_set(lambda s: list(s.network.dns_servers))
            ),
            "subnets[].delegations": UNSET,
        },
        "privatedns:PrivateZone": {
            "privateZoneName": among(zones, "a zone of one of the stack's endpoints")
        },
        "privatedns:VirtualNetworkLink": {
            "privateZoneName": among(zones, "a zone of one of the stack's endpoints"),
            "registrationEnabled": exactly(value=False),
            "virtualNetwork.id": Expected(
                lambda _: "the stack's network or one of its peers",
                lambda given, s: is_network(str(given), s),
            ),
        },
        "network:PrivateDnsZoneGroup": {
            "privateDnsZoneConfigs[].privateDnsZoneId": Expected(
                lambda _: "a zone of the stack or of network.existing_dns_zones",
                lambda given, s: is_zone(str(given), s),
            ),
        },
        PRIVATE_ENDPOINT: {"manualPrivateLinkServiceConnections": UNSET},
    },
)

RULES = (PRIVATE_ENDPOINTS, RESOLVED, OWN_NETWORK)
