"""Key vaults: a deleted vault keeps its name until it is purged."""

from dataclasses import dataclass

from typing_extensions import override

from rehearsal.control_plane.arm_path import ArmPath
from rehearsal.control_plane.azure_formats import new_id, timestamp
from rehearsal.control_plane.http_messages import Request, Response
from rehearsal.control_plane.resource_kind import ResourceKind
from rehearsal.control_plane.resource_manager import ListResources, ResourceManager
from rehearsal.control_plane.store import Document
from rehearsal.errors import AzureError
from rehearsal.resources import global_names

VAULT = global_names.VAULT
DELETED_KIND = global_names.DELETED_VAULT


class Vault(ResourceKind):
    """A key vault."""

    def __init__(self, resources: ResourceManager) -> None:
        """Apply the rules to these resources."""
        self._resources = resources

    @override
    def check(self, path: ArmPath, body: Document, before: Document | None) -> None:
        global_names.check(self._resources, path)
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
            self._resources.discard(_deleted_id(path.id, location))

    @override
    def after_delete(self, path: ArmPath, document: Document, request: Request) -> None:
        location = str(document.get("location"))
        properties = {
            "vaultId": path.id,
            "location": location,
            "deletionDate": timestamp(),
            "purgeProtectionEnabled": document["properties"].get("enablePurgeProtection"),
        }
        self._resources.put(_deleted_id(path.id, location), {"properties": properties})


class DeletedVault(ResourceKind):
    """A deleted vault. Its region, the parent, always exists."""

    needs_parent = False

    def __init__(self, resources: ResourceManager) -> None:
        """Apply the rules to these resources."""
        self._resources = resources

    @override
    def act(
        self, path: ArmPath, document: Document, action: str, request: Request
    ) -> Response | None:
        if action.lower() != "purge":
            return None
        if document["properties"]["purgeProtectionEnabled"]:
            raise AzureError(
                409,
                "MethodNotAllowed",
                f'Operation "DeletedVaultPurge" is not allowed: {path.name} has purge protection.',
            )
        self._resources.discard(path.id)
        return Response(200)


@dataclass(frozen=True)
class Secrets:
    """The data plane of all vaults; a secret is created through Resource Manager."""

    resources: ResourceManager

    def respond(self, request: Request) -> Response:
        """Respond to `GET /secrets/NAME`.

        Raises:
            AzureError: there is no such secret.
        """
        name = request.path.removeprefix("/secrets/")
        for secret in self.resources.of_kind(f"{VAULT}/secrets"):
            if secret["name"] == name:
                return Response(body={"value": secret["properties"]["value"]})
        raise AzureError(404, "SecretNotFound", f"A secret with name {name} was not found.")


class VaultKey(ResourceKind):
    """A key in a vault, which clients cannot use."""

    @override
    def complete(self, path: ArmPath, document: Document, before: Document | None) -> None:
        vault = path.parent.rpartition("/")[2]
        known = {} if before is None else before["properties"]
        address = f"https://{vault}.vault.azure.net/keys/{path.name}"
        document["properties"]["keyUri"] = address
        document["properties"]["keyUriWithVersion"] = (
            known.get("keyUriWithVersion") or f"{address}/{new_id().replace('-', '')}"
        )


def kinds(resources: ResourceManager) -> dict[str, ResourceKind]:
    """Return the rules of vaults, deleted vaults and keys."""
    return {
        VAULT: Vault(resources),
        DELETED_KIND: DeletedVault(resources),
        f"{VAULT}/keys": VaultKey(),
    }


def lists(resources: ResourceManager) -> dict[str, ListResources]:
    """Return the computed list of a subscription's deleted vaults."""

    def deleted_vaults(path: ArmPath, request: Request) -> list[Document]:  # noqa: ARG001
        return [
            document
            for document in resources.of_kind(DELETED_KIND)
            if document["id"].startswith(f"/subscriptions/{path.subscription}/")
        ]

    return {"Microsoft.KeyVault/deletedVaults": deleted_vaults}


def _deleted_id(identifier: str, location: str) -> str:
    subscription, name = identifier.split("/")[2], identifier.rsplit("/", 1)[1]
    return (
        f"/subscriptions/{subscription}/providers/Microsoft.KeyVault/locations/{location}"
        f"/deletedVaults/{name}"
    )
