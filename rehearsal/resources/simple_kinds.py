"""Kinds with a single rule: most get an address or an id when they are created."""

from typing import Any, Final

from typing_extensions import override

from rehearsal.control_plane.arm_path import ArmPath
from rehearsal.control_plane.azure_formats import new_id
from rehearsal.control_plane.resource_kind import ResourceKind
from rehearsal.control_plane.resource_manager import ResourceManager
from rehearsal.control_plane.store import Document
from rehearsal.errors import user_error
from rehearsal.resources import global_names

REPLICATION: Final = f"{global_names.REGISTRY}/replications"


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

    @override
    def takes_time(self, path: ArmPath, document: Document, *, ends: bool) -> bool:
        # Recorded: at once, unless the content is encrypted; deletions take time since 2022.
        encryption = document["properties"].get("encryption") or {}
        if ends:
            return not path.version or path.version >= "2022"
        return str(encryption.get("status")).lower() == "enabled"

    @override
    def show(self, path: ArmPath, document: Document) -> Document:
        replicas = self._resources.of_kind(REPLICATION, path.id)
        regions = [str(place.get("location", "")) for place in (document, *replicas)]
        document["properties"]["dataEndpointHostNames"] = [
            f"{path.name.lower()}.{region}.data.azurecr.io" for region in regions
        ]
        return document


class Replication(ResourceKind):
    """A copy of a registry in another region."""

    def __init__(self, resources: ResourceManager) -> None:
        """Apply the rules to these resources."""
        self._resources = resources

    @override
    def check(self, path: ArmPath, body: Document, before: Document | None) -> None:
        registry = self._resources.get(path.parent) or {}
        if str((registry.get("sku") or {}).get("name", "")).lower() != "premium":
            raise user_error(f"Registry {registry.get('name')}: its tier has no geo-replication.")
        others = self._resources.of_kind(REPLICATION, path.parent)
        taken = [
            place for place in (registry, *others) if place.get("id", "").lower() != path.id.lower()
        ]
        if body.get("location") in [place.get("location") for place in taken]:
            raise user_error(
                f"Registry {registry.get('name')}: already has a copy in {body.get('location')}."
            )


class LogWorkspace(ResourceKind):
    """A Log Analytics workspace, which gets an id."""

    @override
    def complete(self, path: ArmPath, document: Document, before: Document | None) -> None:
        known = {} if before is None else before["properties"]
        document["properties"]["customerId"] = known.get("customerId") or new_id()


def kinds(resources: ResourceManager) -> dict[str, ResourceKind]:
    """Return the rules of all kinds of this module."""
    return {
        "Microsoft.ManagedIdentity/userAssignedIdentities": UserAssignedIdentity(),
        global_names.REGISTRY: ContainerRegistry(resources),
        REPLICATION: Replication(resources),
        "Microsoft.OperationalInsights/workspaces": LogWorkspace(),
    }
