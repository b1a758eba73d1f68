"""The azure-native types that the platform declares. The SDK knows their inputs; the table has what
only Azure Resource Manager knows.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Final

from rehearsal.pulumi.provider.resource_type import ENVELOPE, ResourceType

PACKAGE: Final = "azure-native"
_WORKSPACE: Final = "Microsoft.MachineLearningServices/workspaces/{workspaceName}"
_ACCOUNT: Final = "Microsoft.Storage/storageAccounts/{accountName}"
_NAME: Final = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,78}[A-Za-z0-9_])?"
"""Form of the names in Microsoft.Network."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ROWS: Final = (
    ResourceType(
        "compute:VirtualMachine",
        "Microsoft.Compute/virtualMachines/{vmName}",
        required=_words("hardwareProfile.vmSize networkProfile storageProfile"),
        # The SDK lists the sizes of one year.
        values={"hardwareProfile.vmSize": frozenset()},
        fixed=_words("osProfile storageProfile.imageReference zones"),
        wrapped=frozenset({"networkProfile.networkInterfaces"}),
        name_form=r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,62}[A-Za-z0-9])?",
    ),
    ResourceType(
        "compute:VirtualMachineExtension",
        "Microsoft.Compute/virtualMachines/{vmName}/extensions/{vmExtensionName}",
        required=_words("publisher type typeHandlerVersion"),
        fixed=_words("publisher type"),
    ),
    # Azure looks for the schedule of a machine by this form alone.
    ResourceType(
        "devtestlab:GlobalSchedule",
        "Microsoft.DevTestLab/schedules/{name}",
        name_form="shutdown-computevm-.+",
    ),
    ResourceType(
        "resources:ResourceGroup",
        "resourceGroups/{resourceGroupName}",
        name_form=r"[\w().-]{0,89}[\w()-]",
    ),
    ResourceType(
        "managedidentity:UserAssignedIdentity",
        "Microsoft.ManagedIdentity/userAssignedIdentities/{resourceName}",
        name_form=r"[A-Za-z0-9][A-Za-z0-9_-]{2,127}",
    ),
    ResourceType(
        "authorization:RoleAssignment",
        "Microsoft.Authorization/roleAssignments/{roleAssignmentName}",
        fixed=_words("principalId principalType roleDefinitionId"),
        name_form=r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}",
    ),
    ResourceType(
        "authorization:RoleDefinition",
        "Microsoft.Authorization/roleDefinitions/{roleDefinitionId}",
        required=_words("assignableScopes permissions roleName"),
        name_form=r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}",
    ),
    ResourceType("authorization:ManagementLockByScope", "Microsoft.Authorization/locks/{lockName}"),
    ResourceType(
        "machinelearningservices:Workspace",
        _WORKSPACE,
        required=_words("identity.type keyVault storageAccount"),
        computed=_words(
            "managedNetwork.networkId managedNetwork.outboundRules managedNetwork.status"
        ),
        name_form=r"[A-Za-z0-9][A-Za-z0-9_-]{2,32}",
    ),
    # Resource Manager's own rule: no number after the last hyphen.
    ResourceType(
        "machinelearningservices:Compute",
        f"{_WORKSPACE}/computes/{{computeName}}",
        required=frozenset({"properties"}),
        name_form=r"[a-zA-Z](?![a-zA-Z0-9-]*-\d+$)[a-zA-Z0-9\-]{2,23}",
    ),
    ResourceType(
        "machinelearningservices:ManagedNetworkSettingsRule",
        f"{_WORKSPACE}/outboundRules/{{ruleName}}",
        required=_words("properties.category properties.destination properties.type"),
        computed=frozenset({"properties.status"}),
        name_form=r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}",
    ),
    ResourceType(
        "machinelearningservices:Datastore",
        f"{_WORKSPACE}/datastores/{{name}}",
        name_form=r"[a-zA-Z0-9_]{1,255}",
    ),
    ResourceType(
        "network:VirtualNetwork",
        "Microsoft.Network/virtualNetworks/{virtualNetworkName}",
        required=frozenset({"addressSpace.addressPrefixes"}),
        wrapped=_words("subnets virtualNetworkPeerings"),
        ranges={
            "addressSpace.addressPrefixes": "",
            "subnets.addressPrefix": "addressSpace.addressPrefixes",
        },
        name_form=_NAME,
    ),
    ResourceType(
        "network:NetworkSecurityGroup",
        "Microsoft.Network/networkSecurityGroups/{networkSecurityGroupName}",
        wrapped=frozenset({"securityRules"}),
        name_form=_NAME,
    ),
    ResourceType(
        "network:FlowLog",
        "Microsoft.Network/networkWatchers/{networkWatcherName}/flowLogs/{flowLogName}",
        name_form=_NAME,
    ),
    ResourceType(
        "network:NatGateway",
        "Microsoft.Network/natGateways/{natGatewayName}",
        required=frozenset({"sku.name"}),
        fixed=frozenset({"zones"}),
        name_form=_NAME,
    ),
    ResourceType(
        "network:PublicIPAddress",
        "Microsoft.Network/publicIPAddresses/{publicIpAddressName}",
        fixed=frozenset({"zones"}),
        name_form=_NAME,
    ),
    ResourceType(
        "network:NetworkInterface",
        "Microsoft.Network/networkInterfaces/{networkInterfaceName}",
        required=frozenset({"ipConfigurations.name"}),
        wrapped=frozenset({"ipConfigurations", "ipConfigurations.subnet"}),
        name_form=_NAME,
    ),
    ResourceType(
        "network:BastionHost",
        "Microsoft.Network/bastionHosts/{bastionHostName}",
        required=frozenset({"ipConfigurations.name"}),
        wrapped=frozenset({"ipConfigurations"}),
        fixed=_words("ipConfigurations zones"),
        name_form=_NAME,
    ),
    ResourceType(
        "network:ServiceEndpointPolicy",
        "Microsoft.Network/serviceEndpointPolicies/{serviceEndpointPolicyName}",
        wrapped=frozenset({"serviceEndpointPolicyDefinitions"}),
        name_form=_NAME,
    ),
    ResourceType(
        "network:PrivateEndpoint",
        "Microsoft.Network/privateEndpoints/{privateEndpointName}",
        required=frozenset({"subnet.id"}),
        wrapped=_words(
            "ipConfigurations manualPrivateLinkServiceConnections privateLinkServiceConnections"
            " subnet"
        ),
        name_form=_NAME,
    ),
    ResourceType(
        "network:PrivateDnsZoneGroup",
        "Microsoft.Network/privateEndpoints/{privateEndpointName}/privateDnsZoneGroups/{privateDnsZoneGroupName}",
        envelope=ENVELOPE | {"name"},
        wrapped=frozenset({"privateDnsZoneConfigs"}),
    ),
    ResourceType(
        "privatedns:PrivateZone",
        "Microsoft.Network/privateDnsZones/{privateZoneName}",
        values={"location": _words("Global global")},
        name_form=r"(?:[A-Za-z0-9_-]{1,63}\.)+[A-Za-z0-9_-]{1,63}",
    ),
    ResourceType(
        "privatedns:VirtualNetworkLink",
        "Microsoft.Network/privateDnsZones/{privateZoneName}/virtualNetworkLinks/{virtualNetworkLinkName}",
        required=frozenset({"virtualNetwork.id"}),
        values={"location": _words("Global global")},
        fixed=frozenset({"virtualNetwork"}),
        name_form=_NAME,
    ),
    ResourceType(
        "operationalinsights:Workspace",
        "Microsoft.OperationalInsights/workspaces/{workspaceName}",
        envelope=ENVELOPE - {"sku"},
        name_form=r"[A-Za-z0-9][A-Za-z0-9-]{2,61}[A-Za-z0-9]",
    ),
    ResourceType(
        "applicationinsights:Component",
        "Microsoft.Insights/components/{resourceName}",
        required=frozenset({"applicationType"}),
        renamed={
            "applicationType": "Application_Type",
            "disableIpMasking": "DisableIpMasking",
            "disableLocalAuth": "DisableLocalAuth",
            "flowType": "Flow_Type",
            "ingestionMode": "IngestionMode",
            "requestSource": "Request_Source",
            "retentionInDays": "RetentionInDays",
            "samplingPercentage": "SamplingPercentage",
            "workspaceResourceId": "WorkspaceResourceId",
        },
    ),
    ResourceType("monitor:PrivateLinkScope", "Microsoft.Insights/privateLinkScopes/{scopeName}"),
    ResourceType(
        "monitor:PrivateLinkScopedResource",
        "Microsoft.Insights/privateLinkScopes/{scopeName}/scopedResources/{name}",
        envelope=ENVELOPE - {"kind"},
    ),
    ResourceType(
        "monitor:ActionGroup",
        "Microsoft.Insights/actionGroups/{actionGroupName}",
        required=frozenset({"enabled"}),
    ),
    # The SDK has the operators of another API version.
    ResourceType(
        "monitor:ScheduledQueryRule",
        "Microsoft.Insights/scheduledQueryRules/{ruleName}",
        required=_words("criteria.allOf.query scopes"),
        values={
            "criteria.allOf.operator": _words(
                "Equals GreaterOrLessThan GreaterThan GreaterThanOrEqual LessThan LessThanOrEqual"
            ),
            "severity": frozenset(range(5)),
        },
    ),
    ResourceType("monitor:DiagnosticSetting", "Microsoft.Insights/diagnosticSettings/{name}"),
    ResourceType(
        "consumption:Budget",
        "Microsoft.Consumption/budgets/{budgetName}",
        name_form=r"[A-Za-z0-9_-]{1,63}",
    ),
    ResourceType(
        "storage:StorageAccount",
        _ACCOUNT,
        renamed={
            "enableHttpsTrafficOnly": "supportsHttpsTrafficOnly",
            "encryption.encryptionIdentity": "identity",
            "encryption.encryptionIdentity.encryptionFederatedIdentityClientId": (
                "federatedIdentityClientId"
            ),
            "encryption.encryptionIdentity.encryptionUserAssignedIdentity": "userAssignedIdentity",
            "encryption.keyVaultProperties": "keyvaultproperties",
            "encryption.keyVaultProperties.keyName": "keyname",
            "encryption.keyVaultProperties.keyVaultUri": "keyvaulturi",
            "encryption.keyVaultProperties.keyVersion": "keyversion",
            "networkRuleSet": "networkAcls",
            "networkRuleSet.ipRules.iPAddressOrRange": "value",
            "networkRuleSet.virtualNetworkRules.virtualNetworkResourceId": "id",
        },
        internet=frozenset({"networkRuleSet.ipRules.iPAddressOrRange"}),
        fixed=_words("extendedLocation isHnsEnabled"),
        name_form=r"[a-z0-9]{3,24}",
    ),
    ResourceType(
        "storage:BlobContainer",
        f"{_ACCOUNT}/blobServices/default/containers/{{containerName}}",
        name_form=r"[a-z0-9](?:-?[a-z0-9]){2,62}",
    ),
    ResourceType(
        "storage:BlobServiceProperties",
        f"{_ACCOUNT}/blobServices/{{blobServicesName}}",
        name_form="default",
        comes_with_parent=True,
    ),
    ResourceType(
        "storage:FileServiceProperties",
        f"{_ACCOUNT}/fileServices/{{fileServicesName}}",
        name_form="default",
        comes_with_parent=True,
    ),
    ResourceType(
        "storage:ManagementPolicy",
        f"{_ACCOUNT}/managementPolicies/{{managementPolicyName}}",
        name_form="default",
    ),
    ResourceType(
        "keyvault:Vault",
        "Microsoft.KeyVault/vaults/{vaultName}",
        name_form=r"[A-Za-z](?!.*--)[A-Za-z0-9-]{1,22}[A-Za-z0-9]",
        computed=frozenset({"properties.vaultUri"}),
    ),
    ResourceType(
        "keyvault:Key",
        "Microsoft.KeyVault/vaults/{vaultName}/keys/{keyName}",
        flat_outputs=True,
        fixed=frozenset({"properties"}),
        name_form=r"[A-Za-z0-9-]{1,127}",
    ),
    ResourceType(
        "containerregistry:Registry",
        "Microsoft.ContainerRegistry/registries/{registryName}",
        renamed={"networkRuleSet.ipRules.iPAddressOrRange": "value"},
        name_form=r"[A-Za-z0-9]{5,50}",
    ),
    ResourceType(
        "containerregistry:Replication",
        "Microsoft.ContainerRegistry/registries/{registryName}/replications/{replicationName}",
        fixed=frozenset({"zoneRedundancy"}),
        name_form=r"[A-Za-z0-9]{5,50}",
    ),
)

TYPES: Final[Mapping[str, ResourceType]] = {row.token: row for row in _ROWS}
"""Types by `module:Kind`."""


@cache
def find(token: str) -> ResourceType | None:
    """Return a type by its token, such as `azure-native:network/v20240501:NatGateway`. The version
    of Azure's API in a token replaces that of the SDK.
    """
    package, _, rest = token.partition(":")
    module, _, kind = rest.partition(":")
    module, _, version = module.partition("/")
    row = TYPES.get(f"{module}:{kind}")
    if package != PACKAGE or row is None:
        return None
    if not version:
        return row
    year, month, day, preview = re.findall(r"v(\d{4})(\d\d)(\d\d)(\w*)", version)[0]
    return replace(row, version=f"{year}-{month}-{day}" + (preview and f"-{preview}"))
