"""Azure's built-in roles that the platform assigns, by GUID; the GUIDs are the same in every
tenant.

GUIDs as in Azure's list of built-in roles. Owner is not assigned, and no principal gets Contributor
on the account of the training data.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

CONTRIBUTOR: Final = "b24988ac-6180-42a0-ab88-20f7382dd24c"
READER: Final = "acdd72a7-3385-48ef-bd42-f606fba81ae7"

BLOB_DATA_READER: Final = "2a2b9908-6ea1-4ae2-8e65-a410df84e7d1"
BLOB_DATA_CONTRIBUTOR: Final = "ba92f5b4-2d11-453d-a403-e96b0029c9fe"
FILE_DATA_PRIVILEGED_CONTRIBUTOR: Final = "69566ab7-960f-475b-8e7c-b3118f30c6bd"
"""Mounts the workspace's file share without the account's key."""

ACR_PULL: Final = "7f951dda-4ed3-4680-a7ca-43fe172d538d"
ACR_PUSH: Final = "8311e382-0749-4cb8-b61a-304f252e45ec"

KEY_VAULT_ADMINISTRATOR: Final = "00482a5a-887f-4fb3-b363-3b7fe8e74483"
KEY_VAULT_SECRETS_USER: Final = "4633458b-17de-408a-b874-0445c86b69e6"
KEY_VAULT_CRYPTO_SERVICE_ENCRYPTION_USER: Final = "e147488a-f6f5-4113-8e2d-b22465e65bf6"
"""Wraps and unwraps a service's keys with one of a vault."""


AZUREML_DATA_SCIENTIST: Final = "f6c7c914-8db3-469d-8ca1-694a8f32e121"
AZUREML_COMPUTE_OPERATOR: Final = "e503ece1-11d0-4e8e-8e2c-7a6c3bf38815"
CONNECTION_APPROVER: Final = "b556d68e-0be0-4f35-a333-ad7ee1ce17ea"
"""Approves private endpoints of others to the resources that a workspace uses."""

VM_USER_LOGIN: Final = "fb879df8-f326-4884-b1cf-06f3ad86be52"
VM_ADMINISTRATOR_LOGIN: Final = "1c0163c0-47e6-4577-8991-ea5c82e286e4"
VM_POWER_ON: Final = "489581de-a3bd-480d-9518-53dea7416b33"
"""The narrowest built-in role that starts a machine."""

NAMES: Final = {
    CONTRIBUTOR: "Contributor",
    READER: "Reader",
    BLOB_DATA_READER: "Storage Blob Data Reader",
    BLOB_DATA_CONTRIBUTOR: "Storage Blob Data Contributor",
    FILE_DATA_PRIVILEGED_CONTRIBUTOR: "Storage File Data Privileged Contributor",
    ACR_PULL: "AcrPull",
    ACR_PUSH: "AcrPush",
    KEY_VAULT_ADMINISTRATOR: "Key Vault Administrator",
    KEY_VAULT_SECRETS_USER: "Key Vault Secrets User",
    KEY_VAULT_CRYPTO_SERVICE_ENCRYPTION_USER: "Key Vault Crypto Service Encryption User",
    AZUREML_DATA_SCIENTIST: "AzureML Data Scientist",
    AZUREML_COMPUTE_OPERATOR: "AzureML Compute Operator",
    CONNECTION_APPROVER: "Azure AI Enterprise Network Connection Approver",
    VM_USER_LOGIN: "Virtual Machine User Login",
    VM_ADMINISTRATOR_LOGIN: "Virtual Machine Administrator Login",
    VM_POWER_ON: "Desktop Virtualization Power On Contributor",
}
"""Every role that may be assigned; any other GUID is a mistake."""

OWNER: Final = "8e3af657-a8ff-443c-a75c-2fe8c4bcb635"
"""Never assigned; the policies check that."""

BLOB_DATA_OWNER: Final = "b7e6dc6d-f1e8-4753-8033-0f276bb0955b"
"""Never assigned; writes blobs, and changes who may."""


def definition_id(subscription: str, role: str) -> str:
    """Return the id of a role definition, as a role assignment needs it.

    Args:
        subscription: GUID of the subscription that the scope is in.
        role: one of the GUIDs above.

    Raises:
        KeyError: the role is not one that the platform assigns.
    """
    if role not in NAMES:
        raise KeyError(role)
    return _path(subscription, role)


@dataclass(frozen=True)
class OwnRole:
    """A role that a stack defines, in place of one of Azure's."""

    id: str
    """GUID of its definition."""
    label: str
    """Short and stable name, for the names of its assignments."""
    name: str
    """Name in Azure, unique in the tenant."""
    actions: tuple[str, ...]
    not_actions: tuple[str, ...]

    def properties(self, group: str) -> dict[str, Any]:
        """Return the properties of its definition in Resource Manager.

        Args:
            group: Id of the resource group in which it can be assigned.
        """
        permissions = {"actions": list(self.actions), "notActions": list(self.not_actions)}
        return {
            "roleName": self.name,
            "type": "CustomRole",
            "permissions": [permissions],
            "assignableScopes": [group],
        }


@dataclass(frozen=True)
class Role:
    """A role as assignments name it."""

    id: str
    """GUID."""
    label: str
    name: str
    definition_id: str


def resolve(role: str, own: Mapping[str, OwnRole], subscription: str) -> Role:
    """Return a role, or the one that the stack defines instead of it.

    Args:
        role: one of the GUIDs above.
        own: the stack's own roles by the GUIDs that they replace.
        subscription: GUID of the subscription that the scope is in.
    """
    defined = own.get(role)
    if defined is not None:
        return Role(defined.id, defined.label, defined.name, _path(subscription, defined.id))
    label = NAMES[role].lower().replace(" ", "-")
    return Role(role, label, NAMES[role], definition_id(subscription, role))


def _path(subscription: str, role: str) -> str:
    return f"/subscriptions/{subscription}/providers/Microsoft.Authorization/roleDefinitions/{role}"
