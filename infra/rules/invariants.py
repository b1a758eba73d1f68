"""The invariants of a stack: the required value of each input, in one table by rule, kind and path.

Rules that compare several inputs or resources are in the other modules; extras add rows.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from infra.naming import SubnetRole
from infra.resources import (
    ASSIGNMENT,
    COMPUTE,
    CONTAINER,
    DATASTORE,
    INSIGHTS,
    LOGS,
    NETWORK,
    REGISTRY,
    STORAGE,
    VAULT,
    WORKSPACE,
    Resource,
)
from infra.rules.expected import (
    ANYTHING,
    OFF,
    ON,
    Expected,
    Row,
    among,
    as_set,
    by_name,
    exactly,
    one_of,
    only_if,
    optional,
    shown,
)
from infra.rules.literals import SUBNET_OF_DUTY, ZONES
from infra.rules.network import is_network, is_subnet
from infra.rules.own_services import cluster_of
from infra.rules.rule import Rule
from infra.settings import ClusterSettings, Settings

BLOBS = "storage:BlobServiceProperties"
FILES = "storage:FileServiceProperties"
AGEING = "storage:ManagementPolicy"
FLOW_LOG = "network:FlowLog"
DIAGNOSTIC_SETTING = "monitor:DiagnosticSetting"

STUDIO = frozenset(
    {
        "https://mlworkspace.azure.ai",
        "https://ml.azure.com",
        "https://*.ml.azure.com",
        "https://ai.azure.com",
        "https://*.ai.azure.com",
    }
)
"""Origins of Azure Machine Learning's own pages."""


def _ages(name: str, prefixes: list[str], action: str, days: int) -> dict[str, object]:
    """Return the lifecycle rule that moves or deletes old blobs below some prefixes."""
    return {
        "name": name,
        "type": "Lifecycle",
        "enabled": True,
        "definition": {
            "actions": {"baseBlob": {action: {"daysAfterModificationGreaterThan": days}}},
            "filters": {"blobTypes": ["blockBlob"], "prefixMatch": prefixes},
        },
    }


HERE = as_set(lambda settings: settings.location)
ZONE_REDUNDANT = as_set(lambda s: "Enabled" if s.registry.zone_redundant else "Disabled")


def own_subnets(settings: Settings) -> bool:
    return settings.nodes is None


def _listed(settings: Settings) -> Sequence[str]:
    return settings.allowed_addresses if settings.public else ()


def _answers(settings: Settings) -> bool:
    """Whether the accounts have public endpoints, which their rules close to all but the listed."""
    return settings.public or settings.storage.public_access == "denied"


def _queried(settings: Settings) -> str:
    return "Disabled" if _hidden(settings) and not settings.public else "Enabled"


def _hidden(settings: Settings) -> bool:
    """Whether logs are sent through a private endpoint."""
    return "monitor" in settings.endpoint_kinds


LOGGED = as_set(lambda s: "Disabled" if _hidden(s) else "Enabled")
REPORTED = as_set(lambda s: "Enabled" if s.public and not _hidden(s) else "Disabled")
QUERIED = {"publicNetworkAccessForQuery": as_set(_queried)}
"""Logs are sent and read over public endpoints, with an Entra sign-in, unless they have a private
endpoint. Nothing reports to Application Insights, so only an open platform lets reports in."""

NO_PUBLIC_ENDPOINT = Rule(
    "no-public-endpoint",
    "Workspace, registry, vault and storage are reachable through private endpoints only. In the "
    "allowlisted profile the workspace has a public endpoint with Entra sign-in, and storage is "
    "open to the listed addresses.",
    "Disable public access, or choose the network profile that allows it.",
    {
        CONTAINER: {"publicAccess": exactly("None")},
        WORKSPACE: {
            "publicNetworkAccess": as_set(lambda s: "Enabled" if s.public else "Disabled"),
        },
        VAULT: {
            "properties.publicNetworkAccess": exactly("Disabled"),
            "properties.networkAcls.defaultAction": exactly("Deny"),
            "properties.networkAcls.bypass": one_of("AzureServices", "None"),
        },
        REGISTRY: {
            "publicNetworkAccess": exactly("Disabled"),
            "networkRuleBypassOptions": one_of("AzureServices", "None"),
        },
        STORAGE: {
            "publicNetworkAccess": Expected(
                lambda s: "as set" if _answers(s) else shown("Disabled"),
                lambda given, s: _answers(s) or given == "Disabled",
            ),
            "networkRuleSet.defaultAction": exactly("Deny"),
            "networkRuleSet.bypass": one_of("AzureServices", "None"),
            "networkRuleSet.ipRules[].iPAddressOrRange": optional(
                among(_listed, "an address of allowed_addresses in the allowlisted profile")
            ),
        },
        LOGS: {"publicNetworkAccessForIngestion": LOGGED, **QUERIED},
        INSIGHTS: {"publicNetworkAccessForIngestion": REPORTED, **QUERIED},
    },
)

