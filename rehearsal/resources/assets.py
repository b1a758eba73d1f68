"""Versioned assets of a workspace, and references of jobs to assets and datastore folders."""

import re
from typing import Any

from typing_extensions import override

from rehearsal.blob_storage.blobs import BlobPath, Blobs
from rehearsal.control_plane.arm_path import ArmPath
from rehearsal.control_plane.azure_formats import new_id
from rehearsal.control_plane.http_messages import Request, Response
from rehearsal.control_plane.resource_kind import ResourceKind
from rehearsal.control_plane.resource_manager import ResourceManager
from rehearsal.control_plane.store import Document
from rehearsal.errors import AzureError, user_error
from rehearsal.resources.workspaces import WORKSPACE, default_account, workspace_of

_DATASTORE = re.compile(
    r"azureml://(?:subscriptions/[^/]+/resourcegroups/[^/]+/(?:providers/[^/]+/)?workspaces/[^/]+/)?"
    r"datastores/([^/]+)(?:/paths)?/?(.*)",
    re.IGNORECASE,
)
_ASSET = re.compile(r"(?:azureml:)?([^:/@]+)(?::([^:/@]+)|@(latest))")


FAMILIES = ("environments", "codes", "data", "models")
_FIXED = {
    "environments": ("image", "build", "condaFile"),
    "codes": ("codeUri",),
    "data": ("dataUri", "dataType"),
    "models": ("modelUri", "modelType"),
}
"""Properties of a version that cannot change."""


class AssetVersion(ResourceKind):
    """A version of an asset, whose content cannot change."""

    needs_parent = False

    def __init__(self, resources: ResourceManager, blobs: Blobs, family: str) -> None:
        """Apply the rules of one family of assets.

        Args:
            resources: All resources.
            blobs: Blob storage for uploaded contents.
            family: Family of the assets, one of FAMILIES.
        """
        self._resources = resources
        self._blobs = blobs
        self._family = family
        # The SDK looks code up by its hash before it has been registered.
        self.lists_without_parent = family == "codes"

    @override
    def check(self, path: ArmPath, body: Document, before: Document | None) -> None:
        workspace = workspace_of(path.id)
        if self._resources.get(workspace) is None:
            raise AzureError(
                404,
                "ResourceNotFound",
                f"The Resource '{WORKSPACE}/{workspace.rsplit('/', 1)[1]}' under resource group"
                f" '{path.group}' was not found.",
            )
        properties: dict[str, Any] = body.get("properties") or {}
        if not any(properties.get(name) for name in _FIXED[self._family]):
            raise user_error(
                f"{path.name}: one of {', '.join(_FIXED[self._family])} must be given."
            )
        changed = [
            name
            for name in _FIXED[self._family]
            if before is not None and properties.get(name) != before["properties"].get(name)
        ]
        if changed:
            raise AzureError(
                409,
                "Conflict",
                f"Asset {path.parent.rsplit('/', 1)[1]} with version {path.name} already exists;"
                f" {', '.join(changed)} cannot be changed.",
            )

    @override
    def complete(self, path: ArmPath, document: Document, before: Document | None) -> None:
        properties = document["properties"]
        for name in ("tags", "properties", *(["flavors"] if self._family == "models" else [])):
            properties[name] = properties.get(name) or {}
        properties["isArchived"] = bool(properties.get("isArchived"))

    @override
    def show(self, path: ArmPath, document: Document) -> Document:
        if self._family == "environments":
            known = self._resources.get(path.parent) or {"properties": {}}
            if known["properties"].get("latestVersion") == path.name:
                own = document["properties"].get("properties") or {}
                document["properties"]["properties"] = {**own, "azureml.labels": "latest"}
        return document

    @override
    def after_put(self, path: ArmPath, document: Document) -> None:
        known = self._resources.get(path.parent) or {"properties": {}}
        latest = max(_number(path.name), _number(known["properties"].get("latestVersion", "0")))
        self._resources.put(
            path.parent,
            {"properties": {"latestVersion": path.name, "nextVersion": str(latest + 1)}},
        )

    @override
    def select(self, path: ArmPath, documents: list[Document], request: Request) -> list[Document]:
        digest = request.query.get("hash")
        if digest is not None:
            documents = [
                document
                for document in documents
                if (document["properties"].get("properties") or {}).get("hash_sha256") == digest
            ]
        if "createdtime desc" in request.query.get("$orderBy", request.query.get("orderBy", "")):
            documents = documents[::-1]
        top = request.query.get("$top")
        return documents if top is None else documents[: int(top)]

    @override
    def act(
        self, path: ArmPath, document: Document, action: str, request: Request
    ) -> Response | None:
        if action.lower() != "startpendingupload":
            return None
        workspace = workspace_of(path.id)
        account = default_account(self._resources, workspace)
        pending = new_id()
        container = f"{self._family}-{pending}"
        self._blobs.make_container(account, container)
        address, signed = self._blobs.signed_container(account, container)
        reference = {
            "blobUri": address,
            "storageAccountArmId": self._resources.get(workspace)["properties"]["storageAccount"],  # type: ignore[index]
            "credential": {"credentialType": "SAS", "sasUri": signed},
        }
        return Response(
            body={
                "pendingUploadId": pending,
                "pendingUploadType": "TemporaryBlobReference",
                "blobReferenceForConsumption": reference,
            }
        )


