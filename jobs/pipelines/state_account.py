"""The storage account and the key vault of Pulumi's state, as requests to Resource Manager. Pure.

Both answer publicly, and only to Entra identities with a role on the container or the key: whoever
deploys a private platform is outside of its network, which does not exist yet. The account has no
keys, and keeps deleted and overwritten blobs; the vault cannot be purged.

API versions and properties as in Azure's reference of 2023-05-01 (Microsoft.Storage), 2023-07-01
(Microsoft.KeyVault), 2023-01-31 (Microsoft.ManagedIdentity) and 2022-04-01
(Microsoft.Authorization).
"""

import hashlib
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from infra.prerequisites import Prerequisites

Redundancy = Literal["LRS", "ZRS", "GRS"]

CONTAINER: Final = "pulumi"
KEY: Final = "pulumi"
DELETED_DAYS: Final = 90
"""Days that a deleted or overwritten state can be restored."""

GROUPS: Final = "2021-04-01"
STORAGE: Final = "2023-05-01"
VAULTS: Final = "2023-07-01"
ASSIGNMENTS: Final = "2022-04-01"

BLOB_DATA_READER: Final = "2a2b9908-6ea1-4ae2-8e65-a410df84e7d1"
BLOB_DATA_CONTRIBUTOR: Final = "ba92f5b4-2d11-453d-a403-e96b0029c9fe"
CRYPTO_USER: Final = "12338af0-0e69-4776-bea7-57ae8d297424"
"""Encrypts and decrypts with a key. No built-in role only decrypts."""
READER: Final = "acdd72a7-3385-48ef-bd42-f606fba81ae7"
CONTRIBUTOR: Final = "b24988ac-6180-42a0-ab88-20f7382dd24c"
ROLE_ADMINISTRATOR: Final = "f58310d9-a9f6-439a-9e8d-f62e7b41a168"
ROLES: Final = {
    BLOB_DATA_READER: "Storage Blob Data Reader",
    BLOB_DATA_CONTRIBUTOR: "Storage Blob Data Contributor",
    CRYPTO_USER: "Key Vault Crypto User",
    READER: "Reader",
    CONTRIBUTOR: "Contributor",
    ROLE_ADMINISTRATOR: "Role Based Access Control Administrator",
}
"""Names by the GUIDs of Azure's built-in roles."""


@dataclass(frozen=True)
class Resource:
    """A resource that has to exist."""

    id: str
    api_version: str
    body: Mapping[str, Any]
    words: str
    """What it is, for people."""


@dataclass(frozen=True)
class StateNames:
    """Names of everything around Pulumi's state, the same for all stacks of a prefix."""

    prefix: str
    subscription: str
    """Id of the subscription."""

    @property
    def group_id(self) -> str:
        return f"/subscriptions/{self.subscription}/resourceGroups/{self.prefix}-state-rg"

    @property
    def account(self) -> str:
        return f"{self.prefix}state{self._hash}"

    @property
    def vault(self) -> str:
        return f"{self.prefix}-state-{self._hash}"

    @property
    def account_id(self) -> str:
        return f"{self.group_id}/providers/Microsoft.Storage/storageAccounts/{self.account}"

    @property
    def container_id(self) -> str:
        return f"{self.account_id}/blobServices/default/containers/{CONTAINER}"

    @property
    def vault_id(self) -> str:
        return f"{self.group_id}/providers/Microsoft.KeyVault/vaults/{self.vault}"

    @property
    def key_id(self) -> str:
        return f"{self.vault_id}/keys/{KEY}"

    @property
    def backend(self) -> str:
        """Address of the backend for `pulumi login` and PULUMI_BACKEND_URL."""
        return f"azblob://{CONTAINER}?storage_account={self.account}"

    @property
    def secrets_provider(self) -> str:
        return f"azurekeyvault://{self.vault}.vault.azure.net/keys/{KEY}"

    @property
    def _hash(self) -> str:
        """Six letters, as both names are unique in all of Azure."""
        text = f"{self.prefix}\n{self.subscription.lower()}"
        digest = hashlib.sha256(text.encode()).digest()
        return "".join(chr(ord("a") + byte % 26) for byte in digest[:6])


