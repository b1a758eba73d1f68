"""A certificate for loopback, made at start-up."""

import datetime as dt
import ipaddress
from dataclasses import dataclass
from pathlib import Path

import certifi
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAYS = 30


@dataclass(frozen=True)
class Certificate:
    """Files of a certificate that only this machine's clients are told to trust."""

    certificate: Path
    key: Path
    bundle: Path
    """The public authorities and this certificate: what clients are given to trust."""


def make(folder: Path) -> Certificate:
    """Write a new certificate for 127.0.0.1 and localhost into a folder."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Azure on loopback")])
    now = dt.datetime.now(dt.UTC)
    names = [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")]
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=_DAYS))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    public = signed.public_bytes(serialization.Encoding.PEM)
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    folder.mkdir(parents=True, exist_ok=True)
    files = Certificate(folder / "cert.pem", folder / "key.pem", folder / "bundle.pem")
    files.certificate.write_bytes(public)
    files.key.touch(mode=0o600)
    files.key.write_bytes(secret)
    files.bundle.write_bytes(Path(certifi.where()).read_bytes() + b"\n" + public)
    return files
