"""Names that only one resource in Azure may have, and the question whether one is free."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from typing_extensions import override

from rehearsal.control_plane.arm_path import ArmPath
from rehearsal.control_plane.http_messages import Request, Response
from rehearsal.control_plane.resource_kind import ResourceKind
from rehearsal.control_plane.resource_manager import ResourceManager
from rehearsal.control_plane.store import Document
from rehearsal.errors import AzureError

ACCOUNT: Final = "Microsoft.Storage/storageAccounts"
REGISTRY: Final = "Microsoft.ContainerRegistry/registries"
VAULT: Final = "Microsoft.KeyVault/vaults"
DELETED_VAULT: Final = "Microsoft.KeyVault/locations/deletedVaults"


@dataclass(frozen=True)
class Refusal:
    """How the provider of a kind refuses a name that another resource has."""

    code: str
    message: str


REFUSALS: Final[Mapping[str, Refusal]] = {
    ACCOUNT: Refusal(
        "StorageAccountAlreadyTaken", "The storage account named {} is already taken."
    ),
    REGISTRY: Refusal("AlreadyInUse", "The registry DNS name {}.azurecr.io is already in use."),
    VAULT: Refusal("VaultAlreadyExists", "The vault name '{}' is already in use."),
}


def check(resources: ResourceManager, path: ArmPath) -> None:
    """Raise an AzureError if another resource of the kind has this name, in any subscription."""
    for other in resources.of_kind(path.kind):
        if _same(other["name"], path.name) and not _same(other["id"], path.id):
            refusal = REFUSALS[path.kind]
            raise AzureError(409, refusal.code, refusal.message.format(path.name))


class NameCheck(ResourceKind):
    """The provider of one kind, which says whether a name is free in all of Azure."""

    def __init__(self, resources: ResourceManager, kind: str) -> None:
        """Answer for this kind."""
        self._resources, self._kind = resources, kind

    @override
    def act(
        self, path: ArmPath, document: Document, action: str, request: Request
    ) -> Response | None:
        if action.lower() != "checknameavailability":
            return None
        name = str(request.json().get("name"))
        used = [*self._resources.of_kind(self._kind)]
        if self._kind == VAULT:
            used += self._resources.of_kind(DELETED_VAULT)
        if not any(_same(other["name"], name) for other in used):
            return Response(body={"nameAvailable": True})
        message = REFUSALS[self._kind].message.format(name)
        return Response(
            body={"nameAvailable": False, "reason": "AlreadyExists", "message": message}
        )


def kinds(resources: ResourceManager) -> dict[str, ResourceKind]:
    """Return the providers that answer about names."""
    return {kind.partition("/")[0]: NameCheck(resources, kind) for kind in REFUSALS}


def _same(name: str, other: str) -> bool:
    return name.lower() == other.lower()
