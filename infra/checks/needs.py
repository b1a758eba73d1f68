"""Needs in Azure before a stack is deployed: resources that its settings name, and the switches of
the subscription. Pure; `jobs/` asks Azure for each.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from infra.catalog import dns_zones
from infra.leaf import Beginning, Needed
from infra.naming import DUTY_SUBNETS
from infra.settings import Settings

NETWORK_VERSION: Final = "2024-05-01"
ZONE_VERSION: Final = "2024-06-01"
STORAGE_VERSION: Final = "2023-05-01"
RESOURCES_VERSION: Final = "2021-04-01"
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
"""Resource providers of the trunk. Azure registers none by itself for the resources of a
program."""
OF_ENDPOINTS: Final = ("Microsoft.Cdn", "Microsoft.PolicyInsights")
"""Resource providers that a subscription with online endpoints needs as well (Microsoft Q&A,
"SubscriptionNotRegistered" of managed online endpoints)."""
_OFF: Final[tuple[object, ...]] = (None, [], "Disabled")


def of(settings: Settings) -> tuple[Needed | Beginning, ...]:
    """Return all that must exist, of the trunk and of the leaves."""
    namespaces = (*PROVIDERS, *(OF_ENDPOINTS if settings.serving else ()))
    providers = (provider(settings, namespace) for namespace in namespaces)
    leaves = (need for leaf in settings.leaves for need in leaf.needs(settings))
    return (*providers, *_named(settings), *_zones(settings), *leaves)


def provider(settings: Settings, namespace: str) -> Needed:
    """Return the need of a resource provider."""
    return Needed(
        "providers",
        namespace,
        f"/subscriptions/{settings.subscription.id}/providers/{namespace}",
        RESOURCES_VERSION,
        {"registrationState": ("Registered",)},
        "the owner of the subscription registers it once (az provider register --namespace"
        f" {namespace} --wait)",
    )


def _named(settings: Settings) -> Iterator[Needed]:
    """Yield the needs of the settings that name a resource: name of the check, setting, API
    version, accepted values by path, and cure.
    """
    here: dict[str, tuple[object, ...]] = {"location": (settings.location,)}
    flat: dict[str, tuple[object, ...]] = {"properties.isHnsEnabled": (None, False)}
    nodes = (
        NETWORK_VERSION,
        {
            "properties.delegations": _OFF,
            "properties.privateEndpointNetworkPolicies": _OFF,
            "properties.privateLinkServiceNetworkPolicies": _OFF,
        },
        "the network's owner sets this for the subnets of nodes: no delegation, and both network"
        " policies Disabled (az network vnet subnet update)",
    )
    elsewhere = "name one in the stack's region"
    table: tuple[tuple[str, str, str, dict[str, tuple[object, ...]], str], ...] = (
        (
            *("resource group", "resource_group.existing", RESOURCES_VERSION, {}),
            "check its id, or remove the setting to let the stack declare a group",
        ),
        (
            *("network", "network.existing.virtual_network", NETWORK_VERSION, here),
            "nodes and endpoints are in the region of their network; name a network there, or"
            " deploy the stack to that region",
        ),
        ("network", "network.existing.training_subnet", *nodes),
        ("network", "network.existing.build_subnet", *nodes),
        (
            *("network", "network.existing.endpoints_subnet", NETWORK_VERSION),
            {"properties.delegations": _OFF},
            "private endpoints need a subnet that is not delegated",
        ),
        ("network", "network.route_table", NETWORK_VERSION, here, elsewhere),
        ("network", "network.flow_logs_to", STORAGE_VERSION, here, elsewhere),
        (
            *("services", "storage.existing_default", STORAGE_VERSION),
            {"kind": ("StorageV2",), **flat},
            "name a Standard account without a hierarchical namespace, which a workspace needs",
        ),
        (
            *("services", "storage.existing_data", STORAGE_VERSION),
            {"kind": ("BlockBlobStorage", "StorageV2"), **flat},
            "name an account of blobs without a hierarchical namespace",
        ),
        (
            *("services", "registry.existing", "2023-07-01"),
            {"sku.name": ("Premium",)},
            "change its tier (az acr update --sku Premium): only Premium has private endpoints",
        ),
        (
            *("services", "vault.existing", "2026-02-01"),
            {"properties.enableRbacAuthorization": (True,)},
            "its owner has to choose roles instead of access policies (az keyvault update"
            " --enable-rbac-authorization true)",
        ),
        ("services", "monitoring.existing_log_workspace", "2022-10-01", {}, ""),
    )
    group = f"/subscriptions/{settings.subscription.id}/resourceGroups/"
    own = _zone_ids(settings, f"{group}{settings.names.resource_group}")
    zones = {"network.existing.virtual_network": own if settings.network.dns_mode == "own" else ()}
    addresses = _addresses(settings)
    for check, setting, version, holds, cure in table:
        id_: Any = settings
        for part in setting.split("."):
            id_ = getattr(id_, part, None)
        if id_ is not None:
            yield Needed(
                *(check, setting, id_, version, holds, cure),
                addresses=addresses.get(setting, 0),
                zones=zones.get(setting, ()),
            )


def _addresses(settings: Settings) -> dict[str, int]:
    """Return the addresses that an existing subnet must have room for, by its setting."""
    nodes: Counter[str] = Counter()
    for cluster in settings.clusters.values():
        nodes[DUTY_SUBNETS[cluster.duty]] += cluster.max_nodes
    counts = {
        "training": nodes["training"],
        "build": nodes["build"],
        "endpoints": settings.endpoint_addresses,
    }
    return {f"network.existing.{role}_subnet": count for role, count in counts.items()}


def _zones(settings: Settings) -> Iterator[Needed]:
    group, existing = settings.network.existing_dns_zones, settings.network.existing
    if group is None:
        return
    linked = existing is not None and settings.network.dns_links != "declared"
    for zone in _zone_ids(settings, group):
        yield Needed(
            "zones",
            "network.existing_dns_zones",
            zone,
            ZONE_VERSION,
            cure="its owner creates it (az network private-dns zone create); without it no name of"
            " its endpoints resolves",
            linked_to=existing.virtual_network if existing is not None and linked else None,
        )


def _zone_ids(settings: Settings, group: str) -> tuple[str, ...]:
    """Return the ids of the zones of a stack's endpoints in a resource group."""
    zones = dns_zones.needed(settings.endpoint_kinds)
    return tuple(f"{group}/providers/Microsoft.Network/privateDnsZones/{zone}" for zone in zones)
