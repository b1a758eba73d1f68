"""Key vaults: deleted ones keep their name until they are purged."""

from typing_extensions import override

from rehearsal.control_plane.arm_path import ArmPath
from rehearsal.control_plane.http_messages import Answer, Asked
from rehearsal.control_plane.resource_kind import Kind, now
from rehearsal.control_plane.resource_manager import SPACE, Resources
from rehearsal.control_plane.store import Document
from rehearsal.errors import AzureError

VAULT = "Microsoft.KeyVault/vaults"
DELETED_KIND = "Microsoft.KeyVault/locations/deletedVaults"


class Vault(Kind):
    """A vault."""

    def __init__(self, resources: Resources) -> None:
        """Rules over these resources."""
        self._resources = resources

    @override
    def check(self, path: ArmPath, body: Document, before: Document | None) -> None:
        recovers = (body.get("properties") or {}).get("createMode") == "recover"
        gone = self._resources.of_kind(DELETED_KIND)
        deleted = [document for document in gone if document["name"] == path.name]
        if before is None and deleted and not recovers:
            raise AzureError(
                409,
                "ConflictError",
                "A vault with the same name already exists in deleted state. You need to either"
                f" recover or purge existing key vault. {path.name}",
            )

    @override
    def complete(self, path: ArmPath, document: Document, before: Document | None) -> None:
        properties = document["properties"]
        properties.setdefault("enableSoftDelete", True)
        properties["vaultUri"] = f"https://{path.name}.vault.azure.net/"
        if before is None:
            location = str(document.get("location"))
            self._resources.store.delete(SPACE, _deleted_id(path.id, location))

    @override
    def deleted(self, path: ArmPath, document: Document, asked: Asked) -> None:
        location = str(document.get("location"))
        properties = {
            "vaultId": path.id,
            "location": location,
            "deletionDate": now(),
            "purgeProtectionEnabled": document["properties"].get("enablePurgeProtection"),
        }
        self._resources.put(_deleted_id(path.id, location), {"properties": properties})


class DeletedVault(Kind):
    """A vault that was deleted; a region is there without being made."""

    implied = True

    def __init__(self, resources: Resources) -> None:
        """Rules over these resources."""
        self._resources = resources

    @override
    def act(self, path: ArmPath, document: Document, action: str, asked: Asked) -> Answer | None:
        if action.lower() != "purge":
            return None
        if document["properties"]["purgeProtectionEnabled"]:
            raise AzureError(
                409,
                "MethodNotAllowed",
                f'Operation "DeletedVaultPurge" is not allowed: {path.name} has purge protection.',
            )
        self._resources.store.delete(SPACE, path.id)
        return Answer(200)


def register(resources: Resources) -> None:
    """Answer for vaults."""
    resources.register({VAULT: Vault(resources), DELETED_KIND: DeletedVault(resources)})
    resources.collections["microsoft.keyvault/deletedvaults"] = lambda path, _: [
        document
        for document in resources.of_kind(DELETED_KIND)
        if document["id"].startswith(f"/subscriptions/{path.subscription}/")
    ]


def _deleted_id(identifier: str, location: str) -> str:
    subscription, name = identifier.split("/")[2], identifier.rsplit("/", 1)[1]
    return (
        f"/subscriptions/{subscription}/providers/Microsoft.KeyVault/locations/{location}"
        f"/deletedVaults/{name}"
    )
