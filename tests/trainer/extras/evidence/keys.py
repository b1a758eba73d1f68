"""Keys for tests."""

from pathlib import Path


def write_keys(folder: Path, name: str = "key", *, elliptic: bool = False) -> None:
    """Write NAME.pem and NAME.pub.pem."""
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519

    private = (
        ec.generate_private_key(ec.SECP256R1())
        if elliptic
        else ed25519.Ed25519PrivateKey.generate()
    )
    pem = form.Encoding.PEM
    (folder / f"{name}.pem").write_bytes(
        private.private_bytes(pem, form.PrivateFormat.PKCS8, form.NoEncryption())
    )
    (folder / f"{name}.pub.pem").write_bytes(
        private.public_key().public_bytes(pem, form.PublicFormat.SubjectPublicKeyInfo)
    )
