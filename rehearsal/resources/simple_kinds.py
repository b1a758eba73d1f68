"""Kinds with a single rule: most get an address or an id when they are created."""

from typing import Any

from typing_extensions import override

from rehearsal.control_plane.arm_path import ArmPath
from rehearsal.control_plane.azure_formats import new_id
from rehearsal.control_plane.resource_kind import ResourceKind
from rehearsal.control_plane.resource_manager import ResourceManager
from rehearsal.control_plane.store import Document
from rehearsal.resources import global_names


class ResourceGroup(ResourceKind):
    """A resource group; deleting it deletes everything in it."""

    deleted_later = True


class UserAssignedIdentity(ResourceKind):
    """An identity with the ids for role assignments and authentication."""

    @override
    def complete(self, path: ArmPath, document: Document, before: Document | None) -> None:
        known: dict[str, Any] = (before or {}).get("properties", {})
        for name in ("clientId", "principalId", "tenantId"):
            document["properties"][name] = known.get(name) or new_id()


class ContainerRegistry(ResourceKind):
    """A container registry, which gets an address."""

    def __init__(self, resources: ResourceManager) -> None:
        """Apply the rules to these resources."""
        self._resources = resources

    @override
    def check(self, path: ArmPath, body: Document, before: Document | None) -> None:
        global_names.check(self._resources, path)

    @override
    def complete(self, path: ArmPath, document: Document, before: Document | None) -> None:
        document["properties"]["loginServer"] = f"{path.name.lower()}.azurecr.io"


class LogWorkspace(ResourceKind):
    """A Log Analytics workspace, which gets an id."""

    @override
    def complete(self, path: ArmPath, document: Document, before: Document | None) -> None:
        known = {} if before is None else before["properties"]
        document["properties"]["customerId"] = known.get("customerId") or new_id()


def kinds(resources: ResourceManager) -> dict[str, ResourceKind]:
    """Return the rules of all kinds of this module."""
    return {
        "Microsoft.Resources/resourceGroups": ResourceGroup(),
        "Microsoft.ManagedIdentity/userAssignedIdentities": UserAssignedIdentity(),
        global_names.REGISTRY: ContainerRegistry(resources),
        "Microsoft.OperationalInsights/workspaces": LogWorkspace(),
    }
