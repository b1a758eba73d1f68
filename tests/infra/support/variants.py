"""Every way in which a stack can be switched: overrides of the development stack, by name."""

from infra.catalog import vm_sizes

THEIRS = "/subscriptions/22222222-2222-2222-2222-222222222222/resourceGroups/theirs/providers"
VNET = f"{THEIRS}/Microsoft.Network/virtualNetworks/hub"
ZONES = "/subscriptions/22222222-2222-2222-2222-222222222222/resourceGroups/dns"
DEFAULT = f"{THEIRS}/Microsoft.Storage/storageAccounts/theirdefault"
DATA = f"{THEIRS}/Microsoft.Storage/storageAccounts/theirdata"
REGISTRY = f"{THEIRS}/Microsoft.ContainerRegistry/registries/theirRegistry"
VAULT = f"{THEIRS}/Microsoft.KeyVault/vaults/theirvault"
LOGS = f"{THEIRS}/Microsoft.OperationalInsights/workspaces/theirlogs"
OWN_GROUP = "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/landing-zone"
GROUP_OF_PEOPLE = "33333333-3333-3333-3333-33333333333{}"

NETWORK = {
    "network.existing": {
        "virtual_network": VNET,
        "training_subnet": f"{VNET}/subnets/nodes",
        "build_subnet": f"{VNET}/subnets/images",
        "endpoints_subnet": f"{VNET}/subnets/endpoints",
    }
}
KEYS = {"encryption.customer_managed_keys": True, "vault.purge_protection": True}
SERVICES = {
    "storage.existing_default": DEFAULT,
    "storage.existing_data": DATA,
    "registry.existing": REGISTRY,
    "vault.existing": VAULT,
    "monitoring.existing_log_workspace": LOGS,
}

OPTIONS = {
    "as it is": {},
    "allowlisted": {"profile": "allowlisted", "allowed_addresses": ["52.174.12.7", "40.68.0.0/24"]},
    "customer-managed keys": KEYS,
    "monitor private link": {"monitoring.private_link": True},
    "dedicated twin": {"clusters.gpu_dedicated": {"size": "Standard_ND40rs_v2", "max_nodes": 1}},
    "jump subnet": {"network.jump_subnet": True},
    "peered": {"network.peer_with": [VNET], "network.peer_address_spaces": ["10.0.0.0/16"]},
    "certificate zone": {"network.certificate_zone": True},
    "zone redundant": {
        "storage.default_redundancy": "ZRS",
        "storage.data_redundancy": "ZRS",
        "registry.zone_redundant": True,
    },
    "people": {
        "people.publishers": GROUP_OF_PEOPLE.format(1),
        "people.scientists": GROUP_OF_PEOPLE.format(2),
        "people.operators": GROUP_OF_PEOPLE.format(3),
    },
    "their network": NETWORK,
    "their network and zones": NETWORK | {"network.existing_dns_zones": ZONES},
    "their services": SERVICES,
    "their key": SERVICES
    | {
        "encryption.customer_managed_keys": True,
        "encryption.key_uri": "https://theirvault.vault.azure.net/keys/platform/0123456789abcdef",
    },
    "everything theirs": NETWORK | SERVICES | {"network.existing_dns_zones": ZONES},
    "their group": {"resource_group.existing": OWN_GROUP},
    "ignored tags": {"ignored_tags": ["CostCentre", "created by"]},
    "everything on": {
        "profile": "allowlisted",
        "allowed_addresses": ["52.174.12.7"],
        "monitoring.private_link": True,
        "network.jump_subnet": True,
        "network.certificate_zone": True,
        "clusters.gpu_dedicated": {"size": "Standard_ND40rs_v2", "max_nodes": 1},
        "people.publishers": GROUP_OF_PEOPLE.format(1),
        "people.scientists": GROUP_OF_PEOPLE.format(2),
        "people.operators": GROUP_OF_PEOPLE.format(3),
    }
    | KEYS,
}

LOWEST: dict[str, object] = {"subscription.low_priority_cores": None, "subscription.sizes": []}
SIZES = {
    size.name: {"clusters.gpu.size": size.name, "clusters.gpu.max_nodes": 1} | LOWEST
    for size in vm_sizes.deployable(gpu=True)
}
"""Every GPU size that a cluster may still be made of."""
