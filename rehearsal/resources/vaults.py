"""Key vaults: a deleted vault keeps its name until it is purged."""

import base64
import threading
import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from typing import Any, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils
from typing_extensions import override

from rehearsal.control_plane.arm_path import ArmPath, parse
from rehearsal.control_plane.azure_formats import new_id, timestamp
from rehearsal.control_plane.http_messages import Request, Response
from rehearsal.control_plane.identity import Identity
from rehearsal.control_plane.resource_kind import ResourceKind
from rehearsal.control_plane.resource_manager import ListResources, ResourceManager
from rehearsal.control_plane.store import Document
from rehearsal.errors import AzureError
from rehearsal.resources import global_names

VAULT = global_names.VAULT
DELETED_KIND = global_names.DELETED_VAULT
KEYS: Final = f"{VAULT}/keys"
CRYPTO_USER: Final = "12338af0-0e69-4776-bea7-57ae8d297424"
"""Key Vault Crypto User, which may read keys and sign with them."""
_USERS: Final = frozenset({CRYPTO_USER, "14b46e9e-c2b7-41b4-b07b-48a6ebf60603"})
"""That, and Key Vault Crypto Officer."""


_RETENTION_DAYS: Final = 90
"""Days that a deleted vault is kept, unless it was given others."""


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
        if "enableSoftDelete" not in properties:
            properties.setdefault("softDeleteRetentionInDays", _RETENTION_DAYS)
        properties["enableSoftDelete"] = True
        properties["vaultUri"] = f"https://{path.name}.vault.azure.net/"
        if before is None:
            location = str(document.get("location"))
            self._resources.discard(_deleted_id(path.id, location))

    @override
    def takes_time(self, path: ArmPath, document: Document, *, ends: bool) -> bool:
        return not ends and document["properties"].get("createMode") != "recover"

    @override
    def show(self, path: ArmPath, document: Document) -> Document:
        properties = document["properties"]
        properties.pop("createMode", None)
        rules = properties.get("networkAcls") or {}
        if rules.get("defaultAction") == "Allow" and not (
            rules.get("ipRules") or rules.get("virtualNetworkRules")
        ):
            # Without a rule, everything is open: Azure shows none then.
            properties.pop("networkAcls")
        return document

    @override
    def after_delete(self, path: ArmPath, document: Document, request: Request) -> None:
        location, known = str(document.get("location")), document["properties"]
        days = int(known.get("softDeleteRetentionInDays") or _RETENTION_DAYS)
        properties = {
            "vaultId": path.id,
            "location": location,
            "deletionDate": timestamp(),
            "scheduledPurgeDate": timestamp(days),
            "tags": document.get("tags") or {},
        }
        if known.get("enablePurgeProtection"):
            properties["purgeProtectionEnabled"] = True
        self._resources.put(_deleted_id(path.id, location), {"properties": properties})


class DeletedVault(ResourceKind):
    """A deleted vault. Its region, the parent, always exists."""

    needs_parent = False

    def __init__(self, resources: ResourceManager) -> None:
        """Apply the rules to these resources."""
        self._resources = resources

    @override
    def show(self, path: ArmPath, document: Document) -> Document:
        return {**document, "type": "Microsoft.KeyVault/deletedVaults"}

    @override
    def act(
        self, path: ArmPath, document: Document, action: str, request: Request
    ) -> Response | None:
        if action.lower() != "purge":
            return None
        if document["properties"].get("purgeProtectionEnabled"):
            raise AzureError(
                409,
                "MethodNotAllowed",
                f'Operation "DeletedVaultPurge" is not allowed: {path.name} has purge protection.',
            )
        return self._resources.end(path, document, request)


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


