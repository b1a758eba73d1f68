"""Online endpoints and deployments in Resource Manager."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from typing_extensions import override

from rehearsal.control_plane.arm_path import ArmPath
from rehearsal.control_plane.azure_formats import new_id
from rehearsal.control_plane.http_messages import Request, Response
from rehearsal.control_plane.resource_kind import ResourceKind
from rehearsal.control_plane.resource_manager import ResourceManager
from rehearsal.control_plane.store import Document
from rehearsal.errors import AzureError, user_error
from rehearsal.resources.workspaces import WORKSPACE, workspace_of
from rehearsal.serving.servers import Servers

ENDPOINT: Final = f"{WORKSPACE}/onlineEndpoints"
DEPLOYMENT: Final = f"{ENDPOINT}/deployments"
ADDRESS: Final = "/inference/"
"""Prefix of the paths of all endpoints' addresses."""
_NAME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9-]{1,30}[a-zA-Z0-9]")
_MOST_MIRRORED: Final = 50
_ROUTES: Final = {"livenessRoute", "readinessRoute", "scoringRoute"}
_PATH: Final = re.compile(r"[a-zA-Z0-9_]")
"""Segment that the path of a route must contain, by the REST definitions."""
_BUSY: Final = ("Creating", "Updating", "Deleting")


@dataclass(frozen=True)
class OnlineEndpoint(ResourceKind):
    """An address, whose requests are divided between deployments."""

    has_own_state = True

    resources: ResourceManager
    servers: Servers
    url: str
    """Address of this Azure."""
    new_token: Callable[[str], str]
    """Returns a token for the addresses of endpoints, by the client's id."""
    token_seconds: int
    """Validity of such a token."""

    @override
    def check(self, path: ArmPath, body: Document, before: Document | None) -> None:
        properties: dict[str, Any] = body.get("properties") or {}
        if not _NAME.fullmatch(path.name):
            raise user_error(f"Endpoint name {path.name!r} must have 3 to 32 letters and digits.")
        if properties.get("authMode") not in ("Key", "AMLToken", "AADToken"):
            raise user_error(f"Endpoint {path.name}: authMode must be Key, AMLToken or AADToken.")
        taken = [
            endpoint["id"]
            for endpoint in self.resources.of_kind(ENDPOINT)
            if endpoint["name"].lower() == path.name.lower()
            and endpoint["id"].lower() != path.id.lower()
        ]
        if taken:
            raise AzureError(
                409, "Conflict", f"Endpoint name {path.name} is already used in the region."
            )
        if before is not None and before["properties"].get("provisioningState") in _BUSY:
            raise _busy(path)
        self._check_traffic(path, properties)

    def _check_traffic(self, path: ArmPath, properties: dict[str, Any]) -> None:
        live = properties.get("traffic") or {}
        mirror = properties.get("mirrorTraffic") or {}
        if sum(live.values()) not in (0, 100):
            raise user_error(f"Endpoint {path.name}: the traffic must sum to 0 or 100.")
        if len(mirror) > 1 or any(not 0 <= part <= _MOST_MIRRORED for part in mirror.values()):
            raise user_error(
                f"Endpoint {path.name}: one deployment may get copies of at most 50 percent."
            )
        for name, part in [*live.items(), *mirror.items()]:
            identifier = f"{path.id}/deployments/{name}"
            if part and self.resources.get(identifier) is None:
                raise user_error(f"Deployment {name} of endpoint {path.name} does not exist.")
            if part and self.servers.state(identifier) != "Succeeded":
                raise user_error(f"Deployment {name} of endpoint {path.name} is not ready.")

    @override
    def complete(self, path: ArmPath, document: Document, before: Document | None) -> None:
        workspace = workspace_of(path.id).rpartition("/")[2]
        properties = document["properties"]
        properties["provisioningState"] = "Succeeded"
        properties["scoringUri"] = f"{self.url}{ADDRESS}{workspace}/{path.name}/score"
        properties["traffic"] = properties.get("traffic") or {}
        properties["swaggerUri"] = properties["scoringUri"].replace("/score", "/swagger.json")
        properties["mirrorTraffic"] = properties.get("mirrorTraffic") or {}
        known = (before or {}).get("identity") or {}
        identity = document.get("identity") or {}
        if "SystemAssigned" in identity.get("type", ""):
            identity |= {
                "principalId": known.get("principalId") or new_id(),
                "tenantId": self.resources.tenant_id,
            }

    @override
    def show(self, path: ArmPath, document: Document) -> Document:
        properties = document["properties"]
        place = f"/subscriptions/{path.subscription}/providers/Microsoft.MachineLearningServices"
        properties["properties"] = {
            "AzureAsyncOperationUri": f"{self.url}{place}/locations/{document.get('location')}"
            f"/mfeOperationsStatus/oeidp:{new_id()}",
            **(properties.get("properties") or {}),
        }
        if properties["provisioningState"] == "Creating":
            # Recorded so; a GET has them when the endpoint is ready.
            properties |= {"scoringUri": None, "swaggerUri": None}
            document = {k: v for k, v in document.items() if k not in ("identity", "location")}
            document["systemData"] = {}
        return document

    @override
    def act(
        self, path: ArmPath, document: Document, action: str, request: Request
    ) -> Response | None:
        if action.lower() != "token":
            return None
        now, seconds = int(time.time()), self.token_seconds
        return Response(
            body={
                "accessToken": self.new_token(request.caller),
                "tokenType": "Bearer",
                "expiryTimeUtc": now + seconds,
                "refreshAfterTimeUtc": now + seconds // 2,
            }
        )


