"""Types of Azure Machine Learning, identities and role assignments."""

from collections.abc import Mapping
from typing import Final

from rehearsal.pulumi.provider.types.resource_type import ResourceType, words

_API: Final = "2025-12-01"
_TRACKED: Final = frozenset({"location", "tags"})
_WORKSPACE: Final = "Microsoft.MachineLearningServices/workspaces/{workspaceName}"
_SWITCH: Final = frozenset({"Enabled", "Disabled"})
_GUID: Final = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"

TYPES: Final[Mapping[str, ResourceType]] = {
    "resources:ResourceGroup": ResourceType(
        "resourceGroups/{resourceGroupName}",
        "2024-03-01",
        scope="",
        inputs=_TRACKED | {"managedBy"},
        required=frozenset({"location"}),
        outer=_TRACKED | {"managedBy"},
        name_form=r"[\w().-]{0,89}[\w()-]",
    ),
    "managedidentity:UserAssignedIdentity": ResourceType(
        "Microsoft.ManagedIdentity/userAssignedIdentities/{resourceName}",
        "2023-01-31",
        inputs=_TRACKED,
        required=frozenset({"location"}),
        name_form=r"[A-Za-z0-9][A-Za-z0-9_-]{2,127}",
    ),
    "authorization:RoleAssignment": ResourceType(
        "Microsoft.Authorization/roleAssignments/{roleAssignmentName}",
        "2022-04-01",
        scope="scope",
        inputs=words(
            "condition conditionVersion delegatedManagedIdentityResourceId description"
            " principalId principalType roleDefinitionId"
        ),
        required=frozenset({"principalId", "roleDefinitionId"}),
        outer=frozenset(),
        values={
            "principalType": frozenset(
                {"User", "Group", "ServicePrincipal", "ForeignGroup", "Device"}
            )
        },
        fixed=frozenset({"principalId", "principalType", "roleDefinitionId"}),
        name_form=_GUID,
    ),
    "authorization:ManagementLockByScope": ResourceType(
        "Microsoft.Authorization/locks/{lockName}",
        "2020-05-01",
        scope="scope",
        inputs=frozenset({"level", "notes", "owners"}),
        required=frozenset({"level"}),
        outer=frozenset(),
        values={"level": frozenset({"NotSpecified", "CanNotDelete", "ReadOnly"})},
    ),
    "machinelearningservices:Workspace": ResourceType(
        _WORKSPACE,
        _API,
        inputs=_TRACKED
        | words(
            "allowPublicAccessWhenBehindVnet applicationInsights associatedWorkspaces"
            " containerRegistry description discoveryUrl enableDataIsolation"
            " enableServiceSideCMKEncryption encryption featureStoreSettings friendlyName"
            " hbiWorkspace hubResourceId identity imageBuildCompute keyVault kind"
            " managedNetwork primaryUserAssignedIdentity provisionNetworkNow"
            " publicNetworkAccess serverlessComputeSettings serviceManagedResourcesSettings"
            " sharedPrivateLinkResources sku storageAccount systemDatastoresAuthMode"
            " v1LegacyMode workspaceHubConfig"
        ),
        required=frozenset({"location", "identity.type", "storageAccount", "keyVault"}),
        outer=_TRACKED | {"identity", "kind", "sku"},
        values={
            "identity.type": frozenset(
                {"None", "SystemAssigned", "UserAssigned", "SystemAssigned,UserAssigned"}
            ),
            "managedNetwork.isolationMode": frozenset(
                {"Disabled", "AllowInternetOutbound", "AllowOnlyApprovedOutbound"}
            ),
            "publicNetworkAccess": _SWITCH,
            "systemDatastoresAuthMode": frozenset({"AccessKey", "Identity", "UserDelegationSAS"}),
        },
        name_form=r"[A-Za-z0-9][A-Za-z0-9_-]{2,32}",
    ),
    "machinelearningservices:Compute": ResourceType(
        f"{_WORKSPACE}/computes/{{computeName}}",
        _API,
        inputs=_TRACKED | {"identity", "properties", "sku"},
        required=frozenset({"location", "properties.computeType"}),
        outer=_TRACKED | {"identity", "sku"},
        whole=True,
        values={
            "properties.computeType": words(
                "AKS AmlCompute ComputeInstance DataFactory Databricks DataLakeAnalytics"
                " HDInsight Kubernetes SynapseSpark VirtualMachine"
            ),
            "properties.properties.osType": frozenset({"Linux", "Windows"}),
            "properties.properties.remoteLoginPortPublicAccess": _SWITCH | {"NotSpecified"},
            "properties.properties.vmPriority": frozenset({"Dedicated", "LowPriority"}),
        },
        # Resource Manager's own rule: no number after the last hyphen.
        name_form=r"[a-zA-Z](?![a-zA-Z0-9-]*-\d+$)[a-zA-Z0-9\-]{2,23}",
    ),
    "machinelearningservices:Datastore": ResourceType(
        f"{_WORKSPACE}/datastores/{{name}}",
        _API,
        inputs=frozenset({"properties", "skipValidation"}),
        required=frozenset({"properties.datastoreType", "properties.credentials.credentialsType"}),
        outer=frozenset(),
        whole=True,
        values={
            "properties.datastoreType": frozenset(
                {"AzureBlob", "AzureDataLakeGen1", "AzureDataLakeGen2", "AzureFile", "OneLake"}
            ),
            "properties.serviceDataAccessAuthIdentity": frozenset(
                {"None", "WorkspaceSystemAssignedIdentity", "WorkspaceUserAssignedIdentity"}
            ),
        },
        name_form=r"[a-zA-Z0-9_]{1,255}",
    ),
}
