"""The part of Microsoft Entra that authenticates programs: tokens and group memberships."""

import hmac
import secrets
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

import jwt

from rehearsal.control_plane.http_messages import Request, Response
from rehearsal.errors import AzureError

STORAGE = "https://storage.azure.com"
_ALGORITHM: Final = "HS256"


class Identity:
    """Issues and verifies tokens.

    A caller is identified by its client id. Tokens are signed with a key that is generated at
    start-up: those of another Azure, or of this one before a restart, are refused.
    """

    def __init__(self, url: str, tenant_id: str, token_seconds: int) -> None:
        """Start without clients.

        Args:
            url: Address of this Azure.
            tenant_id: Id of the only tenant.
            token_seconds: Validity of a token, in seconds.
        """
        self._url = url
        self.tenant_id = tenant_id
        self.token_seconds = token_seconds
        self._key = secrets.token_bytes(32)
        self._clients: dict[str, str] = {}
        self._groups: defaultdict[str, set[str]] = defaultdict(set)
        self._lock = threading.Lock()

    def add_client(
        self, client_id: str | None = None, groups: Iterable[str] = ()
    ) -> tuple[str, str]:
        """Register a program that may authenticate; return its client id and secret.

        Args:
            client_id: Client id, which is the object id as well; None generates one.
            groups: Object ids of the groups that it is a member of.
        """
        client_id = client_id or str(uuid.uuid4())
        for group in groups:
            self.join(client_id, group)
        with self._lock:
            self._clients[client_id] = secrets.token_hex(24)
            return client_id, self._clients[client_id]

    def join(self, member: str, group: str) -> None:
        """Make a program or a person a member of a group, both by object id."""
        with self._lock:
            self._groups[member.lower()].add(group.lower())

    def groups(self, member: str) -> frozenset[str]:
        """Return the object ids of a member's groups, in lower case."""
        with self._lock:
            return frozenset(self._groups.get(member.lower(), ()))

    def knows(self, object_id: str) -> bool:
        """Whether there is a program, a person or a group with an object id."""
        wanted = object_id.lower()
        with self._lock:
            members, groups = set(self._groups), set().union(*self._groups.values())
            return wanted in {client.lower() for client in self._clients} | members | groups

    def managed(self, request: Request) -> Response:
        """Respond to a job's request for a token of its managed identity: its secret is a token.

        Raises:
            AzureError: the secret is not one of this Azure.
        """
        secret = {"authorization": f"Bearer {request.headers.get('secret', '')}"}
        client = self.claims(replace(request, headers=secret))["appid"]
        resource = request.query.get("resource", "").rstrip("/")
        token, expiry = self.token(client, resource), int(time.time()) + self.token_seconds
        body = {"access_token": token, "expires_on": str(expiry), "token_type": "Bearer"}
        return Response(body={**body, "resource": resource})

    def respond(self, request: Request) -> Response | None:
        """Respond to a request for a token or for token metadata; None for any other request."""
        parts = request.path.strip("/").split("/")
        if request.path.startswith("/metadata/endpoints"):
            # A list of all clouds until 2019, and since then this cloud alone.
            cloud, version = self._cloud(), request.query.get("api-version", "")
            return Response(body=cloud if version >= "2020" else [cloud])
        if request.path.endswith("/.well-known/openid-configuration"):
            return Response(body=self._openid(parts[0]))
        if request.path.endswith("/discovery/instance"):
            openid = f"{self._url}/{self.tenant_id}/v2.0/.well-known/openid-configuration"
            host = self._url.removeprefix("https://")
            clouds = [{"preferred_network": host, "preferred_cache": host, "aliases": [host]}]
            return Response(body={"tenant_discovery_endpoint": openid, "metadata": clouds})
        if len(parts) == 4 and parts[1:] == ["oauth2", "v2.0", "token"]:
            return self._token(request, parts[0])
        return None

    def token(self, client_id: str, audience: str, seconds: float | None = None) -> str:
        """Issue a token of a program for a service."""
        now = int(time.time())
        claims = {
            "aud": audience,
            "iss": f"https://sts.windows.net/{self.tenant_id}/",
            "iat": now,
            "nbf": now - 5,
            "exp": now + int(self.token_seconds if seconds is None else seconds),
            "appid": client_id,
            "oid": client_id,
            "sub": client_id,
            "tid": self.tenant_id,
            "idtyp": "app",
            "ver": "1.0",
        }
        return jwt.encode(claims, self._key, _ALGORITHM)

    def claims(self, request: Request) -> dict[str, Any]:
        """Return the claims of the token in a request's Authorization header.

        Raises:
            AzureError: there is no token, it has expired, or another Azure issued it.
        """
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise AzureError(
                401,
                "AuthenticationFailed",
                "Authentication failed. The 'Authorization' header is missing.",
            )
        try:
            # The caller compares the audience: it depends on the service that is asked.
            return jwt.decode(token, self._key, [_ALGORITHM], options={"verify_aud": False})
        except jwt.ExpiredSignatureError as error:
            raise AzureError(
                401, "ExpiredAuthenticationToken", "The access token expiry time has passed."
            ) from error
        except jwt.InvalidTokenError as error:
            raise AzureError(
                401,
                "InvalidAuthenticationToken",
                "The access token is invalid or of a wrong issuer.",
            ) from error

    def _token(self, request: Request, tenant: str) -> Response:
        form = request.form()
        client_id, secret = form.get("client_id", ""), form.get("client_secret", "")
        if tenant != self.tenant_id:
            return _refused(400, "invalid_request", f"AADSTS90002: Tenant '{tenant}' not found.")
        if form.get("grant_type") != "client_credentials":
            return _refused(
                400,
                "unsupported_grant_type",
                "AADSTS70003: only client_credentials is supported here.",
            )
        with self._lock:
            known = self._clients.get(client_id)
        if known is None:
            return _refused(
                400,
                "unauthorized_client",
                f"AADSTS700016: Application with identifier '{client_id}' was not found in the"
                " directory.",
            )
        if not hmac.compare_digest(known, secret):
            return _refused(
                401,
                "invalid_client",
                "AADSTS7000215: Invalid client secret provided. Ensure the secret being sent in"
                " the request is the client secret value.",
            )
        audience = form.get("scope", "").split(" ")[0].removesuffix("/.default").rstrip("/")
        body = {
            "token_type": "Bearer",
            "expires_in": self.token_seconds,
            "ext_expires_in": self.token_seconds,
            "access_token": self.token(client_id, audience),
        }
        return Response(body=body)

    def _cloud(self) -> dict[str, Any]:
        return {
            "name": cloud_name(self._url),
            "portal": "https://portal.local.test/",
            "resourceManager": f"{self._url}/",
            "authentication": {
                "loginEndpoint": f"{self._url}/",
                "audiences": [f"{self._url}/"],
                "tenant": self.tenant_id,
            },
            "suffixes": {"storage": "localhost", "keyVaultDns": "vault.azure.net"},
        }

    def _openid(self, tenant: str) -> dict[str, Any]:
        return {
            "issuer": f"{self._url}/{tenant}/v2.0",
            "authorization_endpoint": f"{self._url}/{tenant}/oauth2/v2.0/authorize",
            "token_endpoint": f"{self._url}/{tenant}/oauth2/v2.0/token",
            "device_authorization_endpoint": f"{self._url}/{tenant}/oauth2/v2.0/devicecode",
            "jwks_uri": f"{self._url}/{tenant}/discovery/v2.0/keys",
        }


def cloud_name(url: str) -> str:
    """Return a cloud name per address: the SDK does not let a known name change its address."""
    return f"Simulator{url.rpartition(':')[2]}"


def _refused(status: int, error: str, description: str) -> Response:
    return Response(status, {"error": error, "error_description": description})