@dataclass
class Keys:
    """The data plane of all vaults' keys on P-256: read, sign, verify. Keys are created through
    Resource Manager, and are lost when this Azure stops.

    https://learn.microsoft.com/rest/api/keyvault/keys/sign/sign
    """

    resources: ResourceManager
    identity: Identity
    url: str
    """Address of this Azure, which is that of all its vaults."""
    _: KW_ONLY
    may: Callable[[str, str, frozenset[str]], bool]
    """Whether a principal has one of some roles on a resource."""
    _private: dict[str, ec.EllipticCurvePrivateKey] = field(default_factory=dict)
    """Keys by version."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def audience(self) -> str:
        """Service that tokens must be for. The SDK sends its token only to hosts below it, as
        NAME.vault.azure.net is below vault.azure.net.
        """
        return "https://" + self.url.partition("//")[2].partition(".")[2]

    def respond(self, request: Request) -> Response:
        """Respond to GET /keys/NAME[/VERSION], and to POST of .../sign and .../verify.

        Raises:
            AzureError: the caller lacks a role, or there is no such key.
        """
        try:
            claims = self.identity.claims(request)
        except AzureError as error:
            return self._challenge(error)
        if claims["aud"].rstrip("/") != self.audience:
            return self._challenge(AzureError(401, "Unauthorized", "AKV10022: Invalid audience."))
        _, name, version, action = [*request.path.strip("/").split("/"), "", "", ""][:4]
        document, version = self._find(name, version)
        if not self.may(claims["oid"], document["id"], _USERS):
            raise AzureError(
                403,
                "Forbidden",
                "Caller is not authorized to perform action on resource.\r\nIf role assignments,"
                " deny assignments or role definitions were changed recently, please observe"
                f" propagation time.\r\nCaller: appid={claims['appid']};oid={claims['oid']}",
            )
        with self._lock:
            key = self._private.setdefault(version, ec.generate_private_key(ec.SECP256R1()))
        address = f"{self.url}/keys/{name}/{version}"
        if request.method == "GET":
            return Response(body=_described(address, key))
        if action not in {"sign", "verify"} or request.json().get("alg") != "ES256":
            raise AzureError(400, "BadParameter", "Only ES256 is supported here.")
        body = request.json()
        prehashed = ec.ECDSA(utils.Prehashed(hashes.SHA256()))
        if action == "sign":
            pair = utils.decode_dss_signature(key.sign(_decode(body["value"]), prehashed))
            signature = b"".join(number.to_bytes(32, "big") for number in pair)
            return Response(body={"kid": address, "value": _encode(signature)})
        given = _decode(body["value"])
        r, s = (int.from_bytes(half, "big") for half in (given[:32], given[32:]))
        try:
            key.public_key().verify(
                utils.encode_dss_signature(r, s), _decode(body["digest"]), prehashed
            )
        except InvalidSignature:
            return Response(body={"value": False})
        return Response(body={"value": True})

    def _find(self, name: str, version: str) -> tuple[Document, str]:
        for document in self.resources.of_kind(KEYS):
            newest = document["properties"]["keyUriWithVersion"].rpartition("/")[2]
            if document["name"] == name and version in ("", newest):
                return document, newest
        raise AzureError(404, "KeyNotFound", f"A key with (name/id) {name} was not found.")

    def _challenge(self, error: AzureError) -> Response:
        authority = f"{self.url}/{self.identity.tenant_id}"
        asked = f'Bearer authorization="{authority}", resource="{self.audience}"'
        return Response(error.status, error.body(), {"WWW-Authenticate": asked})


class VaultKey(ResourceKind):
    """A key in a vault; `Keys` uses it."""

    def __init__(self, resources: ResourceManager) -> None:
        """Apply the rules to these resources."""
        self._resources = resources

    @override
    def complete(self, path: ArmPath, document: Document, before: Document | None) -> None:
        vault = path.parent.rpartition("/")[2]
        document["location"] = (self._resources.get(path.parent) or {}).get("location")
        made = datetime.fromisoformat(document["systemData"]["createdAt"]).timestamp()
        attributes = document["properties"].get("attributes") or {}
        document["properties"]["attributes"] = {
            "created": int(made),
            "updated": int(time.time()),
            **attributes,
        }
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
        KEYS: VaultKey(resources),
    }


def lists(resources: ResourceManager) -> dict[str, ListResources]:
    """Return the computed list of a subscription's deleted vaults."""

    def deleted_vaults(path: ArmPath, request: Request) -> list[Document]:  # noqa: ARG001
        return [
            resources.shown(parse(document["id"]), document)
            for document in resources.of_kind(DELETED_KIND)
            if document["id"].startswith(f"/subscriptions/{path.subscription}/")
        ]

    return {"Microsoft.KeyVault/deletedVaults": deleted_vaults}


def _described(address: str, key: ec.EllipticCurvePrivateKey) -> Document:
    numbers = key.public_key().public_numbers()
    x, y = (_encode(number.to_bytes(32, "big")) for number in (numbers.x, numbers.y))
    material = {"kid": address, "kty": "EC", "crv": "P-256", "x": x, "y": y}
    return {
        "key": {**material, "key_ops": ["sign", "verify"]},
        "attributes": {"enabled": True, "created": 0, "updated": 0, "exportable": False},
    }


def _encode(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def _decode(text: Any) -> bytes:
    return base64.urlsafe_b64decode(f"{text}{'=' * (-len(str(text)) % 4)}")


def _deleted_id(identifier: str, location: str) -> str:
    subscription, name = identifier.split("/")[2], identifier.rsplit("/", 1)[1]
    return (
        f"/subscriptions/{subscription}/providers/Microsoft.KeyVault/locations/{location}"
        f"/deletedVaults/{name}"
    )
