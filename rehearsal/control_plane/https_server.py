"""HTTPS on loopback: certificate, server, and ports that are kept across restarts."""

import datetime as dt
import ipaddress
import json
import socket
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import certifi
import uvicorn
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from starlette import requests, responses
from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope, Send

from common.waiting import wait_until
from rehearsal.control_plane.http_messages import Request, Respond, Response
from rehearsal.control_plane.store import Store
from rehearsal.errors import RehearsalError

_DAYS = 30
_SPACE = "ports"


@dataclass(frozen=True)
class Certificate:
    """Files of a certificate that only the rehearsal's clients trust."""

    certificate: Path
    key: Path
    bundle: Path
    """Public authorities and this certificate, for clients to trust."""


def make_certificate(folder: Path) -> Certificate:
    """Write a new certificate for 127.0.0.1 and localhost into a folder."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Simulator of Azure")])
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


_START_SECONDS = 30.0


class Server:
    """An HTTPS server on a loopback port, in a thread of its own."""

    def __init__(self, certificate: Certificate, port: int = 0) -> None:
        """Bind the port, without serving yet.

        Args:
            certificate: Certificate for HTTPS.
            port: Port on loopback; 0 for any free one.

        Raises:
            OSError: the port is in use.
        """
        self._respond: Respond | None = None
        # With the protocol unnamed, asyncio leaves Nagle's algorithm on: 40 ms a response.
        self._socket = socket.socket(proto=socket.IPPROTO_TCP)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind(("127.0.0.1", port))
        except OSError:
            self._socket.close()
            raise
        self.port = int(self._socket.getsockname()[1])
        config = uvicorn.Config(
            self._serve,
            interface="asgi3",
            log_config=None,
            log_level="error",
            access_log=False,
            lifespan="off",
            timeout_keep_alive=60,
            ssl_certfile=str(certificate.certificate),
            ssl_keyfile=str(certificate.key),
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, args=([self._socket],), name="loopback", daemon=True
        )

    @property
    def url(self) -> str:
        """Address of the server."""
        return f"https://127.0.0.1:{self.port}"

    def start(self, respond: Respond) -> None:
        """Start serving.

        Args:
            respond: Called in a thread for each request.

        Raises:
            RehearsalError: the server does not start.
        """
        self._respond = respond
        self._thread.start()
        wait_until(
            lambda: self._server.started or not self._thread.is_alive(), _START_SECONDS, 0.01
        )
        if not self._server.started:
            raise RehearsalError("the HTTPS server on loopback did not start")

    def stop(self) -> None:
        """Stop accepting requests, without waiting for clients that keep their connection."""
        self._server.should_exit = True
        self._server.force_exit = True

    def close(self) -> None:
        """Stop, and free the port."""
        self.stop()
        if self._thread.is_alive():
            self._thread.join()
        self._socket.close()

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert self._respond is not None
        sent = requests.Request(scope, receive)
        path, query = scope["raw_path"].decode("ascii"), scope["query_string"].decode("ascii")
        request = Request(
            sent.method,
            scope["path"],
            dict(sent.query_params),
            dict(sent.headers),
            await sent.body(),
            f"{path}?{query}" if query else path,
        )
        response = await run_in_threadpool(self._respond, request)
        if response.cut:
            _cut(send)
            return
        await _asgi_response(response)(scope, receive, send)


def open_server(store: Store, name: str, certificate: Certificate, port: int = 0) -> Server:
    """Return a server on the port that it had in an earlier run of this Azure, if that is free.

    Args:
        store: Store that remembers the ports.
        name: Name of the server.
        certificate: Certificate for HTTPS.
        port: Port to use instead; 0 for any.

    Raises:
        RehearsalError: the given port is in use.
    """
    known = (store.get(_SPACE, name) or {"port": 0})["port"]
    try:
        server = Server(certificate, port or known)
    except OSError:
        if port:
            raise RehearsalError(f"port {port} is in use; choose another one") from None
        server = Server(certificate)
    store.put(_SPACE, name, {"port": server.port})
    return server


def _asgi_response(response: Response) -> responses.Response:
    content, media_type = response.body, "application/json"
    if isinstance(content, bytes):
        media_type = "text/plain"
    elif content is not None:
        content = json.dumps(content)
    return responses.Response(content, response.status, response.headers, media_type)


def _cut(send: Send) -> None:
    """Close the connection: uvicorn's `send` is a method of the object that has the transport."""
    cycle: Any = send
    cycle.__self__.transport.abort()
