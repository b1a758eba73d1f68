"""Checks of the network's settings: what Azure would refuse, and what would resolve no name.

Each check is a generator of problems; `infra.validation` runs them.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address, IPv4Network
from typing import Final

from common import fields
from infra import subnets
from infra.catalog import resource_ids
from infra.errors import AddressError
from infra.network_settings import NetworkSettings
from infra.settings import Settings
from infra.subnets import address_range

EXISTING_SERVICES: Final[Mapping[str, str]] = {
    "default_storage": "storage.existing_default",
    "data_storage": "storage.existing_data",
    "registry": "registry.existing",
    "vault": "vault.existing",
}
"""Services that may have endpoints already, with the settings that name them."""
MOST_DNS_SERVERS: Final = 20
"""DNS servers per virtual network (Azure, "Networking limits")."""


def address_space(settings: Settings) -> Iterator[str]:
    """Check the address ranges of a declared network and of those that it is connected to."""
    network = settings.network
    if network.existing is not None:
        return
    for i, other in enumerate(network.peer_address_spaces):
        at = f"network.peer_address_spaces[{i}]"
        public = list(subnets.private_range_problems(at, other))
        yield from public or _behind_the_bridge(settings, at, other)
    if network.peer_with and not network.peer_address_spaces:
        yield (
            "network.peer_address_spaces: is empty, but network.peer_with names networks; list "
            "their address ranges, which the endpoints let in, and which are checked for overlaps"
        )
    yield from (f"network.address_space: {problem}" for problem in _space(network))


def address_plan(settings: Settings) -> Iterator[str]:
    """Check that the subnets fit into the address space."""
    if settings.network.existing is not None or _space(settings.network):
        return
    try:
        _ = settings.address_plan
    except AddressError as error:
        yield from (f"network.address_space: {problem}" for problem in error.problems)


def existing_network(settings: Settings) -> Iterator[str]:
    """Check an existing network, in which the stack changes nothing."""
    network, existing = settings.network, settings.network.existing
    if existing is None:
        return
    if existing.virtual_network.split("/")[2].lower() != settings.subscription.id.lower():
        yield (
            f"network.existing.virtual_network: is not in subscription.id "
            f"{settings.subscription.id}; nodes of a workspace can only be in a network of its own "
            "subscription"
        )
    taken = {
        "training_subnet": existing.training_subnet,
        "build_subnet": existing.build_subnet,
        "endpoints_subnet": existing.endpoints_subnet,
    }
    for name, subnet in taken.items():
        if not subnet.lower().startswith(existing.virtual_network.lower() + "/"):
            yield (
                f"network.existing.{name}: {subnet!r} is not in network.existing.virtual_network; "
                "all three subnets must be in that network"
            )
    if taken["endpoints_subnet"].lower() in (
        taken["training_subnet"].lower(),
        taken["build_subnet"].lower(),
    ):
        yield (
            "network.existing.endpoints_subnet: is also a subnet of nodes; private endpoints need "
            "a subnet of their own"
        )
    if taken["build_subnet"].lower() == taken["training_subnet"].lower():
        yield (
            "network.existing.build_subnet: is also the training subnet; only image builds may "
            "reach the internet, so they need a subnet of their own"
        )
    for key, wish in (
        ("peer_with", "peer it"),
        ("dns_servers", "set its DNS servers"),
        ("route_table", "associate the route table"),
        ("flow_logs_to", "keep flow logs"),
    ):
        if getattr(network, key):
            yield (
                f"network.{key}: cannot be combined with network.existing, which the stack does "
                f"not change; ask the network's owner to {wish}"
            )


def connections(settings: Settings) -> Iterator[str]:
    """Check peerings, gateway and DNS servers."""
    network = settings.network
    own = settings.subscription.id.lower()
    if network.route_table is not None and network.route_table.split("/")[2].lower() != own:
        yield (
            f"network.route_table: is not in subscription.id {own}; a subnet can only have a route "
            "table of its own subscription"
        )
    names = [resource_ids.name(peer).lower() for peer in network.peer_with]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield (
            f"network.peer_with: names two networks called {name!r}, but a peering is named after "
            "its network; peer with one of them, or rename one"
        )
    peers = {peer.lower() for peer in network.peer_with}
    if network.remote_gateway is not None and network.remote_gateway.lower() not in peers:
        yield (
            f"network.remote_gateway: {network.remote_gateway!r} is not in network.peer_with; only "
            "a peered network's gateway can be used"
        )
    yield from _dns_servers(settings)


def _dns_servers(settings: Settings) -> Iterator[str]:
    network = settings.network
    if len(network.dns_servers) > MOST_DNS_SERVERS:
        yield (
            f"network.dns_servers: {len(network.dns_servers)} addresses, but a network accepts at"
            f" most {MOST_DNS_SERVERS}; list fewer"
        )
    for server, count in Counter(network.dns_servers).items():
        if count > 1:
            yield f"network.dns_servers: contains {server} twice; remove one"
    for i, server in enumerate(network.dns_servers):
        at = f"network.dns_servers[{i}]"
        try:
            IPv4Address(server)
        except ValueError:
            yield f"{at}: {server!r} is not an IPv4 address, such as 10.0.0.4"
            continue
        if unusable := list(_behind_the_bridge(settings, at, server)):
            yield from unusable
        elif not _reachable(network, server):
            yield (
                f"{at}: {server} is in none of network.peer_address_spaces, so nodes would not "
                "reach it; add its network's range"
            )


def private_dns(settings: Settings) -> Iterator[str]:
    """Check that the endpoints' names resolve inside the network."""
    network, mode = settings.network, settings.network.dns_mode
    if mode == "hub" and network.existing_dns_zones is None:
        yield (
            "network.existing_dns_zones: is missing; network.private_dns is hub, so give the id of "
            "the resource group that holds the zones"
        )
    if mode != "hub" and network.existing_dns_zones is not None:
        yield (
            f"network.existing_dns_zones: cannot be combined with network.private_dns {mode}; set "
            "that to hub, or remove the zones"
        )
    if mode == "own" and network.dns_links is not None:
        yield "network.dns_links: has no effect: the stack links the zones that it declares"
    if mode == "policy" and network.dns_links == "declared":
        yield (
            "network.dns_links: cannot be declared with network.private_dns policy, because the "
            "stack does not know the zones; others link them: set existing"
        )
    linked = network.dns_links or network.existing or network.dns_servers
    if mode != "own" and not linked:
        choice = "declared or existing" if mode == "hub" else "existing"
        yield (
            "network.dns_links: is missing; the network that this stack declares would resolve no "
            f"private name, and jobs would fail. Set it to {choice}, or set network.dns_servers"
        )


