"""Azure Resource Manager ids of resources, computed from their inputs."""

from collections.abc import Mapping
from typing import Any

_ML = "Microsoft.MachineLearningServices/workspaces"
_STORAGE = "Microsoft.Storage/storageAccounts"
_NETWORK = "Microsoft.Network"
_PATHS = {
    "managedidentity:UserAssignedIdentity": (
        "Microsoft.ManagedIdentity/userAssignedIdentities/{resourceName}"
    ),
    "operationalinsights:Workspace": "Microsoft.OperationalInsights/workspaces/{workspaceName}",
    "applicationinsights:Component": "Microsoft.Insights/components/{resourceName}",
    "network:VirtualNetwork": f"{_NETWORK}/virtualNetworks/{{virtualNetworkName}}",
    "network:NetworkSecurityGroup": (
        f"{_NETWORK}/networkSecurityGroups/{{networkSecurityGroupName}}"
    ),
    "network:FlowLog": (
        f"{_NETWORK}/networkWatchers/{{networkWatcherName}}/flowLogs/{{flowLogName}}"
    ),
    "network:NatGateway": f"{_NETWORK}/natGateways/{{natGatewayName}}",
    "network:PublicIPAddress": f"{_NETWORK}/publicIPAddresses/{{publicIpAddressName}}",
    "network:ServiceEndpointPolicy": (
        f"{_NETWORK}/serviceEndpointPolicies/{{serviceEndpointPolicyName}}"
    ),
    "network:PrivateEndpoint": f"{_NETWORK}/privateEndpoints/{{privateEndpointName}}",
    "network:PrivateDnsZoneGroup": (
        f"{_NETWORK}/privateEndpoints/{{privateEndpointName}}"
        "/privateDnsZoneGroups/{privateDnsZoneGroupName}"
    ),
    "privatedns:PrivateZone": f"{_NETWORK}/privateDnsZones/{{privateZoneName}}",
    "privatedns:VirtualNetworkLink": (
        f"{_NETWORK}/privateDnsZones/{{privateZoneName}}"
        "/virtualNetworkLinks/{virtualNetworkLinkName}"
    ),
    "containerregistry:Registry": "Microsoft.ContainerRegistry/registries/{registryName}",
    "storage:StorageAccount": f"{_STORAGE}/{{accountName}}",
    "storage:BlobServiceProperties": (
        f"{_STORAGE}/{{accountName}}/blobServices/{{blobServicesName}}"
    ),
    "storage:FileServiceProperties": (
        f"{_STORAGE}/{{accountName}}/fileServices/{{fileServicesName}}"
    ),
    "storage:BlobContainer": (
        f"{_STORAGE}/{{accountName}}/blobServices/default/containers/{{containerName}}"
    ),
    "storage:ManagementPolicy": (
        f"{_STORAGE}/{{accountName}}/managementPolicies/{{managementPolicyName}}"
    ),
    "keyvault:Vault": "Microsoft.KeyVault/vaults/{vaultName}",
    "machinelearningservices:Workspace": f"{_ML}/{{workspaceName}}",
    "machinelearningservices:Compute": f"{_ML}/{{workspaceName}}/computes/{{computeName}}",
    "machinelearningservices:Datastore": f"{_ML}/{{workspaceName}}/datastores/{{name}}",
    "authorization:RoleAssignment": (
        "{scope}/providers/Microsoft.Authorization/roleAssignments/{roleAssignmentName}"
    ),
    "authorization:ManagementLockByScope": (
        "{scope}/providers/Microsoft.Authorization/locks/{lockName}"
    ),
    "monitor:DiagnosticSetting": (
        "{resourceUri}/providers/Microsoft.Insights/diagnosticSettings/{name}"
    ),
}
"""Paths by type: in the providers of the resource's group, or an id of its own that begins with
that of another resource."""


def identifier(
    type_: str,
    inputs: Mapping[str, Any],
    subscription: str,
    more: Mapping[str, str] | None = None,
) -> str:
    """Return the id of a resource.

    Args:
        type_: azure-native's type token; a version in it is ignored.
        inputs: the resource's inputs with the provider's camelCase keys.
        subscription: id of the subscription that holds it.
        more: paths of further types, such as those of the leaves.

    Raises:
        ValueError: the type is not known, or an input that names the resource is missing; the
            provider would then generate a name, which no other part of the platform could know.
    """
    kind = kind_of(type_)
    path = {**_PATHS, **(more or {})}.get(kind)
    try:
        if kind == "resources:ResourceGroup":
            return group(subscription, inputs["resourceGroupName"])
        if path is not None and path.startswith("{"):
            return path.format_map(inputs)
        if path is not None:
            parent = group(subscription, inputs["resourceGroupName"])
            return f"{parent}/providers/{path.format_map(inputs)}"
    except KeyError as error:
        raise ValueError(f"{type_}: input {error} is missing, so its id is unknown") from error
    raise ValueError(f"{type_} has no entry in infra/catalog/resource_ids.py")


def group(subscription: str, name: str) -> str:
    """Return the id of a resource group."""
    return f"/subscriptions/{subscription}/resourceGroups/{name}"


def name(id_: str) -> str:
    """Return the last segment of an id: the resource's own name."""
    return id_.rstrip("/").rsplit("/", 1)[-1]


def parts(id_: str) -> tuple[str, str, str]:
    """Return the subscription, resource group and name in the id of a resource."""
    _, _, subscription, _, group_name, *_ = id_.split("/")
    return subscription, group_name, name(id_)


def kind_of(type_: str) -> str:
    """Return `module:Kind` of a type such as `azure-native:network/v20240501:NatGateway`. The type
    of a component is returned unchanged.
    """
    parts = type_.split(":")
    if len(parts) != 3:
        return type_
    return f"{parts[1].split('/')[0]}:{parts[2]}"