NODES_WITHOUT_PUBLIC_ADDRESS = Rule(
    "nodes-without-public-address",
    "Cluster nodes and serverless computes have no public address and accept no SSH from outside.",
    "Set the properties when the cluster is created: Azure cannot change them later.",
    {
        COMPUTE: {
            "properties.properties.enableNodePublicIp": OFF,
            "properties.properties.remoteLoginPortPublicAccess": exactly("Disabled"),
        },
        WORKSPACE: {"serverlessComputeSettings.serverlessComputeNoPublicIP": ON},
    },
)


def zones(settings: Settings) -> tuple[str, ...]:
    groups = [endpoint.group for endpoint in settings.endpoint_kinds.values()]
    return tuple(sorted(frozenset().union(*(ZONES[group] for group in groups))))


def is_zone(id_: str, settings: Settings) -> bool:
    group = (
        settings.network.existing_dns_zones or f"/resourceGroups/{settings.names.resource_group}"
    )
    return any(
        id_.lower().endswith(f"{group}/providers/Microsoft.Network/privateDnsZones/{zone}".lower())
        for zone in zones(settings)
    )


def _peers(settings: Settings) -> dict[str, bool]:
    """Return whether the gateway of each peer is used, by the peer's id in lower case."""
    gateway = (settings.network.remote_gateway or "").lower()
    return {id_.lower(): id_.lower() == gateway for id_ in settings.network.peer_with}


def _peered(given: Sequence[Mapping[str, Any]], settings: Settings) -> bool:
    peers = [
        (
            str((peering.get("remoteVirtualNetwork") or {}).get("id")).lower(),
            peering["useRemoteGateways"],
        )
        for peering in given
        if isinstance(peering.get("useRemoteGateways"), bool)
    ]
    return len(peers) == len(given) and sorted(peers) == sorted(_peers(settings).items())


OWN_NETWORK = Rule(
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
            "virtualNetworkPeerings[].allowGatewayTransit": OFF,
            "dhcpOptions.dnsServers": only_if(
                lambda s: bool(s.network.dns_servers), as_set(lambda s: list(s.network.dns_servers))
            ),
        },
        "privatedns:PrivateZone": {
            "privateZoneName": among(zones, "a zone of one of the stack's endpoints")
        },
        "privatedns:VirtualNetworkLink": {
            "privateZoneName": among(zones, "a zone of one of the stack's endpoints"),
            "registrationEnabled": OFF,
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
    },
)

NO_KEYS = Rule(
    "no-keys",
    "Every service authenticates callers by Entra ID only; shared keys, local users, passwords, "
    "anonymous access and access policies are off.",
    "Disable the other authentication method, and give an identity a role instead.",
    {
        STORAGE: {
            "allowSharedKeyAccess": OFF,
            "allowBlobPublicAccess": OFF,
            "isLocalUserEnabled": OFF,
            "isSftpEnabled": OFF,
            "isNfsV3Enabled": optional(OFF),
            "defaultToOAuthAuthentication": ON,
        },
        REGISTRY: {"adminUserEnabled": OFF, "anonymousPullEnabled": OFF},
        VAULT: {
            "properties.tenantId": as_set(lambda settings: settings.subscription.tenant),
            "properties.enableRbacAuthorization": ON,
            "properties.enabledForDeployment": OFF,
            "properties.enabledForDiskEncryption": OFF,
            "properties.enabledForTemplateDeployment": OFF,
        },
        WORKSPACE: {"systemDatastoresAuthMode": exactly("Identity")},
        COMPUTE: {"properties.disableLocalAuth": ON},
        DATASTORE: {
            "properties.credentials.credentialsType": exactly("None"),
            "properties.serviceDataAccessAuthIdentity": exactly("WorkspaceUserAssignedIdentity"),
        },
        LOGS: {"features.disableLocalAuth": ON},
        INSIGHTS: {"disableLocalAuth": ON},
    },
)

TLS = Rule(
    "tls-1-2",
    "Storage accounts accept only HTTPS with TLS 1.2 or later, and datastores use HTTPS; no other "
    "service here offers a choice.",
    "Set minimumTlsVersion, enableHttpsTrafficOnly and the datastore's protocol.",
    {
        STORAGE: {"minimumTlsVersion": exactly("TLS1_2"), "enableHttpsTrafficOnly": ON},
        DATASTORE: {"properties.protocol": exactly("https")},
    },
)

