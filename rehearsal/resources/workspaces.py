"""Azure Machine Learning workspaces and their datastores."""

from dataclasses import dataclass
from typing import Final

from typing_extensions import override

from rehearsal.blob_storage.blobs import Blobs
from rehearsal.control_plane.arm_path import ArmPath
from rehearsal.control_plane.azure_formats import new_id
from rehearsal.control_plane.http_messages import Request, Response
from rehearsal.control_plane.resource_kind import ResourceKind
from rehearsal.control_plane.resource_manager import ResourceManager
from rehearsal.control_plane.store import Document
from rehearsal.errors import AzureError, user_error
from rehearsal.resources import managed_networks
from rehearsal.resources.roles import Roles
from rehearsal.resources.storage import account_of

WORKSPACE = managed_networks.WORKSPACE
DATASTORE = f"{WORKSPACE}/datastores"
ARTIFACTS = "workspaceartifactstore"
DELETED = "deleted_workspaces"


_SHARES: Final = {
    "workspaceworkingdirectory": "code-{}",
    "workspacefilestore": "azureml-filestore-{}",
}
"""The datastores that are file shares, which nothing serves here."""
_SIGNED_IN: Final = {
    "endpoint": "localhost",
    "protocol": "https",
    "credentials": {"credentialsType": "None"},
}
_REFUSED_SINCE: Final = "2025"
"""First API versions with which a workspace without Application Insights is refused. Azure refuses
it with every version since 2026; calls of older versions were recorded before."""


@dataclass(frozen=True)
class Workspace(ResourceKind):
    """A workspace; a deletion soft-deletes it unless it is purged at once."""

    resources: ResourceManager
    blobs: Blobs
    url: str
    """Address of this Azure."""
    roles: Roles
    """Decides whether the identity of a workspace may use its account."""

    @override
    def check(self, path: ArmPath, body: Document, before: Document | None) -> None:
        if before is None and self.resources.store.get(DELETED, path.id) is not None:
            raise AzureError(
                409,
                "Conflict",
                f"Soft-deleted workspace exists. Please purge or recover it. {path.name}",
            )
        managed_networks.check_workspace(self.resources, path, body, before)
        properties = body.get("properties") or {}
        account = properties.get("storageAccount")
        if before is None:
            _check_insights(path, body)
        if account is None or self.resources.get(account) is None:
            raise AzureError(
                400,
                "ValidationError",
                f"The storage account {account!r} of workspace {path.name} was not found.",
            )
        for name in (body.get("identity") or {}).get("userAssignedIdentities") or {}:
            assigned = (self.resources.get(name) or {"properties": {}})["properties"]
            self.roles.check_contributor(str(assigned.get("principalId")), account)

    @override
    def complete(self, path: ArmPath, document: Document, before: Document | None) -> None:
        known = {} if before is None else before["properties"]
        identity = document.get("identity") or {"type": "SystemAssigned"}
        for name, client in (identity.get("userAssignedIdentities") or {}).items():
            assigned = self.resources.get(name) or {"properties": {}}
            for value in ("principalId", "clientId"):
                client[value] = assigned["properties"].get(value) or new_id()
        if "SystemAssigned" in identity.get("type", ""):
            identity |= {"principalId": identity.get("principalId") or new_id()}
        document["identity"] = identity
        document["sku"] = {"name": "Basic", "tier": "Basic"}
        identity["tenantId"] = self.resources.tenant_id
        guid = known.get("workspaceId") or new_id()
        document["properties"] |= {
            "workspaceId": guid,
            "friendlyName": document["properties"].get("friendlyName") or path.name,
            "tenantId": self.resources.tenant_id,
            "creationTime": document["systemData"]["createdAt"],
            "sdkTelemetryAppInsightsKey": known.get("sdkTelemetryAppInsightsKey") or new_id(),
            "notebookInfo": {
                "resourceId": guid.replace("-", ""),
                "fqdn": f"ml-{path.name}-{document.get('location')}-{guid}.notebooks.azure.net",
                "isPrivateLinkEnabled": False,
                "notebookPreparationError": None,
            },
        }
        managed_networks.complete_workspace(path, document)

    @override
    def after_put(self, path: ArmPath, document: Document) -> None:
        properties = document["properties"]
        account = account_of(properties["storageAccount"])
        isolated = properties.get("enableDataIsolation")
        guid = properties["workspaceId"]
        for name, container in {
            "workspaceblobstore": (
                f"{guid}-azureml-blobstore" if isolated else f"azureml-blobstore-{guid}"
            ),
            ARTIFACTS: f"{guid}-azureml" if isolated else "azureml",
        }.items():
            identifier = f"{path.id}/datastores/{name}"
            if self.resources.get(identifier) is None:
                below = f"{properties['storageAccount']}/blobServices/default/containers"
                self.resources.put(f"{below}/{container}", {})
                self.resources.put(
                    identifier, {"properties": _blob_datastore(path, account, container)}
                )
        for name, share in _SHARES.items():
            identifier = f"{path.id}/datastores/{name}"
            if self.resources.get(identifier) is None:
                body = {"datastoreType": "AzureFile", "accountName": account} | _SIGNED_IN
                self.resources.put(
                    identifier, {"properties": {**body, "fileShareName": share.format(guid)}}
                )

    @override
    def show(self, path: ArmPath, document: Document) -> Document:
        managed_networks.show_workspace(self.resources, path, document)
        document["properties"] |= {
            "discoveryUrl": f"{self.url}/discovery",
            "mlFlowTrackingUri": self.url.replace("https:", "azureml:") + f"/mlflow/v1.0{path.id}",
        }
        return document

    @override
    def purge(self, path: ArmPath, request: Request) -> bool:
        return _purges(request) and self.resources.store.delete(DELETED, path.id)

    @override
    def after_delete(self, path: ArmPath, document: Document, request: Request) -> None:
        if not _purges(request):
            self.resources.store.put(DELETED, path.id, document)


