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


def _id(kind: str, *, parent: str = "") -> Pattern:
    return Pattern(
        rf"(?i:{GROUP_ID}/providers/{kind}/[^/]+{parent})",
        f"a resource id /subscriptions/.../resourceGroups/.../providers/{kind}/...",
    )


GroupId = Annotated[
    str, Pattern(GROUP_ID, "a resource group's id, /subscriptions/.../resourceGroups/...")
]
PublicKey = Annotated[
    str,
    Pattern(
        r"ssh-(rsa|ed25519) [A-Za-z0-9+/]{40,}={0,3}( \S+)?",
        "an SSH public key in one line, ssh-ed25519 AAAA... or ssh-rsa AAAA...",
    ),
]
RepositoryUrl = Annotated[
    str,
    Pattern(
        r"https://[A-Za-z0-9.-]+/[A-Za-z0-9._~/-]+",
        "an https:// address of a Git repository, without a name, a password or a query",
    ),
]
Revision = Annotated[
    str, Pattern(r"[A-Za-z0-9][A-Za-z0-9._/-]*", "a branch, a tag or a commit of the repository")
]
TimeOfDay = Annotated[str, Pattern(r"([01]\d|2[0-3])[0-5]\d", "a time of day, such as 1900")]
TimeZone = Annotated[
    str, Pattern(r"[A-Za-z0-9.()+ -]+", "a time zone by Windows' name, such as UTC")
]
KeyUri = Annotated[
    str, Pattern(r"https://[^/\s]+/keys/[^/\s]+/[^/\s]+", "https://VAULT/keys/NAME/VERSION")
]
NetworkId = Annotated[str, _id("Microsoft.Network/virtualNetworks")]
RouteTableId = Annotated[str, _id("Microsoft.Network/routeTables")]
SubnetId = Annotated[str, _id("Microsoft.Network/virtualNetworks", parent="/subnets/[^/]+")]
StorageId = Annotated[str, _id("Microsoft.Storage/storageAccounts")]
RegistryId = Annotated[str, _id("Microsoft.ContainerRegistry/registries")]
BastionId = Annotated[str, _id("Microsoft.Network/bastionHosts")]
VaultId = Annotated[str, _id("Microsoft.KeyVault/vaults")]
LogWorkspaceId = Annotated[str, _id("Microsoft.OperationalInsights/workspaces")]
Region = Annotated[str, Pattern(r"[a-z][a-z0-9]+", "a region's short name, such as westeurope")]