ENCRYPTED = Rule(
    "encrypted",
    "Storage has infrastructure encryption in addition to service encryption, and services use no "
    "keys but those of the stack's settings.",
    "Set it when the resource is created: Azure cannot change infrastructure encryption later.",
    {
        STORAGE: {
            "encryption.requireInfrastructureEncryption": ON,
            "encryption.keySource": exactly("Microsoft.Storage"),
            "encryption.services.blob.enabled": ON,
            "encryption.services.file.enabled": optional(ON),
        },
    },
)

RECOVERABLE = Rule(
    "recoverable",
    "What is deleted by mistake can be restored, and logs are kept, for the days of the stack's "
    "settings; only logs, code and results of jobs are deleted by age.",
    "Restore the retention; to shorten it on purpose, change the stack's settings.",
    {
        BLOBS: {
            f"{policy}.{key}": expected
            for policy in ("deleteRetentionPolicy", "containerDeleteRetentionPolicy")
            for key, expected in {
                "enabled": ON,
                "days": as_set(lambda s: s.storage.soft_delete_retention_days),
                "allowPermanentDelete": optional(OFF),
            }.items()
        },
        FILES: {
            "shareDeleteRetentionPolicy.enabled": ON,
            "shareDeleteRetentionPolicy.days": as_set(
                lambda s: s.storage.soft_delete_retention_days
            ),
        },
        AGEING: {
            "policy.rules": as_set(
                lambda s: [
                    _ages(
                        "job-logs",
                        ["azureml/ExperimentRun", "snapshots", "snapshotzips"],
                        "delete",
                        s.storage.snapshot_retention_days,
                    ),
                    _ages("results", ["results/"], "tierToCool", s.storage.cool_after_days),
                ]
            ),
        },
        VAULT: {
            "properties.enableSoftDelete": ON,
            "properties.softDeleteRetentionInDays": as_set(
                lambda s: s.vault.soft_delete_retention_days
            ),
        },
        REGISTRY: {
            "policies.retentionPolicy.days": as_set(lambda s: s.registry.untagged_retention_days),
        },
        LOGS: {
            "retentionInDays": as_set(lambda s: s.monitoring.retention_days),
            "workspaceCapping.dailyQuotaGb": as_set(lambda s: s.monitoring.daily_cap_gb),
        },
    },
)

OWN_REGION = Rule(
    "own-region",
    "Data, images, logs and nodes are in the region of the stack's settings.",
    "Deploy another stack for another region.",
    {kind: {"location": HERE} for kind in (STORAGE, REGISTRY, VAULT, WORKSPACE, LOGS, COMPUTE)},
)

NO_COPIES = Rule(
    "no-copies-outside",
    "Data, images and logs stay in the stack: no replication to other tenants, no export from the "
    "registry, no copy of it in a region that the settings do not name, no foreign page that reads "
    "blobs, and no logs sent elsewhere.",
    "Remove the way out; to use a service that exists already, name it in the stack's settings.",
    {
        STORAGE: {
            "allowCrossTenantReplication": OFF,
            "allowedCopyScope": one_of("AAD", "PrivateLink"),
            "sasPolicy.sasExpirationPeriod": exactly("1.00:00:00"),
        },
        REGISTRY: {"policies.exportPolicy.status": exactly("disabled")},
        BLOBS: {"cors.corsRules[].allowedOrigins": exactly(sorted(STUDIO))},
        DATASTORE: {"properties.endpoint": exactly("core.windows.net")},
        WORKSPACE: {
            "applicationInsights": only_if(
                lambda s: s.monitoring.application_insights, by_name(lambda s: s.names.insights)
            ),
        },
        FLOW_LOG: {
            "storageId": as_set(lambda s: s.network.flow_logs_to or ""),
            "enabled": ON,
        },
    },
)

HIGH_BUSINESS_IMPACT = Rule(
    "high-business-impact",
    "The workspace is marked high business impact: Microsoft collects less diagnostic data, and "
    "the nodes' scratch disks are encrypted and wiped.",
    "Set it when the workspace is created: Azure cannot change hbiWorkspace later.",
    {
        WORKSPACE: {
            "hbiWorkspace": ON,
            "v1LegacyMode": OFF,
            "managedNetwork.isolationMode": exactly("Disabled"),
            "enableDataIsolation": as_set(
                lambda s: bool(s.storage.existing_default or s.vault.existing)
            ),
        }
    },
)

CLUSTERS_REST_AT_ZERO = Rule(
    "clusters-rest-at-zero",
    "Every cluster scales down to zero nodes.",
    "Set minNodeCount to 0; an idle node is billed by the hour.",
    {COMPUTE: {"properties.properties.scaleSettings.minNodeCount": exactly(0)}},
)


def _as_set(read: Callable[[ClusterSettings], object]) -> Row:
    """Expect the cluster to be as in the settings; `identity-of-duty` refuses an unknown one."""

    def row(resource: Resource, settings: Settings) -> Expected | None:
        cluster = cluster_of(resource, settings)
        return None if cluster is None else exactly(read(cluster))

    return row


