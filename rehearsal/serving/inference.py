"""The addresses of endpoints: authenticate, choose a deployment, and let its server answer."""

import itertools
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from rehearsal.control_plane.http_messages import Request, Response
from rehearsal.control_plane.identity import Identity
from rehearsal.control_plane.resource_manager import ResourceManager
from rehearsal.errors import AzureError
from rehearsal.resources.workspaces import workspace_of
from rehearsal.serving.endpoints import ADDRESS, ENDPOINT
from rehearsal.serving.servers import Servers

AUDIENCE: Final = "https://ml.azure.com"
"""Audience of the tokens that endpoints accept."""
_CHOSEN: Final = "azureml-model-deployment"
_STEP: Final = 37
"""Coprime to 100: of any hundred requests in a row, each deployment gets exactly its part."""


@dataclass
class Inference:
    """Answers the requests to all endpoints."""

    identity: Identity
    resources: ResourceManager
    servers: Servers
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count, init=False)

    def respond(self, request: Request) -> Response:
        """Respond to a request below the addresses of endpoints.

        Raises:
            AzureError: the token is for another service, or nothing answers.
        """
        if self.identity.claims(request)["aud"] != AUDIENCE:
            raise AzureError(401, "Unauthorized", f"The token's audience must be {AUDIENCE}.")
        workspace, name, *rest = request.path[len(ADDRESS) :].split("/")
        endpoint = next(
            (
                candidate
                for candidate in self.resources.of_kind(ENDPOINT)
                if candidate["name"] == name
                and workspace_of(candidate["id"]).endswith(f"/{workspace}")
            ),
            None,
        )
        if endpoint is None or rest != ["score"]:
            raise AzureError(404, "NotFound", f"No endpoint has the address {request.path}")
        properties = endpoint["properties"]
        position = next(self._numbers) * _STEP % 100
        chosen = request.headers.get(_CHOSEN) or _at(properties["traffic"], position)
        if chosen is None:
            raise AzureError(404, "NotFound", f"Endpoint {name} has no deployment with traffic.")
        identifier = f"{endpoint['id']}/deployments/{chosen}"
        if self.resources.get(identifier) is None:
            raise AzureError(404, "NotFound", f"Endpoint {name} has no deployment {chosen}.")
        copied = _at(properties["mirrorTraffic"], position)
        if copied is not None:
            copy = (f"{endpoint['id']}/deployments/{copied}", request.body, request.headers)
            threading.Thread(target=self._copy, args=copy, daemon=True).start()
        return self.servers.ask(identifier, request.body, request.headers)

    def _copy(self, identifier: str, body: bytes, headers: Mapping[str, str]) -> None:
        try:
            self.servers.ask(identifier, body, headers)
        except AzureError:
            # The answer to a copy is not returned to the client.
            return


def _at(traffic: Mapping[str, int], position: int) -> str | None:
    """Return the deployment at a position from 0 to 99; None beyond all parts."""
    end = 0
    for name, part in sorted(traffic.items()):
        end += part
        if position < end:
            return name
    return None