class Datastore(ResourceKind):
    """A datastore: a container that the workspace knows by name."""

    @override
    def check(self, path: ArmPath, body: Document, before: Document | None) -> None:
        properties = body.get("properties") or {}
        missing = [name for name in ("accountName", "containerName") if not properties.get(name)]
        if properties.get("datastoreType") == "AzureBlob" and missing:
            raise user_error(f"Datastore {path.name}: {' and '.join(missing)} must be given.")

    @override
    def show(self, path: ArmPath, document: Document) -> Document:
        credentials = document["properties"].get("credentials") or {}
        document["properties"]["credentials"] = {
            "credentialsType": credentials.get("credentialsType", "None")
        }
        return document

    @override
    def act(
        self, path: ArmPath, document: Document, action: str, request: Request
    ) -> Response | None:
        if action.lower() == "listsecrets":
            # Identity only: there is no secret to list.
            return Response(body={"secretsType": "None"})
        return None


def _check_insights(path: ArmPath, body: Document) -> None:
    """Raise an AzureError for a new workspace of the kind Default without Application Insights."""
    kind = body.get("kind")
    is_default = kind == "Default" or (not kind and path.version >= _REFUSED_SINCE)
    if is_default and not (body.get("properties") or {}).get("applicationInsights"):
        raise AzureError(
            400,
            "ValidationError",
            "Missing dependent resources in workspace json: applicationInsights",
        )


def _purges(request: Request) -> bool:
    return request.query.get("forceToPurge", "").lower() == "true"


def workspace_of(identifier: str) -> str:
    """Return the id of the workspace that an id belongs to."""
    parts = identifier.split("/")
    return "/".join(parts[: [part.lower() for part in parts].index("workspaces") + 2])


def default_account(resources: ResourceManager, workspace: str) -> str:
    """Return the name of a workspace's default storage account."""
    document = resources.get(workspace)
    if document is None:
        raise AzureError(404, "ResourceNotFound", f"Workspace {workspace} was not found.")
    return account_of(document["properties"]["storageAccount"])


def _blob_datastore(path: ArmPath, account: str, container: str) -> Document:
    own = {}
    if "blobstore" in container:
        own = {
            "subscriptionId": path.subscription,
            "resourceGroup": path.group,
            "serviceDataAccessAuthIdentity": "WorkspaceSystemAssignedIdentity",
        }
    return {
        "datastoreType": "AzureBlob",
        "accountName": account,
        "containerName": container,
        **_SIGNED_IN,
        "isDefault": "blobstore" in container,
        **own,
    }


def kinds(
    resources: ResourceManager, blobs: Blobs, url: str, roles: Roles
) -> dict[str, ResourceKind]:
    """Return the rules of all kinds of this module."""
    return {WORKSPACE: Workspace(resources, blobs, url, roles), DATASTORE: Datastore()}
