"""Types of settings: texts that must have a form, such as the id of an Azure resource."""

from typing import Annotated

from common.annotations import Pattern

GUID = r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
Guid = Annotated[str, Pattern(GUID, "a GUID")]
Email = Annotated[str, Pattern(r"[^@\s]+@[^@\s]+\.[^@\s]+", "an e-mail address")]
SubscriptionGuid = Annotated[
    str,
    Pattern(
        GUID,
        "the GUID of the stack's subscription, or tenant; `make configure STACK=NAME` sets both to"
        " those that the Azure CLI is signed in to",
    ),
]
GROUP_ID = r"/subscriptions/[^/]+/resource[gG]roups/[^/]+"


def id_of(kind: str, *, parent: str = "") -> Pattern:
    """Return the form of the id of a resource of one type, such as Microsoft.KeyVault/vaults."""
    return Pattern(
        rf"(?i:{GROUP_ID}/providers/{kind}/[^/]+{parent})",
        f"a resource id /subscriptions/.../resourceGroups/.../providers/{kind}/...",
    )


GroupId = Annotated[
    str, Pattern(GROUP_ID, "a resource group's id, /subscriptions/.../resourceGroups/...")
]
NetworkId = Annotated[str, id_of("Microsoft.Network/virtualNetworks")]
RouteTableId = Annotated[str, id_of("Microsoft.Network/routeTables")]
SubnetId = Annotated[str, id_of("Microsoft.Network/virtualNetworks", parent="/subnets/[^/]+")]
StorageId = Annotated[str, id_of("Microsoft.Storage/storageAccounts")]
RegistryId = Annotated[str, id_of("Microsoft.ContainerRegistry/registries")]
VaultId = Annotated[str, id_of("Microsoft.KeyVault/vaults")]
IdentityId = Annotated[str, id_of("Microsoft.ManagedIdentity/userAssignedIdentities")]
LogWorkspaceId = Annotated[str, id_of("Microsoft.OperationalInsights/workspaces")]
Region = Annotated[str, Pattern(r"[a-z][a-z0-9]+", "a region's short name, such as westeurope")]
