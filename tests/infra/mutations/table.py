"""The table of mutations: what changes, and which rule must catch it.

`tests.infra.mutations.run` makes the mutations and holds the rules against them.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from infra.catalog import roles

ELSEWHERE: Final = "/subscriptions/99999999-9999-9999-9999-999999999999/resourceGroups/elsewhere"
STRANGER: Final = "99999999-9999-9999-9999-999999999999"
IDENTITY: Final = f"{ELSEWHERE}/providers/Microsoft.ManagedIdentity/userAssignedIdentities/other"
STORAGE: Final = f"{ELSEWHERE}/providers/Microsoft.Storage/storageAccounts/elsewhere"
NETWORK: Final = f"{ELSEWHERE}/providers/Microsoft.Network/virtualNetworks/elsewhere"
SUBNET: Final = f"{NETWORK}/subnets/open"
LOGS: Final = f"{ELSEWHERE}/providers/Microsoft.OperationalInsights/workspaces/elsewhere"
VAULT: Final = f"{ELSEWHERE}/providers/Microsoft.KeyVault/vaults/elsewhere"
ACCESS_ADMINISTRATOR: Final = "18d7d88d-d35e-4fb5-a5c3-7773c20a72d9"
KEY: Final = "https://elsewhere.vault.azure.net/keys/key"


class Absent:
    """The input is removed."""


FLIP: Final = (False, True, Absent)
"""Values of a switch; the one that it has is left out."""

OPEN: Final = ("Enabled", Absent)
RETENTION: Final = (0, 1, Absent)
"""Shorter than any stack keeps deleted data or logs."""

INPUTS: Final[Mapping[str, Mapping[str, Mapping[str, tuple[Any, ...]]]]] = {
    "storage:StorageAccount": {
        "own-region": {"location": ("eastus", Absent)},
        "no-public-endpoint": {
            "networkRuleSet.defaultAction": ("Allow", Absent),
            "networkRuleSet.bypass": ("Logging", "AzureServices, Logging, Metrics"),
            "networkRuleSet.ipRules[].iPAddressOrRange": ("0.0.0.0/0", "20.0.0.0/8", "203.0.113.7"),
            "networkRuleSet.virtualNetworkRules": ([{"virtualNetworkResourceId": SUBNET}],),
            "networkRuleSet.resourceAccessRules": ([{"resourceId": LOGS, "tenantId": STRANGER}],),
        },
        "no-keys": {
            "allowSharedKeyAccess": FLIP,
            "allowBlobPublicAccess": FLIP,
            "isLocalUserEnabled": FLIP,
            "isSftpEnabled": FLIP,
            "isNfsV3Enabled": (True,),
            "defaultToOAuthAuthentication": FLIP,
        },
        "tls-1-2": {
            "minimumTlsVersion": ("TLS1_0", "TLS1_1", Absent),
            "enableHttpsTrafficOnly": FLIP,
        },
        "encrypted": {
            "encryption.requireInfrastructureEncryption": FLIP,
            "encryption.keySource": ("Microsoft.Storage", "Microsoft.Keyvault", Absent),
            "encryption.services.blob.enabled": FLIP,
            "identity.userAssignedIdentities": ([IDENTITY],),
        },
        "no-copies-outside": {
            "allowCrossTenantReplication": FLIP,
            "allowedCopyScope": ("All", Absent),
            "sasPolicy.sasExpirationPeriod": ("365.00:00:00", Absent),
        },
        "only-reviewed": {"immutableStorageWithVersioning.enabled": (True,)},
        "own-services": {
            "encryption.keyVaultProperties.keyVaultUri": ("https://elsewhere.vault.azure.net/",),
        },
    },
    "storage:BlobContainer": {
        "no-public-endpoint": {"publicAccess": ("Blob", "Container", Absent)},
        "own-services": {"accountName": ("elsewhere",)},
    },
    "storage:BlobServiceProperties": {
        "recoverable": {
            "deleteRetentionPolicy.enabled": FLIP,
            "deleteRetentionPolicy.days": RETENTION,
            "deleteRetentionPolicy.allowPermanentDelete": (True,),
            "containerDeleteRetentionPolicy.enabled": FLIP,
            "containerDeleteRetentionPolicy.days": RETENTION,
        },
        "no-copies-outside": {
            "cors.corsRules[].allowedOrigins": (["*"], ["https://elsewhere.example"]),
        },
    },
    "storage:FileServiceProperties": {
        "recoverable": {
            "shareDeleteRetentionPolicy.enabled": FLIP,
            "shareDeleteRetentionPolicy.days": RETENTION,
        },
        "only-reviewed": {"protocolSettings.smb.versions": ("SMB2.1",)},
    },
    "storage:ManagementPolicy": {
        "recoverable": {
            "policy.rules[].definition.filters.prefixMatch": ([""], ["prepared/"], Absent),
            "policy.rules[].definition.actions.baseBlob.delete.daysAfterModificationGreaterThan": (
                0,
                1,
            ),
        },
    },
    "containerregistry:Registry": {
        "own-region": {"location": ("eastus", Absent)},
        "no-public-endpoint": {
            "publicNetworkAccess": OPEN,
            "networkRuleSet": ({"defaultAction": "Allow"},),
        },
        "no-keys": {"adminUserEnabled": FLIP, "anonymousPullEnabled": FLIP},
        "no-copies-outside": {"policies.exportPolicy.status": ("enabled", Absent)},
        "recoverable": {"policies.retentionPolicy.days": (0, 1)},
        "encrypted": {
            "identity.userAssignedIdentities": ({IDENTITY: {}},),
        },
        "customer-managed-key": {"encryption.status": ("disabled", Absent)},
        "only-reviewed": {"policies.softDeletePolicy.status": ("disabled",)},
        "own-services": {
            "encryption.keyVaultProperties.keyIdentifier": (KEY,),
        },
    },
    "keyvault:Vault": {
        "own-region": {"location": ("eastus", Absent)},
        "no-public-endpoint": {
            "properties.publicNetworkAccess": OPEN,
            "properties.networkAcls.defaultAction": ("Allow", Absent),
            "properties.networkAcls.ipRules": ([{"value": "20.0.0.0/8"}],),
            "properties.networkAcls.virtualNetworkRules": ([{"id": SUBNET}],),
        },
        "no-keys": {
            "properties.enableRbacAuthorization": FLIP,
            "properties.accessPolicies": ([{"objectId": STRANGER, "tenantId": STRANGER}],),
            "properties.tenantId": (STRANGER,),
            "properties.enabledForDeployment": FLIP,
            "properties.enabledForDiskEncryption": FLIP,
            "properties.enabledForTemplateDeployment": FLIP,
        },
        "recoverable": {
            "properties.enableSoftDelete": FLIP,
            "properties.softDeleteRetentionInDays": RETENTION,
            "properties.createMode": ("recover",),
        },
        "purge-protection": {"properties.enablePurgeProtection": FLIP},
    },
    "keyvault:Key": {
        "encrypted": {
            "properties.kty": ("EC", Absent),
            "properties.keySize": (1024, 2048, Absent),
            "properties.keyOps": (["sign"], ["wrapKey", "unwrapKey", "decrypt"]),
            "properties.attributes.exportable": (True,),
            "properties.rotationPolicy.lifetimeActions[].action.type": ("notify", Absent),
        },
    },
    "machinelearningservices:Workspace": {
        "own-region": {"location": ("eastus", Absent)},
        "high-business-impact": {
            "hbiWorkspace": FLIP,
            "v1LegacyMode": FLIP,
            "managedNetwork.isolationMode": ("AllowInternetOutbound", Absent),
            "enableDataIsolation": FLIP,
        },
        "no-public-endpoint": {
            "publicNetworkAccess": ("Enabled", "Disabled", Absent),
            "sharedPrivateLinkResources": ([{"name": "out", "privateLinkResourceId": STORAGE}],),
        },
        "no-keys": {"systemDatastoresAuthMode": ("AccessKey", "UserDelegationSAS", Absent)},
        "nodes-without-public-address": {
            "serverlessComputeSettings.serverlessComputeNoPublicIP": FLIP
        },
        "nodes-in-their-subnet": {
            "serverlessComputeSettings.serverlessComputeCustomSubnet": (SUBNET, Absent)
        },
        "no-copies-outside": {},
        "identity-of-duty": {
            "identity.type": ("SystemAssigned", "SystemAssigned,UserAssigned"),
            "identity.userAssignedIdentities": ([IDENTITY], Absent),
            "primaryUserAssignedIdentity": (IDENTITY, Absent),
            "imageBuildCompute": ("gpu", Absent),
        },
        "encrypted": {
            "encryption.identity.userAssignedIdentity": (IDENTITY,),
        },
        "customer-managed-key": {"encryption.status": ("Disabled", Absent)},
        "only-reviewed": {
            "ipAllowlist": (["0.0.0.0/0"],),
            "allowRoleAssignmentOnRG": (True,),
            "featureStoreSettings.computeRuntime": ({"sparkRuntimeVersion": "3"},),
        },
        "own-services": {
            "storageAccount": (STORAGE, Absent),
            "keyVault": (VAULT, Absent),
            "containerRegistry": (f"{ELSEWHERE}/registries/elsewhere", Absent),
            "encryption.keyVaultProperties.keyIdentifier": (KEY,),
            "encryption.keyVaultProperties.keyVaultArmId": (VAULT,),
        },
    },
    "machinelearningservices:Compute": {
        "own-region": {"location": ("eastus", Absent)},
        "no-keys": {
            "properties.disableLocalAuth": FLIP,
            "properties.properties.userAccountCredentials": ({"adminUserName": "root"},),
        },
        "nodes-without-public-address": {
            "properties.properties.enableNodePublicIp": FLIP,
            "properties.properties.remoteLoginPortPublicAccess": ("Enabled", Absent),
        },
        "nodes-in-their-subnet": {"properties.properties.subnet.id": (SUBNET, Absent)},
        "clusters-as-set": {
            "properties.properties.scaleSettings.maxNodeCount": (500, Absent),
            "properties.properties.vmSize": ("Standard_ND96asr_v4", Absent),
            "properties.properties.vmPriority": ("Dedicated", "LowPriority", Absent),
        },
        "clusters-rest-at-zero": {
            "properties.properties.scaleSettings.minNodeCount": (1, Absent),
            "properties.properties.scaleSettings.nodeIdleTimeBeforeScaleDown": (
                "P1D",
                "120",
                Absent,
            ),
        },
        "identity-of-duty": {
            "identity.userAssignedIdentities": ([IDENTITY], Absent),
            "identity.type": ("SystemAssigned", "None"),
        },
        "only-reviewed": {"properties.properties.virtualMachineImage.id": (STORAGE,)},
    },
    "machinelearningservices:Datastore": {
        "no-keys": {
            "properties.credentials.credentialsType": ("AccountKey", "Sas", Absent),
            "properties.serviceDataAccessAuthIdentity": ("None", Absent),
        },
        "tls-1-2": {"properties.protocol": ("http",)},
        "no-copies-outside": {
            "properties.endpoint": ("elsewhere.example",),
        },
        "own-services": {
            "properties.accountName": ("elsewhere",),
        },
    },
    "operationalinsights:Workspace": {
        "own-region": {"location": ("eastus", Absent)},
        "no-public-endpoint": {
            "publicNetworkAccessForIngestion": ("Enabled", "Disabled", Absent),
            "publicNetworkAccessForQuery": ("Disabled", Absent),
        },
        "no-keys": {"features.disableLocalAuth": FLIP},
        "recoverable": {
            "retentionInDays": (7, Absent),
            "workspaceCapping.dailyQuotaGb": (0.023,),
        },
        "only-reviewed": {"features.immediatePurgeDataOn30Days": (True,)},
    },
    "applicationinsights:Component": {
        "no-keys": {"disableLocalAuth": FLIP},
        "no-public-endpoint": {"publicNetworkAccessForIngestion": ("Enabled", "Disabled", Absent)},
        "no-copies-outside": {"workspaceResourceId": (LOGS, Absent)},
    },
    "monitor:PrivateLinkScopedResource": {"no-copies-outside": {"linkedResourceId": (LOGS,)}},
    "monitor:DiagnosticSetting": {
        "no-copies-outside": {
            "workspaceId": (LOGS, Absent),
            "storageAccountId": (STORAGE,),
            "eventHubAuthorizationRuleId": (f"{ELSEWHERE}/eventhubs/elsewhere",),
        },
        "diagnostics": {
            "logs": ([], [{"category": "Other", "enabled": True}]),
            "logs[].enabled": FLIP,
            "resourceUri": (STORAGE,),
        },
    },
    "monitor:ActionGroup": {
        "alerts": {
            "enabled": FLIP,
            "emailReceivers": ([], [{"name": "x", "emailAddress": "stranger@example.net"}]),
        },
        "only-reviewed": {"webhookReceivers": ([{"serviceUri": "https://elsewhere.example"}],)},
    },
    "monitor:ScheduledQueryRule": {
        "alerts-on": {
            "enabled": FLIP,
            "severity": (4, Absent),
            "evaluationFrequency": ("P1D", Absent),
            "muteActionsDuration": ("P1D",),
            "scopes": ([LOGS],),
            "criteria.allOf[].failingPeriods.minFailingPeriodsToAlert": (6,),
        },
        "alerts": {
            "actions.actionGroups": ([], [f"{ELSEWHERE}/actionGroups/other"], Absent),
            "criteria.allOf[].threshold": (1_000_000, Absent),
            "criteria.allOf[].operator": ("LessThan", Absent),
            "criteria.allOf[].timeAggregation": ("Minimum",),
            "criteria.allOf[].metricMeasureColumn": ("Other",),
            "criteria.allOf[].query": ("AmlRunStatusChangedEvent | where false", Absent),
        },
    },
    "consumption:Budget": {
        "budget-present": {
            "amount": (1_000_000, Absent),
            "timeGrain": ("Annually", Absent),
            "timePeriod.endDate": ("2027-01-01T00:00:00Z",),
            "filter": ({"tags": {"name": "team", "values": ["other"]}},),
            "scope": (ELSEWHERE,),
            "notifications": ({}, Absent),
            "notifications.*.enabled": FLIP,
            "notifications.*.threshold": (1000, Absent),
            "notifications.*.operator": ("LessThan", Absent),
            "notifications.*.contactEmails": ([], ["stranger@example.net"]),
        },
    },
    "authorization:RoleAssignment": {
        "no-owner": {
            "roleDefinitionId": (
                f"/roleDefinitions/{roles.OWNER}",
                f"/roleDefinitions/{ACCESS_ADMINISTRATOR}",
                f"/roleDefinitions/{roles.BLOB_DATA_OWNER}",
            ),
        },
        "principal-types": {"principalType": (Absent, "User")},
        "least-privilege": {
            "scope": (
                f"/subscriptions/{STRANGER}",
                ELSEWHERE,
                STORAGE,
                "/",
            ),
            "principalId": (STRANGER,),
            "condition": (Absent, "@Resource[x] StringEquals 'y'"),
        },
    },
    "network:VirtualNetwork": {
        "closed-subnets": {
            "subnets[].networkSecurityGroup": (
                Absent,
                {"id": f"{ELSEWHERE}/networkSecurityGroups/open"},
            ),
            "subnets[].defaultOutboundAccess": FLIP,
            "subnets[].addressPrefix": ("10.0.0.0/8",),
            "subnets[].serviceEndpointPolicies": (Absent, [{"id": f"{ELSEWHERE}/policies/open"}]),
            "subnets[].serviceEndpoints": ([{"service": "Microsoft.Sql"}],),
            "subnets[].natGateway": ({"id": f"{ELSEWHERE}/natGateways/elsewhere"},),
            "subnets[].privateEndpointNetworkPolicies": ("Enabled", Absent),
        },
        "own-network": {
            "addressSpace.addressPrefixes": (["10.0.0.0/8"], ["10.64.0.0/23", "172.16.0.0/12"]),
            "virtualNetworkPeerings[].remoteVirtualNetwork.id": (NETWORK,),
            "virtualNetworkPeerings[].allowGatewayTransit": FLIP,
            "virtualNetworkPeerings[].useRemoteGateways": FLIP,
            "dhcpOptions.dnsServers": (["8.8.8.8"],),
            "subnets[].routeTable": ({"id": f"{ELSEWHERE}/routeTables/elsewhere"},),
            "subnets[].delegations": ([{"serviceName": "Microsoft.Web/serverFarms"}],),
        },
    },
    "network:NetworkSecurityGroup": {
        "closed-network-rules": {
            "securityRules[].access": ("Allow",),
            "securityRules[].sourceAddressPrefix": ("Internet", "0.0.0.0/1", "20.0.0.0/8", "*"),
            "securityRules[].destinationAddressPrefix": ("Internet", "Storage", "10.0.0.0/8"),
            "securityRules[].sourceAddressPrefixes": (["20.0.0.0/8", "10.0.0.0/8"],),
            "securityRules[].destinationPortRange": ("*", "0-65535"),
            "securityRules": ([],),
        },
        "only-reviewed": {"securityRules[].sourceApplicationSecurityGroups": ([{"id": NETWORK}],)},
    },
    "network:PrivateEndpoint": {
        "private-endpoints": {
            "subnet.id": (SUBNET,),
            "privateLinkServiceConnections[].privateLinkServiceId": (STORAGE, Absent),
            "privateLinkServiceConnections[].groupIds": (["queue"], []),
        },
        "own-network": {
            "manualPrivateLinkServiceConnections": ([{"privateLinkServiceId": STORAGE}],)
        },
    },
    "network:PrivateDnsZoneGroup": {
        "own-network": {
            "privateDnsZoneConfigs[].privateDnsZoneId": (
                f"{ELSEWHERE}/providers/Microsoft.Network/privateDnsZones/elsewhere.example",
                Absent,
            )
        },
    },
    "network:ServiceEndpointPolicy": {
        "own-services": {
            "serviceEndpointPolicyDefinitions[].serviceResources": (
                [STORAGE],
                ["/subscriptions/00000000-0000-0000-0000-000000000000"],
                [ELSEWHERE],
            )
        },
    },
    "network:FlowLog": {
        "no-copies-outside": {"storageId": (STORAGE, Absent), "enabled": FLIP},
    },
    "network:NatGateway": {"no-public-address": {"publicIpAddresses": ([],)}},
    "privatedns:PrivateZone": {"own-network": {"privateZoneName": ("example.com",)}},
    "privatedns:VirtualNetworkLink": {
        "own-network": {"registrationEnabled": FLIP, "virtualNetwork.id": (NETWORK, Absent)},
    },
    "monitor:PrivateLinkScope": {
        "own-network": {"accessModeSettings.queryAccessMode": ("PrivateOnly", Absent)}
    },
    "resources:ResourceGroup": {"required-tags": {"tags": ({}, {"owner": ""}, Absent)}},
}
"""Values that an input is set to, by kind of resource, by the rule that must catch it, and by path.
A value that the input has already is no mutation."""

REMOVED: Final = {
    "consumption:Budget": "budget-present",
    "monitor:ScheduledQueryRule": "alerts",
    "monitor:ActionGroup": "alerts",
    "monitor:DiagnosticSetting": "diagnostics",
    "network:PrivateEndpoint": "private-endpoints",
    "network:NatGateway": "no-public-address",
}
"""Resources that guard something, and the rule that must miss them."""

PROTECTED: Final = (
    "storage:StorageAccount",
    "keyvault:Vault",
    "containerregistry:Registry",
    "machinelearningservices:Workspace",
)
"""Resources whose protect option is switched off."""

ADDED: Final[Sequence[tuple[str, str, Mapping[str, Any]]]] = (
    ("no-public-address", "network:PublicIPAddress", {"publicIpAddressName": "open"}),
    ("jump-machine-entra-only", "network:BastionHost", {"bastionHostName": "open"}),
    ("jump-machine-off-at-night", "compute:VirtualMachine", {"vmName": "open"}),
    ("only-reviewed", "network:VirtualNetworkPeering", {"remoteVirtualNetwork": {"id": NETWORK}}),
    ("only-reviewed", "network:SecurityRule", {"access": "Allow", "direction": "Inbound"}),
    ("only-reviewed", "network:Subnet", {"name": "open"}),
    ("only-reviewed", "storage:LocalUser", {"username": "stranger"}),
    ("only-reviewed", "storage:ObjectReplicationPolicy", {"destinationAccount": STORAGE}),
    ("only-reviewed", "keyvault:Secret", {"secretName": "password"}),
    ("only-reviewed", "containerregistry:ScopeMap", {"actions": ["repositories/x/content/read"]}),
    ("only-reviewed", "containerregistry:Token", {"status": "enabled"}),
    ("only-reviewed", "managedidentity:FederatedIdentityCredential", {"subject": "repo:x/y"}),
    ("only-reviewed", "authorization:RoleDefinition", {"permissions": [{"actions": ["*"]}]}),
    ("only-reviewed", "machinelearningservices:WorkspaceConnection", {"connectionName": "out"}),
    ("only-reviewed", "machinelearningservices:OnlineEndpoint", {"endpointName": "open"}),
    ("closed-network-rules", "network:NetworkSecurityGroup", {"networkSecurityGroupName": "open"}),
    (
        "identity-of-duty",
        "machinelearningservices:Compute",
        {"computeName": "extra", "identity": {"userAssignedIdentities": [IDENTITY]}},
    ),
    ("no-group-lock", "authorization:ManagementLockByScope", {"scope": ELSEWHERE}),
)
"""Resources that are added: the rule that must catch each, its kind and its inputs."""
