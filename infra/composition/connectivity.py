"""How services are reached: the network, private DNS and private endpoints."""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi

from infra.catalog import network_rules
from infra.catalog.dns_zones import ENDPOINTS, Kind, needed
from infra.components.base import Place
from infra.components.monitoring import Monitoring, MonitorScope
from infra.components.network import Network, NetworkArgs
from infra.components.private_link import (
    PrivateDns,
    PrivateEndpoint,
    PrivateEndpointArgs,
    Zones,
    existing_zones,
)
from infra.composition.services import Services
from infra.naming import ClusterRole
from infra.settings import Settings
from infra.subnets import Role

SUBNETS: dict[ClusterRole, Role] = {
    "gpu": "training",
    "gpu-dedicated": "training",
    "preparation": "training",
    "build": "build",
}
"""Where the nodes of each cluster are: only images are built with a way out to the internet."""


@dataclass(frozen=True)
class Connections:
    """The network, declared or taken, and what answers in it."""

    subnets: dict[Role, pulumi.Input[str]]
    network: Network | None
    """None where the network is someone else's."""
    zones: Zones


def declare(settings: Settings, place: Place, used: Services) -> Connections:
    """Declare the network and its private DNS, without any endpoint yet."""
    wanted = settings.network
    network = None
    subnets: dict[Role, pulumi.Input[str]]
    network_id: pulumi.Input[str]
    if wanted.existing is not None:
        network_id = wanted.existing.virtual_network
        subnets = {
            "training": wanted.existing.training_subnet,
            "build": wanted.existing.build_subnet,
            "endpoints": wanted.existing.endpoints_subnet,
        }
    else:
        network = Network(place, _network_args(settings, used))
        network_id = network.network.id
        subnets = dict(network.subnets)
    names = needed(monitor=settings.monitoring.private_link, certificate=wanted.certificate_zone)
    if wanted.existing_dns_zones is not None:
        zones = existing_zones(wanted.existing_dns_zones, names)
    else:
        zones = PrivateDns(place, names, network_id).zones
    return Connections(subnets, network, zones)


def services(place: Place, connections: Connections, used: Services) -> dict[str, PrivateEndpoint]:
    """Declare the endpoints of what the workspace is made of, by their short names."""
    wanted: dict[str, tuple[Kind, pulumi.Input[str]]] = {
        "vault": ("vault", used.vault.id),
        "registry": ("registry", used.registry.id),
        "default-blob": ("blob", used.default_storage.id),
        "default-file": ("file", used.default_storage.id),
        "data-blob": ("blob", used.data_storage.id),
    }
    return {
        service: endpoint(place, connections, service, kind, target)
        for service, (kind, target) in wanted.items()
    }


def monitor(place: Place, connections: Connections, monitoring: Monitoring) -> None:
    """Declare Azure Monitor's private link scope and its endpoint.

    A log workspace of someone else is left out: its owner decides on whose scopes it is.
    """
    members: list[tuple[str, pulumi.Input[str]]] = []
    if monitoring.insights is not None:
        members.append(("insights", monitoring.insights.id))
    if monitoring.logs is not None:
        members.append(("logs", monitoring.logs.id))
    scope = MonitorScope(place, members)
    endpoint(place, connections, "monitor", "monitor", scope.scope.id, after=scope.members)


def endpoint(
    place: Place,
    connections: Connections,
    service: str,
    kind: Kind,
    target: pulumi.Input[str],
    *,
    after: Sequence[pulumi.Resource] = (),
) -> PrivateEndpoint:
    """Declare the endpoint of one service.

    Args:
        place: the stack.
        connections: where it answers.
        service: short name in the stack, such as `vault` or `data-blob`.
        kind: which zones it needs.
        target: identifier of what it leads to.
        after: what must exist before it.
    """
    needs = ENDPOINTS[kind]
    args = PrivateEndpointArgs(
        service, target, needs.group, needs.zones, connections.subnets["endpoints"]
    )
    return PrivateEndpoint(
        place, args, connections.zones, pulumi.ResourceOptions(depends_on=list(after))
    )


def _network_args(settings: Settings, used: Services) -> NetworkArgs:
    region, tag = settings.location, settings.network.vault_tag
    return NetworkArgs(
        plan=settings.address_plan,
        rules={
            "training": network_rules.training(region, hbi=True, public_ip=False, vault_tag=tag),
            "build": network_rules.build(region, hbi=True, vault_tag=tag),
            "endpoints": network_rules.endpoints(),
            "jump": network_rules.jump(),
        },
        storage_ids=[used.default_storage.id, used.data_storage.id],
        peers=settings.network.peer_with,
    )