def resources(names: StateNames, needs: Prerequisites, redundancy: Redundancy) -> list[Resource]:
    """Return what Pulumi's state needs, in order."""
    placed = {"location": needs.region, "tags": dict(needs.tags)}
    kept = {"enabled": True, "days": DELETED_DAYS}
    return [
        Resource(names.group_id, GROUPS, placed, "resource group"),
        Resource(
            names.account_id,
            STORAGE,
            {
                **placed,
                "kind": "StorageV2",
                "sku": {"name": f"Standard_{redundancy}"},
                "properties": {
                    "allowSharedKeyAccess": False,
                    "defaultToOAuthAuthentication": True,
                    "allowBlobPublicAccess": False,
                    "allowCrossTenantReplication": False,
                    "minimumTlsVersion": "TLS1_2",
                    "supportsHttpsTrafficOnly": True,
                    "publicNetworkAccess": "Enabled",
                },
            },
            "storage account without keys; a public endpoint, for Entra identities with a role",
        ),
        Resource(
            f"{names.account_id}/blobServices/default",
            STORAGE,
            {
                "properties": {
                    "isVersioningEnabled": True,
                    "deleteRetentionPolicy": kept,
                    "containerDeleteRetentionPolicy": kept,
                }
            },
            f"its versions of blobs; what is deleted can be restored for {DELETED_DAYS} days",
        ),
        Resource(
            names.container_id,
            STORAGE,
            {"properties": {"publicAccess": "None"}},
            "container of the state",
        ),
        Resource(
            names.vault_id,
            VAULTS,
            {
                **placed,
                "properties": {
                    "tenantId": needs.tenant_id,
                    "sku": {"family": "A", "name": "standard"},
                    "enableRbacAuthorization": True,
                    "enableSoftDelete": True,
                    "softDeleteRetentionInDays": DELETED_DAYS,
                    "enablePurgeProtection": True,
                    "publicNetworkAccess": "Enabled",
                },
            },
            "key vault with purge protection; a public endpoint, for Entra identities with a role",
        ),
        Resource(
            names.key_id,
            VAULTS,
            {
                "properties": {
                    "kty": "RSA",
                    "keySize": 3072,
                    "keyOps": ["encrypt", "decrypt", "wrapKey", "unwrapKey"],
                }
            },
            "key that encrypts the secrets in the state",
        ),
    ]


def assignment(
    scope: str, principal: str, role: str, words: str, *, kind: str | None, condition: str = ""
) -> Resource:
    """Return a role assignment.

    Args:
        scope: Id of the resource that the role is assigned on.
        principal: Object id of who gets the role.
        role: GUID of the role.
        words: Who gets it, for people.
        kind: Type of the principal. A new identity needs it, because not every replica of the
            directory knows it yet; None lets Azure look it up.
        condition: Condition of the assignment.
    """
    name = uuid.uuid5(uuid.NAMESPACE_URL, f"{scope.lower()}/{principal}/{role}")
    subscription = scope.split("/")[2]
    properties = {
        "roleDefinitionId": (
            f"/subscriptions/{subscription}/providers/Microsoft.Authorization/roleDefinitions/"
            f"{role}"
        ),
        "principalId": principal,
        **({"principalType": kind} if kind else {}),
        **({"condition": condition, "conditionVersion": "2.0"} if condition else {}),
    }
    return Resource(
        f"{scope}/providers/Microsoft.Authorization/roleAssignments/{name}",
        ASSIGNMENTS,
        {"properties": properties},
        f"role {ROLES[role]} of {words} on {scope.rpartition('/')[2]}"
        + (", with a condition" if condition else ""),
    )


def state_roles(
    names: StateNames, principal: str, words: str, *, writes: bool, kind: str | None
) -> list[Resource]:
    """Return the roles with which somebody reads Pulumi's state, or writes it."""
    blobs = BLOB_DATA_CONTRIBUTOR if writes else BLOB_DATA_READER
    return [
        assignment(names.container_id, principal, blobs, words, kind=kind),
        assignment(names.key_id, principal, CRYPTO_USER, words, kind=kind),
    ]


def holds(existing: object, wanted: object) -> bool:
    """Check whether an existing resource has everything that is wanted, and maybe more.

    Azure returns some texts in another spelling. Only a subject counts as it is written, because
    Entra compares it with upper and lower case.
    """
    if isinstance(wanted, Mapping):
        return isinstance(existing, Mapping) and all(
            existing.get(name) == value if name == "subject" else holds(existing.get(name), value)
            for name, value in wanted.items()
        )
    if isinstance(wanted, str) and isinstance(existing, str):
        return existing.lower() == wanted.lower()
    if isinstance(wanted, Sequence) and isinstance(existing, Sequence):
        return sorted(map(str, existing)) == sorted(map(str, wanted))
    return existing == wanted
