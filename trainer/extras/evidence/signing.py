"""Keys that sign statements, and their public halves; needs the package cryptography."""

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from common.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

_FORMS = "ed25519, or ECDSA on P-256"


class FileKey:
    """A private key in a PEM file. It is read only where it is used.

    Args:
        path: The file.

    Raises:
        ConfigError: It cannot be read, is not such a key, or cryptography is not installed.
    """

    def __init__(self, path: Path) -> None:
        key = _load(path, "--evidence.key", private=True)
        self._sign, public = _signing(key), key.public_key()
        self.key_id, self.public = key_id(public), pem(public)
        self.address: str | None = None

    def sign(self, message: bytes) -> bytes:
        """Return the signature of a message; of ECDSA in DER, over SHA-256."""
        return self._sign(message)


class PublicKey:
    """A public key.

    Args:
        source: PEM file, or its content.
        name: Its name in errors.

    Raises:
        ConfigError: It cannot be read, is not such a key, or cryptography is not installed.
    """

    def __init__(self, source: Path | bytes, name: str = "--key") -> None:
        self._key = _load(source, name, private=False)
        self.key_id = key_id(self._key)

    def has_signed(self, message: bytes, signature: bytes) -> bool:
        """Return whether a signature of a message is of this key."""
        from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 optional group
        from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415
        from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415

        elliptic = isinstance(self._key, ec.EllipticCurvePublicKey)
        arguments = (ec.ECDSA(SHA256()),) if elliptic else ()
        try:
            self._key.verify(signature, message, *arguments)
        except InvalidSignature:
            return False
        return True


def key_id(public: Any) -> str:
    """Return the identity of a public key: SHA-256 of its DER, in hexadecimal."""
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415 optional group
        Encoding,
        PublicFormat,
    )

    der = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(der).hexdigest()


def pem(public: Any) -> str:
    """Return a public key as PEM."""
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415 optional group
        Encoding,
        PublicFormat,
    )

    return str(public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode())


def _load(source: Path | bytes, option: str, *, private: bool) -> Any:
    try:
        from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415 optional group
        from cryptography.hazmat.primitives import serialization  # noqa: PLC0415
        from cryptography.hazmat.primitives.asymmetric import ec, ed25519  # noqa: PLC0415
    except ImportError as error:
        raise ConfigError(
            [f"{option}: the package cryptography is not installed; run: pip install cryptography"]
        ) from error
    half = "private" if private else "public"
    where = f"{source} is not the PEM file" if isinstance(source, Path) else "it is not the PEM"
    try:
        text = source.read_bytes() if isinstance(source, Path) else source
        if private:
            key: Any = serialization.load_pem_private_key(text, None)
        else:
            key = serialization.load_pem_public_key(text)
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ConfigError(
            [f"{option}: {where} of a {half} key without password ({error})"]
        ) from error
    kinds = (
        (ed25519.Ed25519PrivateKey, ec.EllipticCurvePrivateKey)
        if private
        else (ed25519.Ed25519PublicKey, ec.EllipticCurvePublicKey)
    )
    if not isinstance(key, kinds) or getattr(key, "key_size", 256) != 256:
        raise ConfigError([f"{option}: it must hold a {half} key of {_FORMS}"])
    return key


def _signing(key: Any) -> "Callable[[bytes], bytes]":
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415 optional group
    from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415

    if isinstance(key, ec.EllipticCurvePrivateKey):
        return lambda message: bytes(key.sign(message, ec.ECDSA(SHA256())))
    return lambda message: bytes(key.sign(message))
