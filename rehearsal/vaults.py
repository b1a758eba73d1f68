"""Key vaults: deleted ones keep their name until they are purged."""

from typing_extensions import override

from rehearsal.errors import AzureError
from rehearsal.http import Answer, Asked
from rehearsal.paths import ArmPath
from rehearsal.resources import Kind, Resources, now
from rehearsal.store import Document

VAULT = "Microsoft.KeyVault/vaults"
DELETED_KIND = "Microsoft.KeyVault/locations/deletedVaults"
SPACE = "deleted_vaults"


class Vault(Kind):
    """A vault."""

    def __init__(self, resources: Resources) -> None:
        """Rules over these resources."""
        self._resources = resources

    @override
    def check(self, path: ArmPath, body: Document, before: Document | None) -> None:
        recovers = (body.get("properties") or {}).get("createMode") == "recover"
        deleted = [d for d in self._resources.store.below(SPACE) if d["name"] == path.name]
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
            self._resources.store.delete(SPACE, _deleted_id(path.id, location, path.name))

    @override
    def delete(self, path: ArmPath, document: Document, asked: Asked) -> Answer:
        if document:
            location = str(document.get("location"))
            identifier = _deleted_id(path.id, location, path.name)
            properties = document["properties"]
            gone = {
                "id": identifier,
                "name": path.name,
                "type": "Microsoft.KeyVault/deletedVaults",
                "properties": {
                    "vaultId": path.id,
                    "location": location,
                    "deletionDate": now(),
                    "purgeProtectionEnabled": properties.get("enablePurgeProtection"),
                },
            }
            self._resources.store.put(SPACE, identifier, gone)
        return Answer(200)


class DeletedVault(Kind):
    """A vault that was deleted."""

    implied = True

    def __init__(self, resources: Resources) -> None:
        """Rules over these resources."""
        self._resources = resources

    @override
    def act(self, path: ArmPath, document: Document, action: str, asked: Asked) -> Answer | None:
        if action.lower() != "purge":
            return None
        found = self._resources.store.get(SPACE, path.id)
        if found is None:
            raise AzureError(
                404,
                "DeletedVaultNotFound",
                f"The specified deleted vault {path.name} does not exist.",
            )
        if found["properties"]["purgeProtectionEnabled"]:
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
    resources.collections["microsoft.keyvault/deletedvaults"] = lambda path, _: (
        resources.store.below(SPACE, f"/subscriptions/{path.subscription}")
    )


def _deleted_id(identifier: str, location: str, name: str) -> str:
    subscription = identifier.split("/")[2]
    return (
        f"/subscriptions/{subscription}/providers/Microsoft.KeyVault/locations/{location}"
        f"/deletedVaults/{name}"
    )
