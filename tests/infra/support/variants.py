"""Every way in which a stack can be switched: overrides of the development stack, by name."""

from typing import Any

from infra.catalog import vm_sizes

THEIRS = "/subscriptions/22222222-2222-2222-2222-222222222222/resourceGroups/theirs/providers"
VNET = f"{THEIRS}/Microsoft.Network/virtualNetworks/hub"
OWN_VNET = (
    "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/network/providers"
    "/Microsoft.Network/virtualNetworks/spoke"
)
"""In the subscription of the stacks, as Azure Machine Learning requires of nodes."""
ZONES = "/subscriptions/22222222-2222-2222-2222-222222222222/resourceGroups/dns"
DEFAULT = f"{THEIRS}/Microsoft.Storage/storageAccounts/theirdefault"
DATA = f"{THEIRS}/Microsoft.Storage/storageAccounts/theirdata"
REGISTRY = f"{THEIRS}/Microsoft.ContainerRegistry/registries/theirRegistry"
VAULT = f"{THEIRS}/Microsoft.KeyVault/vaults/theirvault"
THEIR_IDENTITY = f"{THEIRS}/Microsoft.ManagedIdentity/userAssignedIdentities/their-encryption"
ROUTES = (
    "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/network/providers"
    "/Microsoft.Network/routeTables/to-firewall"
)
LOGS = f"{THEIRS}/Microsoft.OperationalInsights/workspaces/theirlogs"
OWN_GROUP = "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/landing-zone"
GROUP_OF_PEOPLE = "33333333-3333-3333-3333-33333333333{}"

NETWORK = {
    "network.existing": {
        "virtual_network": OWN_VNET,
        "training_subnet": f"{OWN_VNET}/subnets/nodes",
        "build_subnet": f"{OWN_VNET}/subnets/images",
        "endpoints_subnet": f"{OWN_VNET}/subnets/endpoints",
    }
}
HUB = {"network.peer_with": [VNET], "network.peer_address_spaces": ["10.0.0.0/16"]}
SPOKE = HUB | {
    "network.existing_dns_zones": ZONES,
    "network.dns_links": "declared",
    "network.dns_servers": ["10.0.0.4", "10.0.0.5"],
    "network.route_table": ROUTES,
    "network.remote_gateway": VNET.lower(),
    "network.jump_subnet": True,
    "network.jump_access": ["10.0.1.0/26"],
}
JUMP = {
    "access.jump_machine": True,
    "access.users": GROUP_OF_PEOPLE.format(4),
    "access.public_key": f"ssh-ed25519 {'A' * 68}",
}
KEYS = {"encryption.customer_managed_keys": True, "vault.purge_protection": True}
SERVICES = {
    "storage.existing_default": DEFAULT,
    "storage.existing_data": DATA,
    "registry.existing": REGISTRY,
    "vault.existing": VAULT,
    "monitoring.existing_log_workspace": LOGS,
}
ENDPOINTS = {
    "network.existing_endpoints": {
        "default_storage": "10.0.8.0/27",
        "data_storage": "10.0.8.0/27",
        "registry": "10.0.9.0/27",
        "vault": "10.0.9.0/27",
    }
}

MANAGED = {
    "profile": "managed",
    "managed_network.accept_one_way": True,
    "clusters.build": None,
}
FIREWALL = {
    "profile": "managed",
    "managed_network.accept_one_way": True,
    "managed_network.firewall": "Standard",
    "managed_network.hosts": ["pypi.org", "*.nvcr.io"],
    "managed_network.image_publishers": GROUP_OF_PEOPLE.format(6),
}