def existing_endpoints(settings: Settings) -> Iterator[str]:
    """Check the endpoints that existing services have already."""
    network = settings.network
    for service, text in network.existing_endpoints.items():
        at = f"network.existing_endpoints.{service}"
        if service not in EXISTING_SERVICES:
            yield f"{at}: is not a service; choose from {', '.join(EXISTING_SERVICES)}"
        elif fields.get(settings, EXISTING_SERVICES[service]) is None:
            yield (
                f"{at}: the stack declares this service, and so its endpoints; set "
                f"{EXISTING_SERVICES[service]}, or remove the entry"
            )
        if address_range(text) is None:
            yield f"{at}: {text!r} is not a range like 10.0.0.0/27"
        elif unusable := list(_behind_the_bridge(settings, at, text)):
            yield from unusable
        elif not _reachable(network, text):
            yield (
                f"{at}: {text} is in none of network.peer_address_spaces, so nodes would not reach "
                "it; add its network's range"
            )
    hub = f"{network.existing_dns_zones}/".lower()
    is_stack = any(peer.lower().startswith(hub) for peer in network.peer_with)
    for service, key in EXISTING_SERVICES.items():
        beside = is_stack and str(fields.get(settings, key)).lower().startswith(hub)
        if beside and service not in network.existing_endpoints:
            yield (
                f"network.existing_endpoints.{service}: is missing; {key} is in the resource group "
                "of the hub's network and zones, so it has an endpoint and a record there, which "
                "those of this stack would replace; give the range of its endpoint's subnet"
            )
    if network.existing_endpoints and network.dns_mode == "own":
        yield (
            "network.existing_endpoints: cannot be combined with zones that the stack declares, "
            "which have no records of these endpoints; set network.private_dns to hub or policy"
        )


def _reachable(network: NetworkSettings, text: str) -> bool:
    """Whether an address or range is in a connected network. Only the owner of an existing network
    knows what that is connected to.
    """
    if network.existing is not None:
        return True
    spaces = [space for peer in network.peer_address_spaces if (space := address_range(peer))]
    return any(IPv4Network(text).subnet_of(space) for space in spaces)


def _behind_the_bridge(settings: Settings, key: str, text: str) -> Iterator[str]:
    """Yield the fault of an address or range that the containers on the nodes cannot reach."""
    if settings.nodes is None:
        yield from subnets.bridge_problems(key, text)


def _space(network: NetworkSettings) -> list[str]:
    return subnets.space_problems(network.address_space, network.peer_address_spaces)
