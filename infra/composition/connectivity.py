"""How services are reached: the network, private DNS and private endpoints."""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi

from infra.catalog import network_rules
from infra.catalog.dns_zones import ENDPOINTS, EndpointKind, needed
from infra.components.base import StackContext
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
from infra.naming import SubnetRole
from infra.settings import Settings


@dataclass(frozen=True)
class Connectivity:
    """The network, declared or existing, with its subnets and DNS zones."""

    subnets: dict[SubnetRole, pulumi.Input[str]]
    network: Network | None
    """None if the stack uses an existing network."""
    zones: Zones


def declare(settings: Settings, context: StackContext, services: Services) -> Connectivity:
    """Declare the network and its private DNS, without any endpoint yet."""
    network_settings = settings.network
    network = None
    subnets: dict[SubnetRole, pulumi.Input[str]]
    network_id: pulumi.Input[str]
    if network_settings.existing is not None:
        network_id = network_settings.existing.virtual_network
        subnets = {
            "training": network_settings.existing.training_subnet,
            "build": network_settings.existing.build_subnet,
            "endpoints": network_settings.existing.endpoints_subnet,
        }
    else:
        network = Network(context, _network_args(settings, services))
        network_id = network.network.id
        subnets = dict(network.subnets)
    names = needed(
        monitor=settings.monitoring.private_link, certificate=network_settings.certificate_zone
    )
    if network_settings.existing_dns_zones is not None:
        zones = existing_zones(network_settings.existing_dns_zones, names)
    else:
        zones = PrivateDns(context, names, network_id).zones
    return Connectivity(subnets, network, zones)


def service_endpoints(
    context: StackContext, connectivity: Connectivity, services: Services
) -> dict[str, PrivateEndpoint]:
    """Declare the endpoints of the services that the workspace uses; return them by short name."""
    targets: dict[str, tuple[EndpointKind, pulumi.Input[str]]] = {
        "vault": ("vault", services.vault.id),
        "registry": ("registry", services.registry.id),
        "default-blob": ("blob", services.default_storage.id),
        "default-file": ("file", services.default_storage.id),
        "data-blob": ("blob", services.data_storage.id),
    }
    return {
        service: endpoint(context, connectivity, service, kind, target)
        for service, (kind, target) in targets.items()
    }


def monitor(context: StackContext, connectivity: Connectivity, monitoring: Monitoring) -> None:
    """Declare Azure Monitor's private link scope and its endpoint.

    An existing log workspace is left out: its owner decides which scopes it belongs to.
    """
    members: list[tuple[str, pulumi.Input[str]]] = []
    if monitoring.insights is not None:
        members.append(("insights", monitoring.insights.id))
    if monitoring.logs is not None:
        members.append(("logs", monitoring.logs.id))
    scope = MonitorScope(context, members)
    endpoint(context, connectivity, "monitor", "monitor", scope.scope.id, depends_on=scope.members)


def endpoint(
    context: StackContext,
    connectivity: Connectivity,
    service: str,
    kind: EndpointKind,
    target: pulumi.Input[str],
    *,
    depends_on: Sequence[pulumi.Resource] = (),
) -> PrivateEndpoint:
    """Declare the private endpoint of one service.

    Args:
        context: Context of the stack.
        connectivity: Network and DNS zones of the endpoint.
        service: Short name in the stack, such as `vault` or `data-blob`.
        kind: Kind of endpoint, which decides the zones it needs.
        target: Id of the service.
        depends_on: Resources that must exist before it.
    """
    needs = ENDPOINTS[kind]
    args = PrivateEndpointArgs(
        service, target, needs.group, needs.zones, connectivity.subnets["endpoints"]
    )
    return PrivateEndpoint(
        context, args, connectivity.zones, pulumi.ResourceOptions(depends_on=list(depends_on))
    )


def _network_args(settings: Settings, services: Services) -> NetworkArgs:
    region, tag = settings.location, settings.network.vault_service_tag
    return NetworkArgs(
        plan=settings.address_plan,
        rules={
            "training": network_rules.training(region, hbi=True, public_ip=False, vault_tag=tag),
            "build": network_rules.build(region, hbi=True, vault_tag=tag),
            "endpoints": network_rules.endpoints(),
            "jump": network_rules.jump(),
        },
        storage_ids=[services.default_storage.id, services.data_storage.id],
        peers=settings.network.peer_with,
    )
