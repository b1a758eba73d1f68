"""Types of storage accounts, key vaults and container registries."""

from collections.abc import Mapping
from typing import Final

from rehearsal.pulumi.provider.types.resource_type import ResourceType, words

_API: Final = "2024-01-01"
_TRACKED: Final = frozenset({"location", "tags"})
_ACCOUNT: Final = "Microsoft.Storage/storageAccounts/{accountName}"
_SWITCH: Final = frozenset({"Enabled", "Disabled"})
_DEFAULT_ACTION: Final = frozenset({"Allow", "Deny"})

TYPES: Final[Mapping[str, ResourceType]] = {
    "storage:StorageAccount": ResourceType(
        _ACCOUNT,
        _API,
        inputs=_TRACKED
        | words(
            "accessTier allowBlobPublicAccess allowCrossTenantReplication"
            " allowSharedKeyAccess allowedCopyScope azureFilesIdentityBasedAuthentication"
            " customDomain defaultToOAuthAuthentication dnsEndpointType enableExtendedGroups"
            " enableHttpsTrafficOnly enableNfsV3 encryption extendedLocation identity"
            " immutableStorageWithVersioning isHnsEnabled isLocalUserEnabled isSftpEnabled"
            " keyPolicy kind largeFileSharesState minimumTlsVersion networkRuleSet"
            " publicNetworkAccess routingPreference sasPolicy sku"
        ),
        required=frozenset({"location", "kind", "sku.name"}),
        outer=_TRACKED | {"extendedLocation", "identity", "kind", "sku"},
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
        values={
            "allowedCopyScope": frozenset({"AAD", "PrivateLink"}),
            "kind": frozenset(
                {"Storage", "StorageV2", "BlobStorage", "FileStorage", "BlockBlobStorage"}
            ),
            "minimumTlsVersion": frozenset({"TLS1_0", "TLS1_1", "TLS1_2", "TLS1_3"}),
            "networkRuleSet.defaultAction": _DEFAULT_ACTION,
            "publicNetworkAccess": _SWITCH | {"SecuredByPerimeter"},
            "sku.name": words(
                "Premium_LRS Premium_ZRS Standard_GRS Standard_GZRS Standard_LRS Standard_RAGRS"
                " Standard_RAGZRS Standard_ZRS"
            ),
        },
        internet=frozenset({"networkRuleSet.ipRules.iPAddressOrRange"}),
        fixed=frozenset({"isHnsEnabled", "extendedLocation"}),
        name_form=r"[a-z0-9]{3,24}",
    ),
    "storage:BlobContainer": ResourceType(
        f"{_ACCOUNT}/blobServices/default/containers/{{containerName}}",
        _API,
        inputs=words(
            "defaultEncryptionScope denyEncryptionScopeOverride enableNfsV3AllSquash"
            " enableNfsV3RootSquash immutableStorageWithVersioning metadata publicAccess"
        ),
        outer=frozenset(),
        values={"publicAccess": frozenset({"Container", "Blob", "None"})},
        name_form=r"[a-z0-9](?:-?[a-z0-9]){2,62}",
    ),
    "storage:BlobServiceProperties": ResourceType(
        f"{_ACCOUNT}/blobServices/{{blobServicesName}}",
        _API,
        inputs=words(
            "automaticSnapshotPolicyEnabled changeFeed containerDeleteRetentionPolicy cors"
            " defaultServiceVersion deleteRetentionPolicy isVersioningEnabled"
            " lastAccessTimeTrackingPolicy restorePolicy"
        ),
        outer=frozenset(),
        name_form="default",
        comes_with_parent=True,
    ),
    "storage:FileServiceProperties": ResourceType(
        f"{_ACCOUNT}/fileServices/{{fileServicesName}}",
        _API,
        inputs=frozenset({"cors", "protocolSettings", "shareDeleteRetentionPolicy"}),
        outer=frozenset(),
        name_form="default",
        comes_with_parent=True,
    ),
    "storage:ManagementPolicy": ResourceType(
        f"{_ACCOUNT}/managementPolicies/{{managementPolicyName}}",
        _API,
        inputs=frozenset({"policy"}),
        required=frozenset({"policy.rules.name", "policy.rules.definition.actions"}),
        outer=frozenset(),
        values={"policy.rules.type": frozenset({"Lifecycle"})},
        name_form="default",
    ),
    "keyvault:Vault": ResourceType(
        "Microsoft.KeyVault/vaults/{vaultName}",
        "2024-11-01",
        inputs=_TRACKED | {"properties"},
        required=frozenset({"location", "properties.sku.name", "properties.tenantId"}),
        computed=frozenset({"properties.vaultUri"}),
        whole=True,
        values={
            "properties.sku.family": frozenset({"A"}),
            "properties.sku.name": frozenset({"standard", "premium"}),
            "properties.networkAcls.defaultAction": _DEFAULT_ACTION,
        },
        name_form=r"[A-Za-z](?!.*--)[A-Za-z0-9-]{1,22}[A-Za-z0-9]",
    ),
    "keyvault:Key": ResourceType(
        "Microsoft.KeyVault/vaults/{vaultName}/keys/{keyName}",
        "2024-11-01",
        inputs=frozenset({"properties", "tags"}),
        required=frozenset({"properties"}),
        outer=frozenset({"tags"}),
        whole=True,
        flat_outputs=True,
        values={"properties.kty": frozenset({"EC", "EC-HSM", "RSA", "RSA-HSM"})},
        fixed=frozenset({"properties"}),
        name_form=r"[A-Za-z0-9-]{1,127}",
    ),
    "containerregistry:Registry": ResourceType(
        "Microsoft.ContainerRegistry/registries/{registryName}",
        "2023-01-01-preview",
        inputs=_TRACKED
        | words(
            "adminUserEnabled anonymousPullEnabled dataEndpointEnabled encryption identity"
            " networkRuleBypassOptions networkRuleSet policies publicNetworkAccess sku"
            " zoneRedundancy"
        ),
        required=frozenset({"location", "sku.name"}),
        outer=_TRACKED | {"identity", "sku"},
        renamed={"networkRuleSet.ipRules.iPAddressOrRange": "value"},
        values={
            "publicNetworkAccess": _SWITCH,
            "sku.name": frozenset({"Classic", "Basic", "Standard", "Premium"}),
            "zoneRedundancy": _SWITCH,
        },
        name_form=r"[A-Za-z0-9]{5,50}",
    ),
}
