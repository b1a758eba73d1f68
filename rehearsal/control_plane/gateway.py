"""The entry point of the control plane: authenticates, logs and routes each request."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from rehearsal.control_plane.faults import Faults
from rehearsal.control_plane.http_messages import Request, Respond, Response
from rehearsal.control_plane.identity import STORAGE, Identity
from rehearsal.control_plane.request_log import RequestLog
from rehearsal.errors import AzureError

ADMIN = "/admin/"
"""Prefix of the paths that are neither faulted nor logged."""


@dataclass(frozen=True)
class Gateway:
    """Routes each request to the service of its path."""

    identity: Identity
    faults: Faults
    log: RequestLog
    services: Mapping[str, Respond]
    """Services by the prefix of their paths, in lower case."""
    public: Mapping[str, Respond]
    """Services that need no token, by the prefix of their paths."""

    def respond(self, request: Request) -> Response:
        """Respond to a request; a refusal is a response in Azure's format."""
        if request.path.startswith(ADMIN):
            return self._refusable(request)
        request = replace(request, caller=self._caller(request))
        return self.log.log(request, lambda request: self.faults.respond(request, self._refusable))

    def _refusable(self, request: Request) -> Response:
        try:
            return self._route(request)
        except AzureError as error:
            return Response(error.status, error.body())

    def _route(self, request: Request) -> Response:
        response = self.identity.respond(request)
        if response is not None:
            return response
        for start, respond in self.public.items():
            if request.path.startswith(start):
                return respond(request)
        self._require_token(request)
        for start, respond in self.services.items():
            if request.path.lower().startswith(start):
                return respond(request)
        raise AzureError(404, "NotFound", f"Nothing answers at {request.path}")

    def _require_token(self, request: Request) -> None:
        if self.identity.claims(request)["aud"] == STORAGE:
            raise AzureError(
                401,
                "InvalidAuthenticationTokenAudience",
                "The access token has been obtained for the wrong audience.",
            )

    def _caller(self, request: Request) -> str:
        try:
            return str(self.identity.claims(request)["appid"])
        except AzureError:
            return ""