OPTIONS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "allowlisted": {"profile": "allowlisted", "allowed_addresses": ["52.174.12.7", "40.68.0.0/24"]},
    "managed network": MANAGED,
    "managed network, with a firewall": FIREWALL,
    "managed network, behind a hub": MANAGED | SPOKE,
    "managed network, their services": MANAGED | SPOKE | SERVICES | ENDPOINTS,
    "customer-managed keys": KEYS,
    "monitor private link": {"monitoring.private_link": True},
    "dedicated twin": {"clusters.gpu_dedicated": {"size": "Standard_ND40rs_v2", "max_nodes": 1}},
    "other clusters": {
        "clusters.gpu": None,
        "clusters.a100": {"size": "Standard_ND96amsr_A100_v4", "max_nodes": 4},
        "clusters.t4_spare": {"size": "Standard_NC64as_T4_v3", "max_nodes": 2, "priority": "low"},
        "clusters.cpu": {"size": "Standard_D4ads_v5", "max_nodes": 1, "duty": "train"},
        "clusters.preparation": None,
        "clusters.shards": {"size": "Standard_D8ds_v5", "max_nodes": 3, "duty": "prepare"},
        "clusters.build": None,
        "clusters.images": {"size": "Standard_D8ads_v5", "max_nodes": 1, "duty": "build"},
        "subscription.low_priority_cores": 128,
    },
    "prepares for another stack": {"clusters.gpu": None, "storage.existing_data": DATA},
    "serving": {"serving": True},
    "another stack prepares": {"clusters.preparation": None},
    "jump subnet": {"network.jump_subnet": True},
    "jump machine": JUMP,
    "jump machine for scientists, set up": JUMP
    | {
        "access.administrators": GROUP_OF_PEOPLE.format(5),
        "access.repository": "https://github.com/example/ml-azure-horovod.git",
        "access.revision": "v2.0",
        "access.size": "Standard_D4s_v5",
        "access.off_at": "2130",
        "access.time_zone": "W. Europe Standard Time",
        "access.bastion_allowed_addresses": ["52.174.12.7", "40.68.0.0/24"],
        "people.scientists": GROUP_OF_PEOPLE.format(4),
    },
    "jump machine behind a hub's Bastion": SPOKE
    | JUMP
    | {"access.existing_bastion": f"{THEIRS}/Microsoft.Network/bastionHosts/hub"},
    "read logs and flow logs": {
        "monitoring.storage_reads": True,
        "network.flow_logs_to": f"{THEIRS}/Microsoft.Storage/storageAccounts/theirlogs",
    },
    "what azure may demand": {
        "network.storage_over_smb": True,
        "network.vault_service_tag": "Keyvault",
        "storage.public_access": "denied",
    },
    "peered": HUB,
    "peered with two": {
        "network.peer_with": [VNET, f"{VNET}-2"],
        "network.peer_address_spaces": ["10.0.0.0/16", "10.1.0.0/16"],
    },
    "spoke": SPOKE,
    "hub's zones, linked by its owner": {
        "network.existing_dns_zones": ZONES,
        "network.dns_links": "existing",
    },
    "records by policy": HUB | {"network.private_dns": "policy", "network.dns_links": "existing"},
    "zone redundant": {
        "storage.default_redundancy": "ZRS",
        "storage.data_redundancy": "ZRS",
        "registry.zone_redundant": True,
    },
    "registry in two regions": {
        "registry.replicas": ["northeurope", "swedencentral"],
        "registry.zone_redundant": True,
    },
    "registry of another region": {
        "registry.existing": REGISTRY,
        "registry.remote_reason": "Spot nodes are looked for here for two weeks only.",
    },
    "people": {
        "people.publishers": GROUP_OF_PEOPLE.format(1),
        "people.scientists": GROUP_OF_PEOPLE.format(2),
        "people.operators": GROUP_OF_PEOPLE.format(3),
    },
    "scientists limited to the clusters": {
        "people.scientists": GROUP_OF_PEOPLE.format(2),
        "people.existing_clusters_only": True,
    },
    "their network": NETWORK,
    "their network and zones": NETWORK | {"network.existing_dns_zones": ZONES},
    "their network, links declared": NETWORK
    | {"network.existing_dns_zones": ZONES, "network.dns_links": "declared"},
    "their network, records by policy": NETWORK | {"network.private_dns": "policy"},
    "their services": SERVICES,
    "their services with endpoints": SPOKE | SERVICES | ENDPOINTS,
    "their key": SERVICES
    | {
        "encryption.customer_managed_keys": True,
        "encryption.key_uri": "https://theirvault.vault.azure.net/keys/platform/0123456789abcdef",
    },
    "everything theirs": NETWORK | SERVICES | {"network.existing_dns_zones": ZONES},
    "everything theirs, with endpoints": NETWORK
    | SERVICES
    | ENDPOINTS
    | {"network.existing_dns_zones": ZONES},
    "their group": {"resource_group.existing": OWN_GROUP},
    "roles of the owner": {"roles": "existing"},
    "roles of the owner, one of them new": {
        "roles": "existing",
        "people.scientists": GROUP_OF_PEOPLE.format(2),
        "people.existing_clusters_only": True,
    },
    "their group, their services, roles of the owner": {
        "resource_group.existing": OWN_GROUP,
        "roles": "existing",
    }
    | SERVICES
    | NETWORK
    | ENDPOINTS
    | {
        "network.existing_dns_zones": ZONES,
        "encryption.customer_managed_keys": True,
        "encryption.service_side": True,
        "encryption.key_uri": "https://theirvault.vault.azure.net/keys/platform/0123456789abcdef",
        "encryption.identity": THEIR_IDENTITY,
    },
    "a key in another vault": {
        "encryption.customer_managed_keys": True,
        "encryption.key_vault": VAULT,
        "encryption.key_uri": "https://theirvault.vault.azure.net/keys/platform/0123456789abcdef",
    },
    "service-side keys": KEYS | {"encryption.service_side": True},
    "no budget offered": {"budget.offered": False},
    "ignored tags": {"ignored_tags": ["CostCentre", "created by"]},
    "everything on": {
        "profile": "allowlisted",
        "allowed_addresses": ["52.174.12.7"],
        "monitoring.private_link": True,
        "network.jump_subnet": True,
        "clusters.gpu_dedicated": {"size": "Standard_ND40rs_v2", "max_nodes": 1},
        "people.publishers": GROUP_OF_PEOPLE.format(1),
        "people.scientists": GROUP_OF_PEOPLE.format(2),
        "people.operators": GROUP_OF_PEOPLE.format(3),
    }
    | JUMP
    | KEYS,
}

