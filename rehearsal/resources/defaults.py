"""What Azure fills in about each kind of resource, from recorded calls (docs/tested.md)."""

from collections.abc import Mapping
from typing import Any, Final

from rehearsal.control_plane.defaults import Defaults, Each, Versioned

_ML: Final = "Microsoft.MachineLearningServices/workspaces"
_NETWORK: Final = "Microsoft.Network"
_2021: Final = "2021-01-01"
_2022: Final = "2022-01-01"
_2024: Final = "2024-01-01"
_2025: Final = "2025-01-01"


def _properties(**defaults: Any) -> Defaults:
    return {"properties": defaults}


def _rule(
    name: str, direction: str, access: str, priority: int, source: str, to: str
) -> dict[str, Any]:
    """Return one of the rules that each security group has."""
    ranges = ("sourcePortRange", "destinationPortRange")
    lists = ("sourceAddressPrefixes", "destinationAddressPrefixes", *(f"{key}s" for key in ranges))
    return {
        "name": name,
        "properties": {
            "description": f"Default rule {name}",
            "protocol": "*",
            **dict.fromkeys(ranges, "*"),
            "sourceAddressPrefix": source,
            "destinationAddressPrefix": to,
            "access": access,
            "priority": priority,
            "direction": direction,
            **{key: [] for key in lists},
        },
    }


_RULES: Final = [
    _rule("AllowVnetInBound", "Inbound", "Allow", 65000, "VirtualNetwork", "VirtualNetwork"),
    _rule("AllowAzureLoadBalancerInBound", "Inbound", "Allow", 65001, "AzureLoadBalancer", "*"),
    _rule("DenyAllInBound", "Inbound", "Deny", 65500, "*", "*"),
    _rule("AllowVnetOutBound", "Outbound", "Allow", 65000, "VirtualNetwork", "VirtualNetwork"),
    _rule("AllowInternetOutBound", "Outbound", "Allow", 65001, "*", "Internet"),
    _rule("DenyAllOutBound", "Outbound", "Deny", 65500, "*", "*"),
]
_SUBNET: Final[Defaults] = {
    "delegations": Each(
        _properties(actions=["Microsoft.Network/virtualNetworks/subnets/join/action"]), absent=[]
    ),
    # Reported with 2020-07-01 as Enabled, and as Disabled later.
    "privateEndpointNetworkPolicies": (
        Versioned("Enabled", until="2020-11-01"),
        Versioned("Disabled"),
    ),
    "privateLinkServiceNetworkPolicies": "Enabled",
    "serviceEndpoints": Each({"locations": ["*"], "provisioningState": "Succeeded"}),
}
_APPROVED: Final[Defaults] = _properties(
    privateLinkServiceConnectionState={
        "status": "Approved",
        "description": "Auto-Approved",
        "actionsRequired": "None",
    }
)
_ASSET: Final[Defaults] = {
    "description": None,
    "tags": {},
    "properties": {},
    "isArchived": False,
    "isAnonymous": False,
}
_STAGE: Final = Versioned("Development", since="2023-06-01")
_SERVICE: Final[Defaults] = {
    "port": None,
    "endpoint": None,
    "status": None,
    "errorMessage": None,
    "properties": None,
    "nodes": None,
}
CLUSTER: Final[Defaults] = {
    "subnet": None,
    "osType": "Linux",
    "virtualMachineImage": None,
    "isolatedNetwork": False,
    "enableNodePublicIp": True,
    "enableBatchPrivateLink": False,
    "remoteLoginPortPublicAccess": "NotSpecified",
    "scaleSettings": {"nodeIdleTimeBeforeScaleDown": "PT2M"},
}
"""Of the properties of compute of type AmlCompute."""

