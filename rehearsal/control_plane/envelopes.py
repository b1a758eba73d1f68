"""State and author in the documents of resources, by kind. Pure.

Taken from the models of Microsoft's generated clients. A client that knows a property only where
Azure has it must not find it elsewhere: code that waits for `provisioningState` would work here,
and wait forever on Azure.
"""

from typing import Final

from rehearsal.control_plane.store import Document

_STATELESS: Final = frozenset(
    kind.lower()
    for kind in (
        "Microsoft.Authorization/locks",
        "Microsoft.Authorization/roleAssignments",
        "Microsoft.Authorization/roleDefinitions",
        "Microsoft.Consumption/budgets",
        "Microsoft.Insights/actionGroups",
        "Microsoft.Insights/diagnosticSettings",
        "Microsoft.Insights/scheduledQueryRules",
        "Microsoft.KeyVault/vaults/keys",
        "Microsoft.KeyVault/deletedVaults",
        "Microsoft.MachineLearningServices/workspaces/data/versions",
        "Microsoft.MachineLearningServices/workspaces/datastores",
        "Microsoft.MachineLearningServices/workspaces/outboundRules",
        "Microsoft.ManagedIdentity/userAssignedIdentities",
        "Microsoft.ManagedIdentity/userAssignedIdentities/federatedIdentityCredentials",
        "Microsoft.Storage/storageAccounts/blobServices",
        "Microsoft.Storage/storageAccounts/blobServices/containers",
        "Microsoft.Storage/storageAccounts/fileServices",
        "Microsoft.Storage/storageAccounts/managementPolicies",
    )
)
"""Kinds without `provisioningState`."""
_WITHOUT_AUTHOR: Final = tuple(
    start.lower()
    for start in (
        "Microsoft.Authorization/",
        "Microsoft.Compute/",
        "Microsoft.Consumption/",
        "Microsoft.DevTestLab/",
        "Microsoft.Insights/actionGroups",
        "Microsoft.Insights/components",
        "Microsoft.KeyVault/deletedVaults",
        "Microsoft.KeyVault/vaults/keys",
        "Microsoft.MachineLearningServices/workspaces/computes",
        "Microsoft.Network/",
        "Microsoft.Resources/",
        "Microsoft.Storage/",
    )
)
"""Beginnings of kinds without `systemData`."""


_AUTHOR_SINCE: Final = {"microsoft.keyvault/vaults": "2021"}
"""First API versions that show `systemData`, by kind."""
_UNCHANGED: Final = (
    "microsoft.machinelearningservices/workspaces/jobs",
    "microsoft.machinelearningservices/workspaces/data/versions",
)
"""Kinds whose `systemData` does not say who changed them."""


def shown(document: Document, version: str = "") -> Document:
    """Return a resource without a state or an author that its kind does not have in Azure.

    Args:
        document: The resource.
        version: API version of the request; empty for the newest.
    """
    kind = str(document.get("type", "")).lower()
    old = version and version < _AUTHOR_SINCE.get(kind, "")
    left = {"systemData"} if old or kind.startswith(_WITHOUT_AUTHOR) else set()
    seen = {name: value for name, value in document.items() if name not in left}
    if kind in _UNCHANGED:
        seen["systemData"] = {
            name: value
            for name, value in seen["systemData"].items()
            if not name.startswith("lastModifiedBy")
            and (name != "lastModifiedAt" or kind.endswith("versions"))
        }
    if kind in _STATELESS:
        properties = seen.get("properties") or {}
        seen["properties"] = {
            name: value for name, value in properties.items() if name != "provisioningState"
        }
    return seen
