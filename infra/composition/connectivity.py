"""How services are reached: the network, private DNS and private endpoints."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import pulumi

from infra.catalog import network_rules
from infra.catalog.dns_zones import needed
from infra.catalog.network_rules import Rule, Surroundings
from infra.components.base import Service, StackContext
from infra.components.network import Network, NetworkArgs, SubnetArgs
from infra.components.private_link import (
    HubLinks,
    PrivateDns,
    PrivateEndpoint,
    PrivateEndpointArgs,
    Zones,
    existing_zones,
)
from infra.composition.services import Services
from infra.naming import SubnetRole
from infra.network_settings import NetworkSettings
from infra.settings import Settings


@dataclass(frozen=True)
class Connectivity:
    """The network, declared or existing, with its subnets and DNS zones."""

    subnets: dict[SubnetRole, pulumi.Input[str]]
    network: Network | None
    """None if the stack uses an existing network."""
    zones: Zones | None
    """None if an Azure Policy of the company records the endpoints' names."""
    existing_endpoints: Collection[str]
    """Existing services that have endpoints already."""


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
    names = needed(settings.endpoint_kinds)
    zones = _zones(context, network_settings, names, network_id)
    return Connectivity(subnets, network, zones, network_settings.existing_endpoints)


def _zones(
    context: StackContext,
    settings: NetworkSettings,
    names: Sequence[str],
    network_id: pulumi.Input[str],
) -> Zones | None:
    if settings.dns_mode == "policy":
        return None
    group = settings.existing_dns_zones
    if group is None:
        return PrivateDns(context, names, network_id, settings.peer_with).zones
    declared = settings.dns_links == "declared"
    links = HubLinks(context, group, names, network_id).links if declared else None
    return existing_zones(group, names, links)


def service_endpoints(
    settings: Settings, context: StackContext, connectivity: Connectivity, services: Services
) -> dict[str, PrivateEndpoint]:
    """Declare the endpoints of the services that the workspace uses; return them by short name.

    Existing services that have endpoints already get none. A service connects one endpoint at a
    time: a storage account answers 409 to the others.
    """
    targets: dict[str, tuple[str, str, Service]] = {
        "vault": ("vault", "vault", services.vault),
        "registry": ("registry", "registry", services.registry),
        "default-blob": ("blob", "default_storage", services.default_storage),
        "default-file": ("file", "default_storage", services.default_storage),
        "data-blob": ("blob", "data_storage", services.data_storage),
    }
    declared: dict[str, PrivateEndpoint] = {}
    previous: dict[str, Sequence[pulumi.Resource]] = {}
    for label, (kind, name, service) in targets.items():
        if name in connectivity.existing_endpoints:
            continue
        before = previous.get(name, service.ready)
        declared[label] = endpoint(
            settings, context, connectivity, label, kind, service.id, depends_on=before
        )
        previous[name] = declared[label].ready
    return declared


def endpoint(
    settings: Settings,
    context: StackContext,
    connectivity: Connectivity,
    service: str,
    kind: str,
    target: pulumi.Input[str],
    *,
    depends_on: Sequence[pulumi.Resource] = (),
) -> PrivateEndpoint:
    """Declare the private endpoint of one service.

    Args:
        settings: Settings of the stack, which say which kinds there are.
        context: Context of the stack.
        connectivity: Network and DNS zones of the endpoint.
        service: Short name in the stack, such as `vault` or `data-blob`.
        kind: Kind of endpoint, which decides the zones it needs.
        target: Id of the service.
        depends_on: Resources that must exist before it.
    """
    needs = settings.endpoint_kinds[kind]
    subnet = connectivity.subnets["endpoints"]
    args = PrivateEndpointArgs(service, target, needs.group, needs.zones, subnet, depends_on)
    return PrivateEndpoint(context, args, connectivity.zones)


def _network_args(settings: Settings, services: Services) -> NetworkArgs:
    network_settings = settings.network
    return NetworkArgs(
        space=str(settings.address_plan.space),
        subnets=_subnets(settings),
        storage_ids=[services.default_storage.id, services.data_storage.id],
        peers=network_settings.peer_with,
        remote_gateway=network_settings.remote_gateway,
        dns_servers=network_settings.dns_servers,
        route_table=network_settings.route_table,
        flow_logs_to=network_settings.flow_logs_to,
    )


def _subnets(settings: Settings) -> list[SubnetArgs]:
    """Return the subnets of the declared network, with their security rules."""
    network_settings = settings.network
    region, service = settings.location, network_settings.service_traffic
    ranges = {role: str(subnet) for role, subnet in settings.address_plan.subnets.items()}
    own, elsewhere = ranges["endpoints"], set(network_settings.existing_endpoints.values())
    endpoints = (own, *sorted(elsewhere))
    around = {
        role: Surroundings(range_, endpoints, network_settings.dns_servers)
        for role, range_ in ranges.items()
    }
    more = settings.leaf_subnets
    nodes = tuple(ranges[role] for role in ("training", "build") if role in ranges)
    others = [ranges[role] for role, one in more.items() if one.reaches_endpoints]
    others += network_settings.peer_address_spaces
    of_nodes = {"training": network_rules.training, "build": network_rules.build}
    rules: dict[SubnetRole, Sequence[Rule]] = {
        **{
            role: of_nodes[role](region, around[role], service)
            for role in of_nodes
            if role in around
        },
        "endpoints": network_rules.endpoints(own, nodes, tuple(others)),
        **{role: one.rules(around[role], ranges) for role, one in more.items()},
    }
    return [
        SubnetArgs(
            role,
            name,
            ranges[role],
            rules[role],
            leaves=more[role].leaves if role in more else role != "endpoints",
        )
        for role, name in settings.subnet_names.items()
    ]