JOB: Final[Defaults] = {
    "description": None,
    "tags": {},
    "properties": {},
    "isArchived": False,
    "identity": None,
    "componentId": None,
    "notificationSetting": None,
    "resources": {
        "instanceCount": 1,
        "instanceType": None,
        "properties": None,
        "shmSize": "2g",
        "dockerArgs": None,
    },
    "codeId": None,
    "inputs": {},
    "outputs": {"default": {"description": None}},
    "distribution": None,
    "limits": {"timeout": None, "jobLimitsType": "Command"},
    "environmentVariables": None,
    "parameters": {},
    "queueSettings": Versioned({"jobTier": "Null"}, since="2023-06-01"),
}
"""Defaults of the properties of a job."""
_FOREVER: Final = Versioned({"enabled": False, "days": 0}, since=_2021)
"""The retention of logs in a diagnostic setting, which Azure no longer applies."""
_RECEIVERS: Final = (
    "armRole",
    "automationRunbook",
    "azureAppPush",
    "azureFunction",
    "email",
    "itsm",
    "logicApp",
    "sms",
    "voice",
    "webhook",
)
"""Those of an action group, which notify in different ways."""
_DATASTORE: Final[Defaults] = {
    "description": None,
    "tags": None,
    "properties": None,
    "isDefault": False,
    "subscriptionId": None,
    "resourceGroup": None,
    "endpoint": "core.windows.net",
    "protocol": "https",
    "serviceDataAccessAuthIdentity": "None",
}