@dataclass(frozen=True)
class OnlineDeployment(ResourceKind):
    """A model and an image, which a server process stands for."""

    has_own_state = True

    resources: ResourceManager
    servers: Servers
    shortage: Callable[[str, str, int], str | None]
    """Returns why there is no quota for instances: by location, size and their number."""

    @override
    def check(self, path: ArmPath, body: Document, before: Document | None) -> None:
        properties: dict[str, Any] = body.get("properties") or {}
        if not _NAME.fullmatch(path.name):
            raise user_error(f"Deployment name {path.name!r} must have 3 to 32 letters and digits.")
        if before is not None:
            if self.show(path, before)["properties"]["provisioningState"] in _BUSY:
                raise _busy(path)
            egress = "egressPublicNetworkAccess"
            if before["properties"].get(egress) != properties.get(egress):
                raise user_error(f"Deployment {path.name}: {egress} cannot be changed.")
        for name in ("model", "environmentId"):
            if self.resources.get(str(properties.get(name))) is None:
                raise user_error(
                    f"Deployment {path.name}: {name} {properties.get(name)} not found."
                )
        image = self.resources.get(properties["environmentId"]) or {"properties": {}}
        routes = image["properties"].get("inferenceConfig") or {}
        if set(routes) != _ROUTES or not all(
            _PATH.search(route["path"]) for route in routes.values()
        ):
            raise user_error(
                f"Deployment {path.name}: its environment needs an inferenceConfig with"
                f" {', '.join(sorted(_ROUTES))}, whose paths contain a letter or a digit."
            )
        instances = int((body.get("sku") or {}).get("capacity") or 0)
        if instances < 1:
            raise user_error(f"Deployment {path.name}: sku.capacity must be at least 1.")
        size = str(properties.get("instanceType"))
        refusal = self.shortage(str(body.get("location")), size, instances)
        if refusal is not None:
            raise AzureError(400, "OutOfQuota", refusal)

    @override
    def complete(self, path: ArmPath, document: Document, before: Document | None) -> None:
        document["properties"]["provisioningState"] = "Creating" if before is None else "Updating"

    @override
    def after_put(self, path: ArmPath, document: Document) -> None:
        self.servers.start(path.id)

    @override
    def show(self, path: ArmPath, document: Document) -> Document:
        if document["properties"]["provisioningState"] != "Deleting":
            document["properties"]["provisioningState"] = self.servers.state(path.id)
        return document

    @override
    def check_delete(self, path: ArmPath, document: Document, request: Request) -> None:
        endpoint = self.resources.get(path.parent) or {"properties": {}}
        if (endpoint["properties"].get("traffic") or {}).get(path.name):
            raise user_error(f"Deployment {path.name} has traffic and cannot be deleted.")

    @override
    def after_delete(self, path: ArmPath, document: Document, request: Request) -> None:
        self.servers.stop(path.id)

    @override
    def act(
        self, path: ArmPath, document: Document, action: str, request: Request
    ) -> Response | None:
        if action.lower() != "getlogs":
            return None
        tail = int(request.json().get("tail") or 100)
        return Response(body={"content": self.servers.log(path.id, tail)})


def _busy(path: ArmPath) -> AzureError:
    return AzureError(
        409, "Conflict", f"{path.name} is being changed by another operation; try again later."
    )
