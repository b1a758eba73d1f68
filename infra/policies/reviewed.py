"""The closed world: every type and input that the platform declares has been reviewed.

A table of expected values cannot name what nobody thought of, such as a property of a new API
version. So every input must either be in a rule's table or be listed here as one that opens nothing
by itself, and every type of Azure resource must be known.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

from infra.policies.facts import of_leaves
from infra.policies.rule import ResourceRule, Rule
from infra.resources import Resource
from infra.settings import Settings

COMMON: Final = "location resourceGroupName tags"
REVIEWED: Final[Mapping[str, str]] = {
    "authorization:RoleAssignment": "condition conditionVersion principalId "
    "roleAssignmentName roleDefinitionId scope",
    "containerregistry:Registry": "dataEndpointEnabled encryption.keyVaultProperties.identity "
    "encryption.status identity.type policies.quarantinePolicy policies.retentionPolicy.status "
    "registryName sku zoneRedundancy",
    "keyvault:Vault": "properties.enablePurgeProtection properties.sku vaultName",
    "machinelearningservices:Compute": "computeName identity properties.computeLocation "
    "properties.computeType properties.properties.isolatedNetwork properties.properties.osType "
    "properties.properties.scaleSettings.maxNodeCount properties.properties.subnet.id "
    "properties.properties.vmPriority properties.properties.vmSize workspaceName",
    "machinelearningservices:Datastore": "name properties.containerName properties.datastoreType "
    "properties.resourceGroup properties.subscriptionId workspaceName",
    "machinelearningservices:Workspace": "encryption.status friendlyName identity "
    "imageBuildCompute kind managedNetwork.enableNetworkMonitor primaryUserAssignedIdentity "
    "serverlessComputeSettings.serverlessComputeCustomSubnet sku workspaceName",
    "managedidentity:UserAssignedIdentity": "resourceName",
    "monitor:DiagnosticSetting": "logs metrics name resourceUri",
    "network:FlowLog": "flowLogName format networkWatcherName targetResourceId",
    "network:NatGateway": "idleTimeoutInMinutes natGatewayName publicIpAddresses sku",
    "network:NetworkSecurityGroup": "networkSecurityGroupName securityRules[].access "
    "securityRules[].description securityRules[].direction securityRules[].name "
    "securityRules[].priority securityRules[].protocol securityRules[].sourcePortRange "
    "securityRules[].destinationAddressPrefix securityRules[].destinationAddressPrefixes "
    "securityRules[].destinationPortRange securityRules[].destinationPortRanges "
    "securityRules[].sourceAddressPrefix securityRules[].sourceAddressPrefixes",
    "network:PrivateDnsZoneGroup": "privateDnsZoneConfigs[].name privateDnsZoneGroupName "
    "privateEndpointName",
    "network:PrivateEndpoint": "customNetworkInterfaceName privateEndpointName "
    "privateLinkServiceConnections[].groupIds privateLinkServiceConnections[].name "
    "privateLinkServiceConnections[].privateLinkServiceId subnet.id "
    "subnet.privateEndpointNetworkPolicies subnet.privateLinkServiceNetworkPolicies",
    "network:PublicIPAddress": "publicIPAllocationMethod publicIpAddressName sku",
    "network:ServiceEndpointPolicy": "serviceEndpointPolicyDefinitions[].name "
    "serviceEndpointPolicyDefinitions[].service serviceEndpointPolicyName",
    "network:VirtualNetwork": "enableDdosProtection enableVmProtection subnets[].addressPrefix "
    "subnets[].defaultOutboundAccess subnets[].name subnets[].natGateway.id "
    "subnets[].networkSecurityGroup.id subnets[].privateEndpointNetworkPolicies "
    "subnets[].privateLinkServiceNetworkPolicies subnets[].serviceEndpointPolicies "
    "subnets[].serviceEndpoints[].service virtualNetworkName virtualNetworkPeerings[].name "
    "virtualNetworkPeerings[].allowForwardedTraffic "
    "virtualNetworkPeerings[].allowVirtualNetworkAccess",
    "operationalinsights:Workspace": "features.enableLogAccessUsingOnlyResourcePermissions sku "
    "workspaceName",
    "applicationinsights:Component": "applicationType flowType ingestionMode kind "
    "requestSource resourceName",
    "privatedns:PrivateZone": "",
    "privatedns:VirtualNetworkLink": "privateZoneName virtualNetworkLinkName",
    "resources:ResourceGroup": "",
    "storage:BlobContainer": "containerName",
    "storage:BlobServiceProperties": "accountName blobServicesName cors.corsRules[].allowedHeaders "
    "cors.corsRules[].allowedMethods cors.corsRules[].exposedHeaders "
    "cors.corsRules[].maxAgeInSeconds isVersioningEnabled",
    "storage:FileServiceProperties": "accountName fileServicesName",
    "storage:ManagementPolicy": "accountName managementPolicyName policy.rules[].enabled "
    "policy.rules[].definition.filters.blobTypes policy.rules[].name policy.rules[].type",
    "storage:StorageAccount": "accessTier accountName encryption.keyVaultProperties.keyName "
    "encryption.services.blob.keyType encryption.services.file.keyType identity.type isHnsEnabled "
    "kind networkRuleSet.ipRules[].action sasPolicy.expirationAction sku",
}
"""Inputs by kind of resource that open nothing by themselves, of the trunk; a path includes all
below it."""


def only_reviewed(rules: Sequence[Rule]) -> ResourceRule:
    """Return the rule that only reviewed types and inputs are declared.

    Args:
        rules: The other rules, whose inputs have been decided on.
    """

    @cache
    def known(kind: str) -> frozenset[str]:
        decided = (path for rule in rules for path in rule.inputs.get(kind, ()))
        more = (one.reviewed.get(kind, "") for one in of_leaves())
        harmless = " ".join((COMMON, REVIEWED.get(kind, ""), *more)).split()
        return frozenset({*decided, *harmless})

    def faults(resource: Resource, _settings: Settings) -> Iterator[str]:
        if not resource.type.startswith("azure-native:"):
            return
        kinds = REVIEWED.keys() | {kind for one in of_leaves() for kind in one.reviewed}
        if resource.kind not in kinds:
            yield f"{resource.kind} is a type that the platform does not declare"
            return
        for path in sorted(set(_paths(resource.inputs))):
            parts = path.split(".")
            above = {".".join(parts[: end + 1]) for end in range(len(parts))}
            if not (above | {one.removesuffix("[]") for one in above}) & known(resource.kind):
                yield f"sets {path}, which the platform does not declare"

    return ResourceRule(
        "only-reviewed",
        "The stack declares only the types and inputs that have been reviewed.",
        "Remove it; or decide what it may be in a rule, or list it as reviewed.",
        faults,
    )


def _paths(tree: Any, at: str = "") -> Iterator[str]:
    """Yield the path of every value, with `[]` for the items of a list."""
    if isinstance(tree, Mapping):
        for key in tree:
            yield from _paths(tree[key], f"{at}.{key}" if at else key)
    elif isinstance(tree, Sequence) and not isinstance(tree, str):
        for item in tree:
            yield from _paths(item, f"{at}[]")
    elif tree is not None:
        yield at