DEFAULTS: Final[Mapping[str, Defaults]] = {
    f"{_NETWORK}/virtualNetworks": _properties(
        enableDdosProtection=False,
        enableVmProtection=Versioned(False, until="2020-08-01"),
        privateEndpointVNetPolicies=Versioned("Disabled", since=_2024),
        subnets=Each({"properties": _SUBNET}, absent=[]),
        virtualNetworkPeerings=[],
    ),
    f"{_NETWORK}/virtualNetworks/subnets": {"properties": _SUBNET},
    f"{_NETWORK}/networkSecurityGroups": _properties(securityRules=[], defaultSecurityRules=_RULES),
    f"{_NETWORK}/publicIPAddresses": {
        "sku": {"name": "Basic", "tier": Versioned("Regional", since="2020-07-01")},
        **_properties(
            publicIPAllocationMethod="Dynamic",
            idleTimeoutInMinutes=4,
            ipTags=[],
            publicIPAddressVersion="IPv4",
            ddosSettings=Versioned({"protectionMode": "VirtualNetworkInherited"}, since=_2024),
        ),
    },
    f"{_NETWORK}/networkInterfaces": {
        "kind": Versioned("Regular", since=_2022),
        **_properties(
            dnsSettings={
                "dnsServers": [],
                "appliedDnsServers": [],
                "internalDomainNameSuffix": "internal.cloudapp.net",
            },
            enableAcceleratedNetworking=False,
            enableIPForwarding=False,
            vnetEncryptionSupported=Versioned(False, since="2020-11-01"),
            hostedWorkloads=Versioned([], since="2020-11-01"),
            tapConfigurations=Versioned([], since="2020-11-01"),
            nicType=Versioned("Standard", since="2020-11-01"),
            allowPort25Out=Versioned(True, since=_2022),
            auxiliaryMode=Versioned("None", since=_2022),
            ipConfigurations=Each(
                _properties(
                    primary=True, privateIPAddress="10.0.0.4", privateIPAddressVersion="IPv4"
                )
            ),
        ),
    },
    f"{_NETWORK}/bastionHosts": {
        "sku": {"name": "Basic"},
        **_properties(
            scaleUnits=2,
            ipConfigurations=Each(_properties(privateIPAllocationMethod="Dynamic")),
        ),
    },
    f"{_NETWORK}/natGateways": {
        "sku": {"tier": "Regional"},
        **_properties(
            idleTimeoutInMinutes=4,
            type=Versioned("Public", since=_2024, until=_2025),
            scope=Versioned("Public", since=_2025),
            privateIPAddresses=Versioned([], since=_2025),
            privateIPAddressesV6=Versioned([], since=_2025),
        ),
    },
    f"{_NETWORK}/privateEndpoints": _properties(
        customDnsConfigs=[],
        customNetworkInterfaceName=Versioned("", since=_2022),
        ipConfigurations=Versioned([], since=_2022),
        isIPv6EnabledPrivateEndpoint=Versioned(False, since=_2024, until=_2025),
        ipVersionType=Versioned("IPv4", since=_2025),
        privateLinkServiceConnections=Each(_APPROVED, absent=[]),
        manualPrivateLinkServiceConnections=Each(
            _properties(
                privateLinkServiceConnectionState={
                    "status": "Pending",
                    "description": "Awaiting Approval",
                    "actionsRequired": "None",
                }
            ),
            absent=[],
        ),
    ),
    f"{_NETWORK}/privateEndpoints/privateDnsZoneGroups": _properties(
        privateDnsZoneConfigs=Each(_properties(recordSets=[]), absent=[])
    ),
    f"{_NETWORK}/privateDnsZones": _properties(
        maxNumberOfRecordSets=25000,
        maxNumberOfVirtualNetworkLinks=1000,
        maxNumberOfVirtualNetworkLinksWithRegistration=100,
        numberOfRecordSets=1,
        numberOfVirtualNetworkLinksWithRegistration=0,
    ),
    f"{_NETWORK}/privateDnsZones/virtualNetworkLinks": _properties(
        virtualNetworkLinkState="Completed", registrationEnabled=False
    ),
    "Microsoft.Storage/storageAccounts": {
        "tags": {},
        **_properties(
            supportsHttpsTrafficOnly=True,
            privateEndpointConnections=[],
            networkAcls={
                "bypass": "AzureServices",
                "defaultAction": "Allow",
                "ipRules": [],
                "virtualNetworkRules": [],
            },
            encryption={
                "keySource": "Microsoft.Storage",
                "services": {
                    service: {"enabled": True, "keyType": "Account"} for service in ("blob", "file")
                },
            },
        ),
    },
    "Microsoft.Storage/storageAccounts/blobServices": _properties(
        cors={"corsRules": []}, deleteRetentionPolicy={"enabled": False}
    ),
    "Microsoft.Storage/storageAccounts/blobServices/containers": _properties(
        publicAccess="None",
        leaseStatus="Unlocked",
        leaseState="Available",
        hasImmutabilityPolicy=False,
        hasLegalHold=False,
        legalHold={"hasLegalHold": False, "tags": []},
        defaultEncryptionScope="$account-encryption-key",
        denyEncryptionScopeOverride=False,
        deleted=False,
        remainingRetentionDays=0,
    ),
    "Microsoft.ContainerRegistry/registries": {
        "tags": {},
        **_properties(
            adminUserEnabled=False,
            dataEndpointEnabled=False,
            encryption={"status": "disabled"},
            networkRuleBypassOptions="AzureServices",
            policies={
                "quarantinePolicy": {"status": "disabled"},
                "trustPolicy": {"type": "Notary", "status": "disabled"},
                "retentionPolicy": {"days": 7, "status": "disabled"},
                "exportPolicy": Versioned({"status": "enabled"}, since=_2021),
            },
            privateEndpointConnections=[],
            publicNetworkAccess="Enabled",
            zoneRedundancy="Disabled",
        ),
    },
    "Microsoft.OperationalInsights/workspaces": _properties(
        retentionInDays=31,
        features={
            "legacy": 0,
            "searchVersion": 1,
            "enableLogAccessUsingOnlyResourcePermissions": True,
        },
        workspaceCapping={"dailyQuotaGb": -1.0, "dataIngestionStatus": "RespectQuota"},
        publicNetworkAccessForIngestion="Enabled",
        publicNetworkAccessForQuery="Enabled",
    ),
    "Microsoft.Insights/actionGroups": {
        "kind": None,
        "tags": None,
        "identity": Versioned(None, until=_2021),
        **_properties(
            **{f"{receiver}Receivers": [] for receiver in _RECEIVERS},
            eventHubReceivers=Versioned([], since=_2021),
        ),
    },
    "Microsoft.Insights/autoscaleSettings": _properties(
        enabled=True,
        notifications=None,
        predictiveAutoscalePolicy=Versioned(
            {"scaleMode": "Disabled", "scaleLookAheadTime": None}, since=_2022
        ),
        profiles=Each(
            {
                "rules": Each(
                    {
                        "metricTrigger": {
                            "metricNamespace": "",
                            "dividePerInstance": False,
                            "dimensions": None,
                        }
                    }
                )
            }
        ),
    ),
    "Microsoft.Insights/components": {
        "tags": {},
        **_properties(
            publicNetworkAccessForIngestion="Enabled", publicNetworkAccessForQuery="Enabled"
        ),
    },
    "Microsoft.Insights/diagnosticSettings": {
        **dict.fromkeys(("identity", "kind", "location", "tags")),
        **_properties(
            **dict.fromkeys(
                (
                    "eventHubAuthorizationRuleId",
                    "eventHubName",
                    "logAnalyticsDestinationType",
                    "serviceBusRuleId",
                    "workspaceId",
                )
            ),
            logs=Each({"category": None, "retentionPolicy": _FOREVER}, absent=[]),
            metrics=Each({"retentionPolicy": _FOREVER}, absent=[]),
        ),
    },
    "Microsoft.Insights/metricAlerts": _properties(actions=[]),
    "Microsoft.Insights/scheduledQueryRules": _properties(enabled=True),
    "Microsoft.Authorization/roleAssignments": _properties(
        condition=None,
        conditionVersion=None,
        delegatedManagedIdentityResourceId=None,
        description=None,
    ),
    "Microsoft.Authorization/roleDefinitions": _properties(
        description=None,
        permissions=Each(
            {"actions": [], "notActions": [], "dataActions": [], "notDataActions": []}
        ),
    ),
    "Microsoft.KeyVault/vaults": {
        "tags": {},
        **_properties(
            accessPolicies=[],
            enabledForDeployment=False,
            publicNetworkAccess=Versioned("Enabled", since="2021-06-01"),
            networkAcls=Each({"ipRules": [], "virtualNetworkRules": []}),
        ),
    },
    "Microsoft.KeyVault/vaults/keys": _properties(
        attributes={
            "enabled": True,
            "exportable": False,
            "recoveryLevel": "Recoverable+Purgeable",
        },
        keyOps=["encrypt", "decrypt", "sign", "verify", "wrapKey", "unwrapKey"],
    ),
    _ML: {
        "kind": "Default",
        "sku": {"name": "Basic", "tier": "Basic"},
        "tags": {},
        **_properties(
            description="",
            applicationInsights=None,
            keyVault=None,
            imageBuildCompute=None,
            hbiWorkspace=False,
            allowRoleAssignmentOnRG=True,
            allowPublicAccessWhenBehindVnet=Versioned(True, until=_2022),
            storageHnsEnabled=False,
            privateLinkCount=0,
            linkedModelInventoryArmId=None,
            sasGetterUri="",
            publicNetworkAccess=Versioned("Enabled", since=_2022),
            v1LegacyMode=Versioned(False, since=_2022),
            softDeleteEnabled=Versioned(False, since=_2022),
            ipAllowlist=Versioned([], since=_2022),
            EnableSoftwareBillOfMaterials=Versioned(False, since=_2022),
            enableDataIsolation=Versioned(False, since=_2022),
            serverlessComputeSettings=Versioned(None, since=_2022),
            managedNetwork=Versioned(
                {
                    "isolationMode": "Disabled",
                    "changeableIsolationModes": [
                        "AllowInternetOutbound",
                        "AllowOnlyApprovedOutbound",
                    ],
                },
                since=_2022,
            ),
        ),
    },
    f"{_ML}/computes": {
        "tags": {},
        **_properties(
            description=None,
            resourceId=None,
            disableLocalAuth=False,
            isAttachedCompute=False,
            provisioningErrors=None,
            provisioningWarnings={},
        ),
    },
    f"{_ML}/datastores": {"properties": _DATASTORE},
    f"{_ML}/environments/versions": {
        "properties": {
            **_ASSET,
            "environmentType": "UserCreated",
            "condaFile": "",
            "osType": "Linux",
            "autoRebuild": "Disabled",
            "stage": _STAGE,
        }
    },
    f"{_ML}/codes/versions": {"properties": _ASSET},
    f"{_ML}/data/versions": {"properties": _ASSET},
    f"{_ML}/models/versions": {
        "properties": {**_ASSET, "flavors": {}, "jobName": None, "stage": _STAGE}
    },
    f"{_ML}/jobs": {"properties": {**JOB, "services": {"Tracking": _SERVICE, "Studio": _SERVICE}}},
    f"{_ML}/onlineEndpoints": {
        "kind": "Managed",
        "tags": {},
        **_properties(
            description=None,
            properties={},
            compute=None,
            publicNetworkAccess="Enabled",
            traffic={},
            mirrorTraffic={},
        ),
    },
}
"""Defaults by kind."""
