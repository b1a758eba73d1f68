"""Storage accounts, their containers, identities and vaults."""

import re
from typing import Any

from typing_extensions import override

from rehearsal.blob_storage.blobs import Blobs
from rehearsal.control_plane.arm_path import ArmPath
from rehearsal.control_plane.http_messages import Answer, Asked
from rehearsal.control_plane.resource_kind import Kind, new_id
from rehearsal.control_plane.resource_manager import Resources
from rehearsal.control_plane.store import Document
from rehearsal.errors import AzureError

ACCOUNT = "Microsoft.Storage/storageAccounts"
BLOB_SERVICE = f"{ACCOUNT}/blobServices"
CONTAINER = f"{BLOB_SERVICE}/containers"

_ACCOUNT_NAME = re.compile(r"[a-z0-9]{3,24}")
_CONTAINER_NAME = re.compile(r"[a-z0-9](?:-?[a-z0-9]){2,62}")


class StorageAccount(Kind):
    """An account of the blob server."""

    def __init__(self, resources: Resources, blobs: Blobs) -> None:
        """Rules over these resources."""
        self._resources = resources
        self._blobs = blobs

    @override
    def check(self, path: ArmPath, body: Document, before: Document | None) -> None:
        if not _ACCOUNT_NAME.fullmatch(path.name):
            raise AzureError(
                400,
                "AccountNameInvalid",
                f"{path.name} is not a valid storage account name. Storage account name must be"
                " between 3 and 24 characters in length and use numbers and lower-case letters"
                " only.",
            )
        for other in self._resources.of_kind(ACCOUNT):
            if other["name"] == path.name and other["id"].lower() != path.id.lower():
                raise AzureError(
                    409,
                    "StorageAccountAlreadyTaken",
                    f"The storage account named {path.name} is already taken.",
                )

    @override
    def complete(self, path: ArmPath, document: Document, before: Document | None) -> None:
        key = None if before is None else before.get("key")
        document["key"] = self._blobs.azurite.add_account(path.name, key)
        document["properties"] |= {
            "primaryLocation": document.get("location"),
            "statusOfPrimary": "available",
        }

    @override
    def stored(self, path: ArmPath, document: Document) -> None:
        # What has settings of its own is there as soon as the account is.
        for service in _services(document):
            identifier = f"{path.id}/{service}Services/default"
            if self._resources.get(identifier) is None:
                self._resources.put(identifier, {})

    @override
    def show(self, path: ArmPath, document: Document) -> Document:
        endpoints = {"blob": f"{self._blobs.public(path.name)}/"}
        document["properties"] |= {"primaryEndpoints": endpoints}
        return {name: value for name, value in document.items() if name != "key"}

    @override
    def act(self, path: ArmPath, document: Document, action: str, asked: Asked) -> Answer | None:
        if action.lower() != "listkeys":
            return None
        if document["properties"].get("allowSharedKeyAccess") is not False:
            # Azure would answer; here nobody is ever given a key.
            return Answer(body={"keys": []})
        raise AzureError(
            409, "KeyBasedAuthenticationNotPermitted", "Key based authentication is not permitted"
        )


def _services(account: Document) -> tuple[str, ...]:
    """What an account of its kind serves."""
    only_blobs = account.get("kind") in {"BlockBlobStorage", "BlobStorage"}
    return ("blob",) if only_blobs else ("blob", "file", "queue", "table")


class Container(Kind):
    """A container of an account."""

    def __init__(self, blobs: Blobs) -> None:
        """Rules over this blob server."""
        self._blobs = blobs

    @override
    def check(self, path: ArmPath, body: Document, before: Document | None) -> None:
        if not _CONTAINER_NAME.fullmatch(path.name):
            raise AzureError(
                400, "InvalidResourceName", f"{path.name!r} is not a valid container name"
            )

    @override
    def stored(self, path: ArmPath, document: Document) -> None:
        self._blobs.make_container(account_of(path.id), path.name)

    @override
    def deleted(self, path: ArmPath, document: Document, asked: Asked) -> None:
        self._blobs.container(account_of(path.id), path.name).delete_container()


class ResourceGroup(Kind):
    """A group, which takes all that is in it with it."""

    slow = True


class AssignedIdentity(Kind):
    """A user-assigned identity."""

    @override
    def complete(self, path: ArmPath, document: Document, before: Document | None) -> None:
        known: dict[str, Any] = (before or {}).get("properties", {})
        for name in ("clientId", "principalId", "tenantId"):
            document["properties"][name] = known.get(name) or new_id()


def account_of(identifier: str) -> str:
    """Name of the storage account that an id belongs to."""
    words = identifier.split("/")
    return words[[word.lower() for word in words].index("storageaccounts") + 1]


def restore(resources: Resources, blobs: Blobs) -> None:
    """Have the accounts again that were there when this Azure was stopped."""
    for account in resources.of_kind(ACCOUNT):
        blobs.azurite.add_account(account["name"], account["key"])


def kinds(resources: Resources, blobs: Blobs) -> dict[str, Kind]:
    """Rules of all kinds here."""
    return {
        ACCOUNT: StorageAccount(resources, blobs),
        CONTAINER: Container(blobs),
        "Microsoft.Resources/resourceGroups": ResourceGroup(),
        "Microsoft.ManagedIdentity/userAssignedIdentities": AssignedIdentity(),
    }