ASSIGNING = [name for name, option in OPTIONS.items() if option.get("roles") != "existing"]
"""Those of stacks that assign their roles themselves."""

LOWEST: dict[str, object] = {"subscription.low_priority_cores": None, "subscription.sizes": []}
SIZES = {
    size.name: {"clusters.gpu.size": size.name, "clusters.gpu.max_nodes": 1} | LOWEST
    for size in vm_sizes.deployable(gpu=True)
}
"""Every GPU size that a cluster may still be made of."""

ANOTHER_TEAM: dict[str, Any] = {
    "prefix": "abc",
    "location": "northeurope",
    "name_seed": "again",
    "tags": {"owner": "another-team", "cost-center": "43"},
    "budget.emails": ["a@example.com", "b@example.com"],
    "budget.start": "2027-01-01",
    "subscription.id": "44444444-4444-4444-4444-444444444444",
    "subscription.tenant": "55555555-5555-5555-5555-555555555555",
    "subscription.sizes": [],
    "clusters.gpu.idle_seconds_before_scale_down": 600,
    "clusters.gpu.name": "gpus",
    "network.build_nodes": 12,
    "storage.snapshot_retention_days": 90,
    "storage.cool_after_days": 60,
    "monitoring.preempted_nodes": 2,
    "monitoring.idle_minutes": 90,
    "monitoring.failed_jobs": 2,
    "monitoring.waiting_minutes": 90,
    "monitoring.ended_runs": True,
    "monitoring.quota_percent": 80,
}
"""Settings that every stack has, with values that no stack of the options has."""
RECORDED: dict[str, tuple[str, dict[str, Any]]] = {
    **{f"dev, {name}": ("dev", option) for name, option in OPTIONS.items()},
    "prod": ("prod", {}),
    "prod, everything on": ("prod", OPTIONS["everything on"]),
    "another team": (
        "prod",
        OPTIONS["everything on"]
        | OPTIONS["registry in two regions"]
        | ANOTHER_TEAM
        | {
            "access.public_key": f"ssh-ed25519 {'B' * 68}",
            "monitoring.application_insights": False,
            "network.flow_logs_to": f"{THEIRS}/Microsoft.Storage/storageAccounts/otherlogs",
            "people.existing_clusters_only": True,
            "people.on_existing_accounts": False,
            "registry.replicas": ["uksouth"],
            "registry.zone_redundant": False,
            "serving": True,
        },
    ),
    "another team's spoke": (
        "dev",
        SPOKE
        | ANOTHER_TEAM
        | {
            "network.dns_servers": ["10.0.0.6"],
            "network.route_table": ROUTES.replace(
                "00000000-0000-0000-0000-000000000000", ANOTHER_TEAM["subscription.id"]
            ),
        },
    ),
    "another team's managed network": (
        "dev",
        FIREWALL
        | ANOTHER_TEAM
        | {"managed_network.firewall": "Basic", "managed_network.hosts": ["conda.org"]},
    ),
}
"""Stacks whose inputs infra/rules/reviewed.json records; together they have every setting at two
values."""
