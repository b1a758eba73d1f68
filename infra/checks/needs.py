"""What must exist in Azure before a stack is deployed: what its settings name, and the switches of
the subscription. Pure; `jobs/` asks Azure for each.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from infra.catalog import dns_zones
from infra.leaf import Beginning, Needed
from infra.naming import DUTY_SUBNETS
from infra.network_settings import ExistingNetwork
from infra.settings import Settings

NETWORK_VERSION: Final = "2024-05-01"
ZONE_VERSION: Final = "2024-06-01"
PROVIDER_VERSION: Final = "2021-04-01"
PROVIDERS: Final = (
    "Microsoft.ContainerRegistry",
    "Microsoft.Insights",
    "Microsoft.KeyVault",
    "Microsoft.MachineLearningServices",
    "Microsoft.ManagedIdentity",
    "Microsoft.Network",
    "Microsoft.OperationalInsights",
    "Microsoft.Storage",
)
"""Resource providers of the trunk. Azure registers none by itself for what a program creates."""
_ENDPOINT_ADDRESSES: Final = {"default_storage": 2, "data_storage": 1, "registry": 2, "vault": 1}
"""Addresses that the endpoints of a service take at least; that of the workspace takes one more."""
_OFF: Final[tuple[object, ...]] = (None, [], "Disabled")
_SERVICES: Final[Mapping[str, tuple[str, Mapping[str, tuple[object, ...]], str]]] = {
    "storage.existing_default": (
        "2023-05-01",
        {"kind": ("StorageV2",), "properties.isHnsEnabled": (None, False)},
        "name a Standard account without a hierarchical namespace, which a workspace needs",
    ),
    "storage.existing_data": (
        "2023-05-01",
        {"kind": ("BlockBlobStorage", "StorageV2"), "properties.isHnsEnabled": (None, False)},
        "name an account of blobs without a hierarchical namespace",
    ),
    "registry.existing": (
        "2023-07-01",
        {"sku.name": ("Premium",)},
        "change its tier (az acr update --sku Premium): only Premium has private endpoints",
    ),
    "vault.existing": (
        "2026-02-01",
        {"properties.enableRbacAuthorization": (True,)},
        "its owner has to choose roles instead of access policies (az keyvault update"
        " --enable-rbac-authorization true)",
    ),
    "monitoring.existing_log_workspace": ("2022-10-01", {}, ""),
}
"""By setting: API version, accepted values by path, and the cure."""


def of(settings: Settings) -> tuple[Needed | Beginning, ...]:
    """Return all that must exist, of the trunk and of the leaves."""
    own = (*_providers(settings), *_network(settings), *_zones(settings), *_services(settings))
    return (*own, *(one for leaf in settings.leaves for one in leaf.needs(settings)))


def provider(settings: Settings, namespace: str) -> Needed:
    """Return the need of a resource provider."""
    return Needed(
        "providers",
        namespace,
        f"/subscriptions/{settings.subscription.id}/providers/{namespace}",
        PROVIDER_VERSION,
        {"registrationState": ("Registered",)},
        "the owner of the subscription registers it once (az provider register --namespace"
        f" {namespace} --wait)",
    )


def _providers(settings: Settings) -> Iterator[Needed]:
    yield from (provider(settings, namespace) for namespace in PROVIDERS)


def _network(settings: Settings) -> Iterator[Needed]:
    network, here = settings.network, {"location": (settings.location,)}
    elsewhere = "name one in the stack's region"
    if network.existing is not None:
        yield Needed(
            "network",
            "network.existing.virtual_network",
            network.existing.virtual_network,
            NETWORK_VERSION,
            here,
            "nodes and endpoints are in the region of their network; name a network there, or"
            " deploy the stack to that region",
            zones=_own_zones(settings),
        )
        yield from _subnets(settings, network.existing)
    if network.route_table is not None:
        yield Needed(
            "network",
            "network.route_table",
            network.route_table,
            NETWORK_VERSION,
            here,
            elsewhere,
        )
    if network.flow_logs_to is not None:
        yield Needed(
            "network", "network.flow_logs_to", network.flow_logs_to, "2023-05-01", here, elsewhere
        )


def _subnets(settings: Settings, existing: ExistingNetwork) -> Iterator[Needed]:
    nodes: Counter[str] = Counter()
    for cluster in settings.clusters.values():
        nodes[DUTY_SUBNETS[cluster.duty]] += cluster.max_nodes
    for role in ("training", "build"):
        yield Needed(
            "network",
            f"network.existing.{role}_subnet",
            getattr(existing, f"{role}_subnet"),
            NETWORK_VERSION,
            {
                "properties.delegations": _OFF,
                "properties.privateEndpointNetworkPolicies": _OFF,
                "properties.privateLinkServiceNetworkPolicies": _OFF,
            },
            "the network's owner sets this for the subnets of nodes: no delegation, and both"
            " network policies Disabled (az network vnet subnet update)",
            addresses=nodes[role],
        )
    yield Needed(
        "network",
        "network.existing.endpoints_subnet",
        existing.endpoints_subnet,
        NETWORK_VERSION,
        {"properties.delegations": _OFF},
        "private endpoints need a subnet that is not delegated",
        addresses=1
        + sum(
            addresses
            for service, addresses in _ENDPOINT_ADDRESSES.items()
            if service not in settings.network.existing_endpoints
        )
        + sum(endpoint.copies for endpoint in settings.endpoint_kinds.values()),
    )


def _zones(settings: Settings) -> Iterator[Needed]:
    group, existing = settings.network.existing_dns_zones, settings.network.existing
    if group is None:
        return
    linked = existing is not None and settings.network.dns_links != "declared"
    for zone in dns_zones.needed(settings.endpoint_kinds):
        yield Needed(
            "zones",
            "network.existing_dns_zones",
            f"{group}/providers/Microsoft.Network/privateDnsZones/{zone}",
            ZONE_VERSION,
            cure="its owner creates it (az network private-dns zone create); without it no name of"
            " its endpoints resolves",
            linked_to=existing.virtual_network if existing is not None and linked else None,
        )


def _own_zones(settings: Settings) -> tuple[str, ...]:
    """Return the ids of the zones that the stack declares for an existing network."""
    if settings.network.dns_mode != "own":
        return ()
    group = (
        f"/subscriptions/{settings.subscription.id}/resourceGroups/{settings.names.resource_group}"
    )
    return tuple(
        f"{group}/providers/Microsoft.Network/privateDnsZones/{zone}"
        for zone in dns_zones.needed(settings.endpoint_kinds)
    )


def _services(settings: Settings) -> Iterator[Needed]:
    named = {
        "storage.existing_default": settings.storage.existing_default,
        "storage.existing_data": settings.storage.existing_data,
        "registry.existing": settings.registry.existing,
        "vault.existing": settings.vault.existing,
        "monitoring.existing_log_workspace": settings.monitoring.existing_log_workspace,
    }
    for setting, id_ in named.items():
        if id_ is not None:
            version, holds, cure = _SERVICES[setting]
            yield Needed("services", setting, id_, version, holds, cure)
