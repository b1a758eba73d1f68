"""Who asks: the part of Microsoft Entra that signs programs in."""

import base64
import hashlib
import hmac
import json
import secrets
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from rehearsal.control_plane.http_messages import Answer, Asked
from rehearsal.errors import AzureError

STORAGE = "https://storage.azure.com"


class Identity:
    """Issues and reads tokens.

    A caller is its client id. Tokens are signed with a key that is made at start-up: those of
    another Azure, or of this one before it was started again, are refused.
    """

    def __init__(self, tenant_id: str, token_seconds: int) -> None:
        """Know nobody yet."""
        self.tenant_id = tenant_id
        self.token_seconds = token_seconds
        self._key = secrets.token_bytes(32)
        self._clients: dict[str, str] = {}
        self._groups: defaultdict[str, set[str]] = defaultdict(set)
        self._lock = threading.Lock()

    def add_client(
        self,
        client_id: str | None = None,
        secret: str | None = None,
        groups: Iterable[str] = (),
    ) -> tuple[str, str]:
        """Register a program that may sign in; its client id and secret.

        Args:
            client_id: which is its object id as well.
            secret: that it signs in with.
            groups: that it is a member of, by their object ids.
        """
        client_id = client_id or str(uuid.uuid4())
        for group in groups:
            self.join(client_id, group)
        with self._lock:
            self._clients[client_id] = secret or secrets.token_urlsafe(24)
            return client_id, self._clients[client_id]

    def join(self, member: str, group: str) -> None:
        """Make somebody a member of a group, both by their object ids."""
        with self._lock:
            self._groups[member.lower()].add(group.lower())

    def groups(self, member: str) -> frozenset[str]:
        """Object ids of the groups that somebody is in, in lower case."""
        with self._lock:
            return frozenset(self._groups.get(member.lower(), ()))

    def answer(self, asked: Asked, base: str) -> Answer | None:
        """What the sign-in service says to a request, or none if the request is not for it."""
        words = asked.path.strip("/").split("/")
        if asked.path.startswith("/metadata/endpoints"):
            return Answer(body=[self._cloud(base)])
        if asked.path.endswith("/.well-known/openid-configuration"):
            return Answer(body=self._openid(base, words[0]))
        if asked.path.endswith("/discovery/instance"):
            openid = f"{base}/{self.tenant_id}/v2.0/.well-known/openid-configuration"
            host = base.removeprefix("https://")
            clouds = [{"preferred_network": host, "preferred_cache": host, "aliases": [host]}]
            return Answer(body={"tenant_discovery_endpoint": openid, "metadata": clouds})
        if len(words) == 4 and words[1:] == ["oauth2", "v2.0", "token"]:
            return self._token(asked, words[0])
        return None

    def token(self, client_id: str, audience: str, seconds: float | None = None) -> str:
        """A token for a service, in the name of a program."""
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
        head = _encoded(json.dumps({"typ": "JWT", "alg": "HS256"}).encode())
        signed = f"{head}.{_encoded(json.dumps(claims).encode())}"
        return f"{signed}.{self._signature(signed)}"

    def caller(self, authorization: str) -> dict[str, Any]:
        """Claims of who sent this Authorization header.

        Raises:
            AzureError: nobody, an expired token, or one of another issuer.
        """
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise AzureError(
                401,
                "AuthenticationFailed",
                "Authentication failed. The 'Authorization' header is missing.",
            )
        signed, _, signature = token.rpartition(".")
        if not hmac.compare_digest(signature.encode(), self._signature(signed).encode()):
            raise AzureError(
                401,
                "InvalidAuthenticationToken",
                "The access token is invalid or of a wrong issuer.",
            )
        claims = json.loads(_decoded(signed.rpartition(".")[2]))
        if claims["exp"] < time.time():
            raise AzureError(
                401, "ExpiredAuthenticationToken", "The access token expiry time has passed."
            )
        return dict(claims)

    def _token(self, asked: Asked, tenant: str) -> Answer:
        form = asked.form()
        client_id, secret = form.get("client_id", ""), form.get("client_secret", "")
        if tenant != self.tenant_id:
            return _refused(400, "invalid_request", f"AADSTS90002: Tenant '{tenant}' not found.")
        if form.get("grant_type") != "client_credentials":
            return _refused(
                400, "unsupported_grant_type", "AADSTS70003: only client_credentials is known here."
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
        return Answer(body=body)

    def _cloud(self, base: str) -> dict[str, Any]:
        return {
            "name": cloud_name(base),
            "portal": "https://portal.local.test/",
            "resourceManager": f"{base}/",
            "authentication": {
                "loginEndpoint": f"{base}/",
                "audiences": [f"{base}/"],
                "tenant": self.tenant_id,
            },
            "suffixes": {"storage": "localhost"},
        }

    def _openid(self, base: str, tenant: str) -> dict[str, Any]:
        return {
            "issuer": f"{base}/{tenant}/v2.0",
            "authorization_endpoint": f"{base}/{tenant}/oauth2/v2.0/authorize",
            "token_endpoint": f"{base}/{tenant}/oauth2/v2.0/token",
            "device_authorization_endpoint": f"{base}/{tenant}/oauth2/v2.0/devicecode",
            "jwks_uri": f"{base}/{tenant}/discovery/v2.0/keys",
        }

    def _signature(self, signed: str) -> str:
        return _encoded(hmac.digest(self._key, signed.encode(), hashlib.sha256))


def cloud_name(base: str) -> str:
    """Name of the cloud at an address: the SDK never lets a name mean another one."""
    return f"Loopback{base.rpartition(':')[2]}"


def _refused(status: int, error: str, description: str) -> Answer:
    return Answer(status, {"error": error, "error_description": description})


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
