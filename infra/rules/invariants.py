"""The invariants of a stack: the required value of each input, in one table by rule, kind and path.

Rules that compare several inputs or resources are in the other modules; extras add rows. A value
that is the same in all stacks and guards nothing needs no row, as `reviewed.json` has it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from infra.naming import SubnetRole
from infra.resources import (
    ASSIGNMENT,
    COMPUTE,
    CONTAINER,
    DATASTORE,
    INSIGHTS,
    LINK,
    LOGS,
    NETWORK,
    REGISTRY,
    STORAGE,
    VAULT,
    WORKSPACE,
    Resource,
    value_at,
)
from infra.rules.network import is_network, is_subnet
from infra.rules.own_services import by_cluster, cluster_of, ids_in
from infra.rules.rule import ANYTHING, Expected, OfResource, Rule, by_name, one_of, optional, shown
from infra.settings import Settings

DIAGNOSTIC_SETTING: Final = "monitor:DiagnosticSetting"
FILES: Final = "storage:FileServiceProperties"
FLOW_LOG: Final = "network:FlowLog"


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


def _ageing(settings: Settings) -> list[dict[str, object]]:
    job_logs = ["azureml/ExperimentRun", "snapshots", "snapshotzips"]
    storage = settings.storage
    return [
        _ages("job-logs", job_logs, "delete", storage.snapshot_retention_days),
        _ages("results", ["results/"], "tierToCool", storage.cool_after_days),
    ]


def own_subnets(settings: Settings) -> bool:
    return settings.nodes is None


def zone_redundancy(settings: Settings) -> str:
    return "Enabled" if settings.registry.zone_redundant else "Disabled"


def _accounts_answer(settings: Settings) -> bool:
    """Whether the accounts have public endpoints, which their rules close to all but the listed."""
    return settings.public or settings.storage.public_access == "denied"


def _listed(settings: Settings) -> Expected:
    return optional(
        one_of(
            *(settings.allowed_addresses if settings.public else ()),
            text="an address of allowed_addresses in the allowlisted profile",
        )
    )


# Logs are sent and read over public endpoints, with an Entra sign-in, unless they have a private
# endpoint. Nothing reports to Application Insights, so only an open platform lets reports in.
def _hidden(settings: Settings) -> bool:
    """Whether logs are sent through a private endpoint."""
    return "monitor" in settings.endpoint_kinds


def _logged(settings: Settings) -> str:
    return "Disabled" if _hidden(settings) else "Enabled"


def _reported(settings: Settings) -> str:
    return "Enabled" if settings.public and not _hidden(settings) else "Disabled"


def _queried(settings: Settings) -> str:
    return "Disabled" if _hidden(settings) and not settings.public else "Enabled"


NO_PUBLIC_ENDPOINT = Rule(
    "no-public-endpoint",
    "Workspace, registry, vault and storage are reachable through private endpoints only. In the "
    "allowlisted profile the workspace has a public endpoint with Entra sign-in, and storage is "
    "open to the listed addresses. Cluster nodes and serverless computes have no public address "
    "and accept no SSH from outside.",
    "Disable public access, of a cluster when it is created, or choose the network profile that "
    "allows it.",
    {
        CONTAINER: {"publicAccess": "None"},
        COMPUTE: {
            "properties.properties.enableNodePublicIp": False,
            "properties.properties.remoteLoginPortPublicAccess": "Disabled",
        },
        WORKSPACE: {
            "publicNetworkAccess": lambda s: "Enabled" if s.public else "Disabled",
            "serverlessComputeSettings.serverlessComputeNoPublicIP": True,
        },
        VAULT: {
            "properties.publicNetworkAccess": "Disabled",
            "properties.networkAcls.defaultAction": "Deny",
        },
        REGISTRY: {"publicNetworkAccess": "Disabled"},
        STORAGE: {
            "publicNetworkAccess": lambda s: ANYTHING if _accounts_answer(s) else "Disabled",
            "networkRuleSet.defaultAction": "Deny",
            "networkRuleSet.ipRules[].iPAddressOrRange": _listed,
        },
        LOGS: {
            "publicNetworkAccessForIngestion": _logged,
            "publicNetworkAccessForQuery": _queried,
        },
        INSIGHTS: {
            "publicNetworkAccessForIngestion": _reported,
            "publicNetworkAccessForQuery": _queried,
        },
    },
)


def _zones(settings: Settings) -> set[str]:
    return {zone for endpoint in settings.endpoint_kinds.values() for zone in endpoint.zones}


def _zone(settings: Settings) -> Expected:
    return one_of(*_zones(settings), text="a zone of one of the stack's endpoints")


def _zone_id(settings: Settings) -> Expected:
    group = (
        settings.network.existing_dns_zones or f"/resourceGroups/{settings.names.resource_group}"
    )
    ends = tuple(
        f"{group}/providers/Microsoft.Network/privateDnsZones/{zone}".lower()
        for zone in _zones(settings)
    )
    return Expected(
        "a zone of the stack or of network.existing_dns_zones",
        lambda given: str(given).lower().endswith(ends),
    )


def _peers(settings: Settings) -> Expected | None:
    """Expect the peers of the settings, with the gateway of one of them or none."""
    gateway = (settings.network.remote_gateway or "").lower()
    peers = {id_.lower(): id_.lower() == gateway for id_ in settings.network.peer_with}

    def peered(given: Sequence[Mapping[str, Any]]) -> bool:
        ids = [str(value_at(peering, "remoteVirtualNetwork.id")).lower() for peering in given]
        uses = [peering.get("useRemoteGateways") for peering in given]
        known = all(isinstance(use, bool) for use in uses)
        return known and sorted(zip(ids, uses, strict=True)) == sorted(peers.items())

    return Expected(f"those with {shown(peers)}", peered) if peers else None


OWN_NETWORK = Rule(
    "own-network",
    "The network has the address range, the peers, their gateway and the DNS servers of the "
    "stack's settings, and private DNS zones serve this network and its peers only.",
    "Remove it; to connect another network, name it in the stack's settings.",
    {
        NETWORK: {
            "addressSpace.addressPrefixes[]": lambda s: s.network.address_space,
            "virtualNetworkPeerings": _peers,
            "virtualNetworkPeerings[].allowGatewayTransit": False,
            "dhcpOptions.dnsServers": lambda s: list(s.network.dns_servers) or None,
        },
        "privatedns:PrivateZone": {"privateZoneName": _zone},
        LINK: {
            "privateZoneName": _zone,
            "registrationEnabled": False,
            "virtualNetwork.id": lambda s: Expected(
                "the stack's network or one of its peers", lambda id_: is_network(str(id_), s)
            ),
        },
        "network:PrivateDnsZoneGroup": {"privateDnsZoneConfigs[].privateDnsZoneId": _zone_id},
    },
)

NO_KEYS = Rule(
    "no-keys",
    "Every service authenticates callers by Entra ID only; shared keys, local users, passwords, "
    "anonymous access and access policies are off.",
    "Disable the other authentication method, and give an identity a role instead.",
    {
        STORAGE: {
            "allowSharedKeyAccess": False,
            "allowBlobPublicAccess": False,
            "isLocalUserEnabled": False,
            "isSftpEnabled": False,
            "defaultToOAuthAuthentication": True,
        },
        REGISTRY: {"adminUserEnabled": False, "anonymousPullEnabled": False},
        VAULT: {
            "properties.tenantId": lambda s: s.subscription.tenant,
            "properties.enableRbacAuthorization": True,
            "properties.enabledForDeployment": False,
            "properties.enabledForDiskEncryption": False,
            "properties.enabledForTemplateDeployment": False,
        },
        WORKSPACE: {"systemDatastoresAuthMode": "Identity"},
        COMPUTE: {"properties.disableLocalAuth": True},
        DATASTORE: {
            "properties.credentials.credentialsType": "None",
            "properties.serviceDataAccessAuthIdentity": "WorkspaceUserAssignedIdentity",
        },
        LOGS: {"features.disableLocalAuth": True},
        INSIGHTS: {"disableLocalAuth": True},
    },
)

ENCRYPTED = Rule(
    "encrypted",
    "Storage has infrastructure encryption in addition to service encryption, and services use no "
    "keys but those of the stack's settings. Storage accounts accept only HTTPS with TLS 1.2 or "
    "later, and datastores use HTTPS; no other service here offers a choice.",
    "Set it when the resource is created: Azure cannot change infrastructure encryption later.",
    {
        STORAGE: {
            "minimumTlsVersion": "TLS1_2",
            "enableHttpsTrafficOnly": True,
            "encryption.requireInfrastructureEncryption": True,
            "encryption.keySource": "Microsoft.Storage",
        },
        DATASTORE: {"properties.protocol": "https"},
    },
)

RECOVERABLE = Rule(
    "recoverable",
    "What is deleted by mistake can be restored, and logs are kept, for the days of the stack's "
    "settings; only logs, code and results of jobs are deleted by age. In production a deleted "
    "vault cannot be purged before its retention period ends.",
    "Restore the retention; to shorten it on purpose, change the stack's settings.",
    {
        "storage:BlobServiceProperties": {
            "deleteRetentionPolicy.enabled": True,
            "deleteRetentionPolicy.days": lambda s: s.storage.soft_delete_retention_days,
            "containerDeleteRetentionPolicy.enabled": True,
            "containerDeleteRetentionPolicy.days": lambda s: s.storage.soft_delete_retention_days,
        },
        FILES: {
            "shareDeleteRetentionPolicy.enabled": True,
            "shareDeleteRetentionPolicy.days": lambda s: s.storage.soft_delete_retention_days,
        },
        "storage:ManagementPolicy": {"policy.rules": _ageing},
        VAULT: {
            "properties.enableSoftDelete": True,
            "properties.softDeleteRetentionInDays": lambda s: s.vault.soft_delete_retention_days,
            "properties.enablePurgeProtection": lambda s: (
                True if s.protect or s.vault.purge_protection else optional(True)
            ),
        },
        REGISTRY: {
            "policies.retentionPolicy.days": lambda s: s.registry.untagged_retention_days,
        },
        LOGS: {
            "retentionInDays": lambda s: s.monitoring.retention_days,
            "workspaceCapping.dailyQuotaGb": lambda s: s.monitoring.daily_cap_gb,
        },
    },
)

NO_COPIES = Rule(
    "no-copies-outside",
    "Data, images and logs stay in the stack: no replication to other tenants, no export from the "
    "registry, no copy of it in a region that the settings do not name, and no logs sent "
    "elsewhere.",
    "Remove the way out; to use a service that exists already, name it in the stack's settings.",
    {
        STORAGE: {"allowCrossTenantReplication": False},
        REGISTRY: {"policies.exportPolicy.status": "disabled"},
        WORKSPACE: {
            "applicationInsights": lambda s: (
                by_name(s.names.insights) if s.monitoring.application_insights else None
            ),
        },
        FLOW_LOG: {"storageId": lambda s: s.network.flow_logs_to or "", "enabled": True},
    },
)

HIGH_BUSINESS_IMPACT = Rule(
    "high-business-impact",
    "The workspace is marked high business impact: Microsoft collects less diagnostic data, and "
    "the nodes' scratch disks are encrypted and wiped.",
    "Set it when the workspace is created: Azure cannot change hbiWorkspace later.",
    {
        WORKSPACE: {
            "hbiWorkspace": True,
            "v1LegacyMode": False,
            "managedNetwork.isolationMode": "Disabled",
            "enableDataIsolation": lambda s: bool(s.storage.existing_default or s.vault.existing),
        }
    },
)

CLUSTERS_AS_SET = Rule(
    "clusters-as-set",
    "Every cluster scales down to zero nodes, and has the size, the priority, the nodes and the "
    "idle time of the stack's settings, from which the budget was planned.",
    "Change the stack's settings rather than the cluster; an idle node is billed by the hour.",
    {
        COMPUTE: {
            "properties.properties.vmSize": by_cluster(lambda it, _: it.size),
            "properties.properties.vmPriority": by_cluster(lambda it, _: it.azure_priority),
            "properties.properties.scaleSettings.minNodeCount": 0,
            "properties.properties.scaleSettings.maxNodeCount": by_cluster(
                lambda it, _: it.max_nodes
            ),
            "properties.properties.scaleSettings.nodeIdleTimeBeforeScaleDown": by_cluster(
                lambda it, _: f"PT{it.idle_seconds_before_scale_down}S"
            ),
        }
    },
)


SUBNET_OF_DUTY: Final = {"train": "training", "prepare": "training", "build": "build"}
"""Only image builds may reach the internet."""


def in_subnet(role: SubnetRole) -> Callable[[Settings], Expected]:
    """Expect the id of a subnet of the stack."""
    return lambda s: Expected(f"the {role} subnet", lambda id_: is_subnet(str(id_), role, s))


def _subnet_of_nodes(resource: Resource, settings: Settings) -> Expected | None:
    cluster = cluster_of(resource, settings)
    role = SUBNET_OF_DUTY[cluster.duty] if cluster else "training"
    return in_subnet(role)(settings) if own_subnets(settings) else None


NODES_IN_THEIR_SUBNET = Rule(
    "nodes-in-their-subnet",
    "Nodes that build images are in the build subnet, which reaches the internet, and all others "
    "in the training subnet, which does not; other machines are in their own.",
    "Set the subnet when the cluster is created: Azure cannot change it later.",
    {
        COMPUTE: {"properties.properties.subnet.id": OfResource(_subnet_of_nodes)},
        WORKSPACE: {
            "serverlessComputeSettings.serverlessComputeCustomSubnet": OfResource(_subnet_of_nodes)
        },
    },
)

AS_DECLARED = Rule(
    "as-declared",
    "Tiers, kinds, formats and switches are those that the platform was reviewed with.",
    "Restore the input; or record it with `make -C tools snapshots`, in a commit that says why.",
    {
        ASSIGNMENT: {"principalType": one_of("ServicePrincipal", "Group")},
        COMPUTE: {"properties.computeLocation": lambda s: s.location},
        DATASTORE: {
            "properties.subscriptionId": lambda s: one_of(
                *(s.subscription.id, *(id_.split("/")[2] for id_ in ids_in(s))),
                text="the stack's or that of a service in its settings",
            ),
        },
        REGISTRY: {"zoneRedundancy": zone_redundancy},
        STORAGE: {
            "kind": one_of("BlockBlobStorage", "StorageV2"),
            "sku.name": lambda s: one_of(
                *(
                    f"Standard_{s.storage.default_redundancy}",
                    f"Premium_{s.storage.data_redundancy}",
                ),
                text="of the redundancy of the stack's settings",
            ),
        },
        DIAGNOSTIC_SETTING: {"metrics[].category": optional(one_of("AllMetrics", "Transaction"))},
        FLOW_LOG: {"networkWatcherName": lambda s: f"NetworkWatcher_{s.location}"},
        "network:ServiceEndpointPolicy": {
            "serviceEndpointPolicyDefinitions[].name": one_of("machine-learning", "own-accounts"),
            "serviceEndpointPolicyDefinitions[].service": one_of("Global", "Microsoft.Storage"),
        },
    },
)
"""`closed_world.as_declared` adds the inputs that are the same in all stacks."""
