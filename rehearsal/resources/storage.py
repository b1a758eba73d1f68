"""Storage accounts and their containers."""

import re

from typing_extensions import override

from rehearsal.blob_storage.blobs import Blobs
from rehearsal.control_plane.arm_path import ArmPath
from rehearsal.control_plane.http_messages import Request, Response
from rehearsal.control_plane.resource_kind import ResourceKind
from rehearsal.control_plane.resource_manager import ResourceManager
from rehearsal.control_plane.store import Document
from rehearsal.errors import AzureError
from rehearsal.resources import global_names

ACCOUNT = global_names.ACCOUNT
BLOB_SERVICE = f"{ACCOUNT}/blobServices"
CONTAINER = f"{BLOB_SERVICE}/containers"

_ACCOUNT_NAME = re.compile(r"[a-z0-9]{3,24}")
_CONTAINER_NAME = re.compile(r"[a-z0-9](?:-?[a-z0-9]){2,62}")


class StorageAccount(ResourceKind):
    """A storage account, served by the blob server."""

    def __init__(self, resources: ResourceManager, blobs: Blobs) -> None:
        """Apply the rules to these resources."""
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
        global_names.check(self._resources, path)

    @override
    def complete(self, path: ArmPath, document: Document, before: Document | None) -> None:
        key = None if before is None else before.get("key")
        document["key"] = self._blobs.azurite.add_account(path.name, key)
        document["properties"] |= {
            "primaryLocation": document.get("location"),
            "statusOfPrimary": "available",
        }

    @override
    def after_put(self, path: ArmPath, document: Document) -> None:
        # The service settings of an account exist as soon as the account does.
        for service in _services(document):
            identifier = f"{path.id}/{service}Services/default"
            if self._resources.get(identifier) is None:
                self._resources.put(identifier, {})

    @override
    def show(self, path: ArmPath, document: Document) -> Document:
        endpoints = {"blob": f"{self._blobs.address(path.name)}/"}
        document["properties"] |= {"primaryEndpoints": endpoints}
        return {name: value for name, value in document.items() if name != "key"}

    @override
    def act(
        self, path: ArmPath, document: Document, action: str, request: Request
    ) -> Response | None:
        if action.lower() != "listkeys":
            return None
        if document["properties"].get("allowSharedKeyAccess") is not False:
            # Real Azure would return keys; here no client ever gets one.
            return Response(body={"keys": []})
        raise AzureError(
            409, "KeyBasedAuthenticationNotPermitted", "Key based authentication is not permitted"
        )


def _services(account: Document) -> tuple[str, ...]:
    """Return the services that an account of its kind has."""
    only_blobs = account.get("kind") in {"BlockBlobStorage", "BlobStorage"}
    return ("blob",) if only_blobs else ("blob", "file", "queue", "table")


class BlobContainer(ResourceKind):
    """A container of a storage account."""

    def __init__(self, blobs: Blobs) -> None:
        """Apply the rules to this blob server."""
        self._blobs = blobs

    @override
    def check(self, path: ArmPath, body: Document, before: Document | None) -> None:
        if not _CONTAINER_NAME.fullmatch(path.name):
            raise AzureError(
                400, "InvalidResourceName", f"{path.name!r} is not a valid container name"
            )

    @override
    def after_put(self, path: ArmPath, document: Document) -> None:
        self._blobs.make_container(account_of(path.id), path.name)

    @override
    def after_delete(self, path: ArmPath, document: Document, request: Request) -> None:
        self._blobs.container(account_of(path.id), path.name).delete_container()


def account_of(identifier: str) -> str:
    """Return the name of the storage account that an id belongs to."""
    parts = identifier.split("/")
    return parts[[part.lower() for part in parts].index("storageaccounts") + 1].lower()


def restore(resources: ResourceManager, blobs: Blobs) -> None:
    """Register the accounts of an earlier run of this Azure with the blob server."""
    for account in resources.of_kind(ACCOUNT):
        blobs.azurite.add_account(account["name"], account["key"])


def kinds(resources: ResourceManager, blobs: Blobs) -> dict[str, ResourceKind]:
    """Return the rules of all kinds of this module."""
    return {
        ACCOUNT: StorageAccount(resources, blobs),
        CONTAINER: BlobContainer(blobs),
    }