CLUSTERS_AS_SET = Rule(
    "clusters-as-set",
    "Every cluster has the size, the priority, the nodes and the idle time of the stack's "
    "settings, from which the budget was planned.",
    "Change the stack's settings rather than the cluster.",
    {
        COMPUTE: {
            "properties.properties.vmSize": _as_set(lambda cluster: cluster.size),
            "properties.properties.vmPriority": _as_set(lambda cluster: cluster.azure_priority),
            "properties.properties.scaleSettings.maxNodeCount": _as_set(
                lambda cluster: cluster.max_nodes
            ),
            "properties.properties.scaleSettings.nodeIdleTimeBeforeScaleDown": _as_set(
                lambda cluster: f"PT{cluster.idle_seconds_before_scale_down}S"
            ),
        }
    },
)


def in_subnet(role: SubnetRole) -> Expected:
    """Expect the id of a subnet of the stack."""
    return Expected(lambda _: f"the {role} subnet", lambda given, s: is_subnet(str(given), role, s))


def _of_nodes(resource: Resource, settings: Settings) -> Expected | None:
    if settings.nodes is not None:
        return None
    cluster = cluster_of(resource, settings)
    return in_subnet(SUBNET_OF_DUTY[cluster.duty] if cluster else "training")


NODES_IN_THEIR_SUBNET = Rule(
    "nodes-in-their-subnet",
    "Nodes that build images are in the build subnet, which reaches the internet, and all others "
    "in the training subnet, which does not; other machines are in their own.",
    "Set the subnet when the cluster is created: Azure cannot change it later.",
    {
        COMPUTE: {"properties.properties.subnet.id": _of_nodes},
        WORKSPACE: {"serverlessComputeSettings.serverlessComputeCustomSubnet": _of_nodes},
    },
)

PURGE_PROTECTION = Rule(
    "purge-protection",
    "In production a deleted vault cannot be purged before its retention period ends.",
    "Set it to true, or omit it where a vault may be purged.",
    {
        VAULT: {
            "properties.enablePurgeProtection": lambda _, s: (
                ON if s.protect or s.vault.purge_protection else optional(ON)
            )
        }
    },
)

AS_DECLARED = Rule(
    "as-declared",
    "Tiers, kinds, formats and switches are those that the platform was reviewed with.",
    "Restore the input; or record it with `make -C tools snapshots`, in a commit that says why.",
    {
        ASSIGNMENT: {"principalType": one_of("ServicePrincipal", "Group")},
        CONTAINER: {"containerName": one_of("raw", "prepared", "results")},
        COMPUTE: {
            "properties.computeLocation": HERE,
            "properties.properties.subnet.id": only_if(own_subnets, optional(ANYTHING)),
        },
        DATASTORE: {
            "name": one_of(
                *(f"training_data_{container}" for container in ("raw", "prepared", "results"))
            ),
            "properties.containerName": one_of("raw", "prepared", "results"),
            "properties.subscriptionId": among(
                lambda s: (s.subscription.id, *(id_.split("/")[2] for id_ in named_in(s))),
                "the stack's or that of a service in its settings",
            ),
        },
        REGISTRY: {"zoneRedundancy": ZONE_REDUNDANT},
        STORAGE: {
            "kind": one_of("BlockBlobStorage", "StorageV2"),
            "sku.name": among(
                lambda s: (
                    f"Standard_{s.storage.default_redundancy}",
                    f"Premium_{s.storage.data_redundancy}",
                ),
                "of the redundancy of the stack's settings",
            ),
        },
        WORKSPACE: {
            "serverlessComputeSettings.serverlessComputeCustomSubnet": only_if(
                own_subnets, ANYTHING
            ),
        },
        DIAGNOSTIC_SETTING: {"metrics[].category": optional(one_of("AllMetrics", "Transaction"))},
        FLOW_LOG: {"networkWatcherName": as_set(lambda s: f"NetworkWatcher_{s.location}")},
        "network:ServiceEndpointPolicy": {
            "serviceEndpointPolicyDefinitions[].name": one_of("machine-learning", "own-accounts"),
            "serviceEndpointPolicyDefinitions[].service": one_of("Global", "Microsoft.Storage"),
        },
    },
)
"""`closed_world.as_declared` adds the inputs that are the same in all stacks."""


def named_in(tree: Any) -> Iterator[str]:
    """Yield every id that the settings name."""
    if isinstance(tree, str):
        if tree.startswith("/subscriptions/"):
            yield tree
    elif isinstance(tree, Mapping):
        for value in tree.values():
            yield from named_in(value)
    elif isinstance(tree, list | tuple):
        for value in tree:
            yield from named_in(value)
    elif is_dataclass(tree) and not isinstance(tree, type):
        for field in fields(tree):
            yield from named_in(getattr(tree, field.name))
