"""A key of Key Vault that signs statements; its private half never leaves the vault.

Needs azure-keyvault-keys and azure-identity.
"""

import hashlib
import os
from typing import TYPE_CHECKING, Any

from common.errors import ConfigError
from trainer.extras.evidence.signing import key_id, pem

if TYPE_CHECKING:
    from azure.keyvault.keys.crypto import CryptographyClient


class VaultKey:
    """A key in Key Vault, ECDSA on P-256, used over the identity of this process: in a job that of
    the job, elsewhere what azure-identity's DefaultAzureCredential finds.

    Args:
        address: Address of the key, https://VAULT.vault.azure.net/keys/NAME or .../NAME/VERSION.
            Without a version the newest one signs, the same in the whole attempt.

    Raises:
        ConfigError: It cannot be read, is not such a key, or the packages are not installed.
    """

    def __init__(self, address: str) -> None:
        vault_key, credential = _read(address)
        if vault_key.key_type not in ("EC", "EC-HSM") or vault_key.key.crv != "P-256":
            raise ConfigError([f"--evidence.vault-key: {vault_key.id} must be an EC key on P-256"])
        self._client, public = _use(vault_key, credential)
        self.address: str | None = str(vault_key.id)
        self.key_id, self.public = key_id(public), pem(public)

    def sign(self, message: bytes) -> bytes:
        """Return the signature of a message, in DER, over SHA-256.

        Raises:
            AzureError: The vault does not sign.
        """
        from azure.keyvault.keys.crypto import SignatureAlgorithm  # noqa: PLC0415 optional group
        from cryptography.hazmat.primitives.asymmetric.utils import (  # noqa: PLC0415
            encode_dss_signature,
        )

        digest = hashlib.sha256(message).digest()
        # The two numbers one after the other, each in 32 bytes (RFC 7518, section 3.4).
        pair = self._client.sign(SignatureAlgorithm.es256, digest).signature
        r, s = (int.from_bytes(half, "big") for half in (pair[:32], pair[32:]))
        return encode_dss_signature(r, s)


def _read(address: str) -> tuple[Any, Any]:
    """Return the key's description, and the credential that has read it."""
    try:
        from azure.core.exceptions import AzureError  # noqa: PLC0415 optional group
        from azure.identity import DefaultAzureCredential  # noqa: PLC0415
        from azure.keyvault.keys import KeyClient  # noqa: PLC0415
    except ImportError as error:
        raise ConfigError(
            [
                "--evidence.vault-key: packages are not installed; run: pip install"
                " azure-keyvault-keys azure-identity"
            ]
        ) from error
    vault, _, rest = address.partition("/keys/")
    name, _, version = rest.partition("/")
    # Azure ML tells a job which of the cluster's identities is its own.
    own = os.environ.get("DEFAULT_IDENTITY_CLIENT_ID")
    credential = DefaultAzureCredential(managed_identity_client_id=own)
    try:
        return KeyClient(vault, credential).get_key(name, version or None), credential
    except (AzureError, ValueError) as error:
        words = str(error).partition("\n")[0]
        raise ConfigError([f"--evidence.vault-key: {address} cannot be read ({words})"]) from error


def _use(vault_key: Any, credential: Any) -> "tuple[CryptographyClient, Any]":
    from azure.keyvault.keys.crypto import CryptographyClient  # noqa: PLC0415 optional group
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

    x, y = (int.from_bytes(number, "big") for number in (vault_key.key.x, vault_key.key.y))
    public = ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1()).public_key()
    return CryptographyClient(vault_key, credential), public
