"""What a resource of each kind shows of its state and its author. Pure.

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
        "Microsoft.MachineLearningServices/workspaces/datastores",
        "Microsoft.MachineLearningServices/workspaces/outboundRules",
        "Microsoft.ManagedIdentity/userAssignedIdentities",
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
        "Microsoft.Authorization/roleAssignments",
        "Microsoft.Authorization/roleDefinitions",
        "Microsoft.Compute/",
        "Microsoft.Consumption/",
        "Microsoft.DevTestLab/",
        "Microsoft.Insights/actionGroups",
        "Microsoft.Insights/components",
        "Microsoft.KeyVault/vaults/keys",
        "Microsoft.Network/",
        "Microsoft.Resources/",
        "Microsoft.Storage/",
    )
)
"""Beginnings of kinds without `systemData`."""


def shown(document: Document) -> Document:
    """Return a resource without a state or an author that its kind does not have in Azure."""
    kind = str(document.get("type", "")).lower()
    left = {"systemData"} if kind.startswith(_WITHOUT_AUTHOR) else set()
    seen = {name: value for name, value in document.items() if name not in left}
    if kind in _STATELESS:
        properties = seen.get("properties") or {}
        seen["properties"] = {
            name: value for name, value in properties.items() if name != "provisioningState"
        }
    return seen