class ComponentVersion(ResourceKind):
    """A step of a pipeline, which is refused: the SDK registers it before it submits a pipeline."""

    needs_parent = False

    @override
    def check(self, path: ArmPath, body: Document, before: Document | None) -> None:
        raise user_error(
            "Components, and so pipelines, are not supported here: the simulator runs command jobs."
            " Submit their commands as jobs."
        )


def kinds(resources: ResourceManager, blobs: Blobs) -> dict[str, ResourceKind]:
    """Return the rules for versions of all families, and of components."""
    return {
        f"{WORKSPACE}/components/versions": ComponentVersion(),
        **{
            f"{WORKSPACE}/{family}/versions": AssetVersion(resources, blobs, family)
            for family in FAMILIES
        },
    }


def blob_path(
    resources: ResourceManager, workspace: str, uri: str, family: str = "data"
) -> BlobPath:
    """Return the folder or blob that a URI or the name of an asset refers to.

    Raises:
        AzureError: there is no such datastore or asset.
    """
    match = _DATASTORE.fullmatch(uri)
    if match is not None:
        return _in_datastore(resources, workspace, match[1], match[2])
    identifier = asset_id(resources, workspace, uri, family)
    document = resources.get(identifier)
    if document is None:
        raise user_error(
            f"The data asset {uri} was not found in workspace {workspace.rsplit('/', 1)[1]}."
        )
    properties = document["properties"]
    return blob_path(resources, workspace, properties.get("dataUri") or properties["modelUri"])


def asset_id(resources: ResourceManager, workspace: str, text: str, family: str) -> str:
    """Return the id of the asset version that a job refers to.

    Raises:
        AzureError: the text is not a reference to an asset.
    """
    plain = text.removeprefix("azureml:")
    if plain.lower().startswith("/subscriptions/"):
        return plain
    match = _ASSET.fullmatch(plain)
    if match is None:
        raise user_error(f"{text!r} names neither a folder of a datastore nor an asset.")
    version = match[2]
    if match[3]:
        document = resources.get(f"{workspace}/{family}/{match[1]}") or {"properties": {}}
        version = document["properties"].get("latestVersion", "latest")
    return f"{workspace}/{family}/{match[1]}/versions/{version}"


def _in_datastore(resources: ResourceManager, workspace: str, name: str, path: str) -> BlobPath:
    document = resources.get(f"{workspace}/datastores/{name}")
    if document is None:
        raise user_error(
            f"Could not find datastore: {name} in workspace {workspace.rsplit('/', 1)[1]}."
        )
    properties = document["properties"]
    return BlobPath(properties["accountName"], properties["containerName"], path.strip("/"))


def _number(version: str) -> int:
    return int(version) if version.isdigit() else 0
