"""The invariants of a stack: what each input must be, in one table by rule, kind and path.

Rules that compare several inputs or resources are in the other modules; extras add rows.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Final

from infra.resources import (
    ASSIGNMENT,
    COMPUTE,
    CONTAINER,
    DATASTORE,
    GROUP,
    IDENTITY,
    INSIGHTS,
    LOGS,
    NETWORK,
    REGISTRY,
    STORAGE,
    VAULT,
    WORKSPACE,
)
from infra.rules.expected import (
    ANYTHING,
    OFF,
    ON,
    PRESENT,
    UNSET,
    Expected,
    Table,
    among,
    as_set,
    by_name,
    exactly,
    log_workspace,
    one_of,
    only_if,
    optional,
    shown,
    table_rule,
)
from infra.rules.network import PRIVATE_ENDPOINT, is_network, zones_of
from infra.settings import Settings

BLOBS = "storage:BlobServiceProperties"
FILES = "storage:FileServiceProperties"
AGEING = "storage:ManagementPolicy"
FLOW_LOG = "network:FlowLog"
DIAGNOSTICS = "monitor:DiagnosticSetting"

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

NO_PUBLIC_ENDPOINT = table_rule(
    "no-public-endpoint",
    "Workspace, registry, vault and storage are reachable through private endpoints only. In the "
    "allowlisted profile the workspace has a public endpoint with Entra sign-in, and storage is "
    "open to the listed addresses.",
    "Disable public access, or choose the network profile that allows it.",
    {
        CONTAINER: {"publicAccess": exactly("None")},
        WORKSPACE: {
            "publicNetworkAccess": as_set(lambda s: "Enabled" if s.public else "Disabled"),
            "sharedPrivateLinkResources": UNSET,
        },
        VAULT: {
            "properties.publicNetworkAccess": exactly("Disabled"),
            "properties.networkAcls.defaultAction": exactly("Deny"),
            "properties.networkAcls.bypass": one_of("AzureServices", "None"),
            "properties.networkAcls.ipRules": UNSET,
            "properties.networkAcls.virtualNetworkRules": UNSET,
        },
        REGISTRY: {
            "publicNetworkAccess": exactly("Disabled"),
            "networkRuleBypassOptions": one_of("AzureServices", "None"),
            "networkRuleSet": UNSET,
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
            "networkRuleSet.virtualNetworkRules": UNSET,
            "networkRuleSet.resourceAccessRules": UNSET,
        },
        LOGS: {"publicNetworkAccessForIngestion": LOGGED, **QUERIED},
        INSIGHTS: {"publicNetworkAccessForIngestion": REPORTED, **QUERIED},
    },
)

NODES_WITHOUT_PUBLIC_ADDRESS = table_rule(
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
    groups = [one.group for one in settings.endpoint_kinds.values()]
    return tuple(sorted(frozenset().union(*(zones_of(group) for group in groups))))


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
    found = [
        (str((one.get("remoteVirtualNetwork") or {}).get("id")).lower(), one["useRemoteGateways"])
        for one in given
        if isinstance(one.get("useRemoteGateways"), bool)
    ]
    return len(found) == len(given) and sorted(found) == sorted(_peers(settings).items())


OWN_NETWORK = table_rule(
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
            "subnets[].delegations": UNSET,
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
        PRIVATE_ENDPOINT: {"manualPrivateLinkServiceConnections": UNSET},
    },
)

NO_KEYS = table_rule(
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
            "properties.accessPolicies": UNSET,
            "properties.enabledForDeployment": OFF,
            "properties.enabledForDiskEncryption": OFF,
            "properties.enabledForTemplateDeployment": OFF,
        },
        WORKSPACE: {"systemDatastoresAuthMode": exactly("Identity")},
        COMPUTE: {
            "properties.disableLocalAuth": ON,
            "properties.properties.userAccountCredentials": UNSET,
        },
        DATASTORE: {
            "properties.credentials.credentialsType": exactly("None"),
            "properties.serviceDataAccessAuthIdentity": exactly("WorkspaceUserAssignedIdentity"),
        },
        LOGS: {"features.disableLocalAuth": ON},
        INSIGHTS: {"disableLocalAuth": ON},
    },
)

TLS = table_rule(
    "tls-1-2",
    "Storage accounts accept only HTTPS with TLS 1.2 or later, and datastores use HTTPS; no other "
    "service here offers a choice.",
    "Set minimumTlsVersion, enableHttpsTrafficOnly and the datastore's protocol.",
    {
        STORAGE: {"minimumTlsVersion": exactly("TLS1_2"), "enableHttpsTrafficOnly": ON},
        DATASTORE: {"properties.protocol": exactly("https")},
    },
)

PRINCIPAL_TYPES = table_rule(
    "principal-types",
    "Every role assignment sets principalType.",
    "Set it: without it, assigning a role to a new identity can fail with PrincipalNotFound.",
    {ASSIGNMENT: {"principalType": one_of("ServicePrincipal", "Group")}},
)

ENCRYPTED = table_rule(
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
            "encryption.keyVaultProperties.keyVersion": UNSET,
            "encryption.encryptionIdentity.encryptionUserAssignedIdentity": UNSET,
            "identity.userAssignedIdentities": UNSET,
        },
        REGISTRY: {"identity.userAssignedIdentities": UNSET},
        WORKSPACE: {"encryption.identity.userAssignedIdentity": UNSET},
    },
)

RECOVERABLE = table_rule(
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
            "properties.createMode": UNSET,
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

OWN_REGION = table_rule(
    "own-region",
    "Data, images, logs and nodes are in the region of the stack's settings.",
    "Deploy another stack for another region.",
    {kind: {"location": HERE} for kind in (STORAGE, REGISTRY, VAULT, WORKSPACE, LOGS, COMPUTE)},
)

NO_COPIES = table_rule(
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
        DIAGNOSTICS: {
            "storageAccountId": UNSET,
            "eventHubAuthorizationRuleId": UNSET,
            "marketplacePartnerId": UNSET,
            "workspaceId": by_name(log_workspace),
        },
        WORKSPACE: {
            "applicationInsights": only_if(
                lambda s: s.monitoring.application_insights, by_name(lambda s: s.names.insights)
            ),
        },
        FLOW_LOG: {
            "storageId": as_set(lambda s: s.network.flow_logs_to or ""),
            "enabled": ON,
        },
        INSIGHTS: {"workspaceResourceId": by_name(log_workspace)},
    },
)

HIGH_BUSINESS_IMPACT = table_rule(
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

CLUSTERS_REST_AT_ZERO = table_rule(
    "clusters-rest-at-zero",
    "Every cluster scales down to zero nodes.",
    "Set minNodeCount to 0; an idle node is billed by the hour.",
    {COMPUTE: {"properties.properties.scaleSettings.minNodeCount": exactly(0)}},
)

DEFAULT: Final = exactly("default")


def given(paths: str) -> dict[str, Expected]:
    """Expect any value at each of some paths."""
    return dict.fromkeys(paths.split(), ANYTHING)


def elsewhere(paths: str) -> dict[str, Expected]:
    """Know inputs that a rule on several inputs or resources decides on."""
    return dict.fromkeys(paths.split(), optional(ANYTHING))


TABLE: Final[Table] = {
    ASSIGNMENT: {
        **given("roleAssignmentName"),
        **elsewhere("condition principalId roleDefinitionId scope"),
        "conditionVersion": optional(exactly("2.0")),
    },
    CONTAINER: {"containerName": one_of("raw", "prepared", "results")},
    COMPUTE: {
        **given("computeName"),
        **elsewhere(
            "identity properties.properties.scaleSettings.maxNodeCount "
            "properties.properties.scaleSettings.nodeIdleTimeBeforeScaleDown "
            "properties.properties.vmPriority properties.properties.vmSize"
        ),
        "properties.computeLocation": as_set(lambda s: s.location),
        "properties.computeType": exactly("AmlCompute"),
        "properties.properties.isolatedNetwork": OFF,
        "properties.properties.osType": exactly("Linux"),
        "properties.properties.subnet.id": only_if(lambda s: s.nodes is None, optional(ANYTHING)),
    },
    DATASTORE: {
        **given("properties.resourceGroup"),
        "name": one_of("training_data_raw", "training_data_prepared", "training_data_results"),
        "properties.containerName": one_of("raw", "prepared", "results"),
        "properties.datastoreType": exactly("AzureBlob"),
        "properties.subscriptionId": among(
            lambda s: (s.subscription.id, *(id_.split("/")[2] for id_ in named_in(s))),
            "the stack's or that of a service in its settings",
        ),
    },
    GROUP: {},
    IDENTITY: given("resourceName"),
    INSIGHTS: {
        **given("resourceName"),
        "applicationType": exactly("web"),
        "flowType": exactly("Bluefield"),
        "ingestionMode": exactly("LogAnalytics"),
        "kind": exactly("web"),
        "requestSource": exactly("rest"),
    },
    LOGS: {
        **given("workspaceName"),
        "features.enableLogAccessUsingOnlyResourcePermissions": ON,
        "sku.name": exactly("PerGB2018"),
    },
    NETWORK: {
        **given("virtualNetworkName virtualNetworkPeerings[].name"),
        **elsewhere(
            "virtualNetworkPeerings[].remoteVirtualNetwork.id "
            "virtualNetworkPeerings[].useRemoteGateways subnets[].addressPrefix "
            "subnets[].defaultOutboundAccess subnets[].name subnets[].natGateway.id "
            "subnets[].networkSecurityGroup.id subnets[].privateEndpointNetworkPolicies "
            "subnets[].routeTable.id subnets[].serviceEndpointPolicies "
            "subnets[].serviceEndpoints"
        ),
        "addressSpace.addressPrefixes": PRESENT,
        "subnets": PRESENT,
        "enableDdosProtection": OFF,
        "enableVmProtection": OFF,
        "subnets[].privateLinkServiceNetworkPolicies": exactly("Disabled"),
        "virtualNetworkPeerings[].allowForwardedTraffic": ON,
        "virtualNetworkPeerings[].allowVirtualNetworkAccess": ON,
    },
    REGISTRY: {
        **given("registryName"),
        "dataEndpointEnabled": ON,
        "policies.quarantinePolicy.status": exactly("disabled"),
        "policies.retentionPolicy.status": exactly("enabled"),
        "sku.name": exactly("Premium"),
        "zoneRedundancy": as_set(lambda s: "Enabled" if s.registry.zone_redundant else "Disabled"),
    },
    STORAGE: {
        **given("accountName"),
        "accessTier": optional(exactly("Hot")),
        "encryption.services.blob.keyType": exactly("Account"),
        "encryption.services.file.keyType": optional(exactly("Account")),
        "isHnsEnabled": OFF,
        "kind": one_of("BlockBlobStorage", "StorageV2"),
        "networkRuleSet.ipRules[].action": exactly("Allow"),
        "sasPolicy.expirationAction": exactly("Log"),
        "sku.name": among(
            lambda s: (
                f"Standard_{s.storage.default_redundancy}",
                f"Premium_{s.storage.data_redundancy}",
            ),
            "of the redundancy of the stack's settings",
        ),
    },
    VAULT: {
        **given("vaultName"),
        **elsewhere("properties.enablePurgeProtection"),
        "properties.sku.family": exactly("A"),
        "properties.sku.name": exactly("standard"),
    },
    WORKSPACE: {
        **given("friendlyName workspaceName"),
        **elsewhere("identity imageBuildCompute primaryUserAssignedIdentity"),
        "kind": exactly("Default"),
        "managedNetwork.enableNetworkMonitor": OFF,
        "serverlessComputeSettings.serverlessComputeCustomSubnet": only_if(
            lambda s: s.nodes is None, ANYTHING
        ),
        "sku": exactly({"name": "Basic", "tier": "Basic"}),
    },
    "monitor:DiagnosticSetting": {
        **given("name resourceUri"),
        **elsewhere("logs"),
        "metrics[].category": optional(one_of("AllMetrics", "Transaction")),
        "metrics[].enabled": optional(ON),
    },
    "network:FlowLog": {
        **given("flowLogName targetResourceId"),
        "format": exactly({"type": "JSON", "version": 2}),
        "networkWatcherName": as_set(lambda s: f"NetworkWatcher_{s.location}"),
    },
    "network:NatGateway": {
        **given("natGatewayName"),
        **elsewhere("publicIpAddresses"),
        "idleTimeoutInMinutes": exactly(10),
        "sku.name": exactly("Standard"),
    },
    "network:NetworkSecurityGroup": {
        **given(
            "networkSecurityGroupName securityRules[].name securityRules[].priority "
            "securityRules[].protocol"
        ),
        **elsewhere(
            "securityRules[].access securityRules[].description "
            "securityRules[].destinationAddressPrefix "
            "securityRules[].destinationAddressPrefixes "
            "securityRules[].destinationPortRange securityRules[].destinationPortRanges "
            "securityRules[].direction securityRules[].sourceAddressPrefix "
            "securityRules[].sourceAddressPrefixes"
        ),
        "securityRules[].sourcePortRange": exactly("*"),
    },
    "network:PrivateDnsZoneGroup": {
        **given("privateDnsZoneConfigs[].name privateEndpointName"),
        "privateDnsZoneConfigs": PRESENT,
        "privateDnsZoneGroupName": DEFAULT,
    },
    "network:PrivateEndpoint": {
        **given("customNetworkInterfaceName privateEndpointName"),
        **elsewhere("privateLinkServiceConnections subnet"),
    },
    "network:PublicIPAddress": {
        **given("publicIpAddressName"),
        "publicIPAllocationMethod": exactly("Static"),
        "sku.name": exactly("Standard"),
    },
    "network:ServiceEndpointPolicy": {
        **given("serviceEndpointPolicyName"),
        "serviceEndpointPolicyDefinitions": PRESENT,
        "serviceEndpointPolicyDefinitions[].name": one_of("machine-learning", "own-accounts"),
        "serviceEndpointPolicyDefinitions[].service": one_of("Global", "Microsoft.Storage"),
    },
    "privatedns:PrivateZone": {},
    "privatedns:VirtualNetworkLink": given("virtualNetworkLinkName"),
    "storage:BlobServiceProperties": {
        "blobServicesName": DEFAULT,
        "cors.corsRules[].allowedHeaders": exactly(["*"]),
        "cors.corsRules[].allowedMethods": exactly(
            ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "POST", "PATCH"]
        ),
        "cors.corsRules[].exposedHeaders": exactly(["*"]),
        "cors.corsRules[].maxAgeInSeconds": exactly(1800),
        "isVersioningEnabled": OFF,
    },
    "storage:FileServiceProperties": {"fileServicesName": DEFAULT},
    "storage:ManagementPolicy": {"managementPolicyName": DEFAULT},
}
"""What no rule on security, data or cost decides on, of the trunk. `given` and
`elsewhere` state that an input is known, and leave its value to other rules."""

AS_DECLARED = table_rule(
    "as-declared",
    "Tiers, kinds, formats and switches are those that the platform was reviewed with.",
    "Restore the input; or change the table of this rule, in a commit that says why.",
    TABLE,
)


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
        for one in fields(tree):
            yield from named_in(getattr(tree, one.name))
