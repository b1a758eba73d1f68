"""HTTPS on loopback: certificate, server, and ports that survive a restart."""

import datetime as dt
import ipaddress
import json
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import certifi
import uvicorn
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from rehearsal.control_plane.http_messages import Answer, Asked
from rehearsal.control_plane.store import Store
from rehearsal.errors import RehearsalError

_DAYS = 30


@dataclass(frozen=True)
class Certificate:
    """Files of a certificate that only this machine's clients are told to trust."""

    certificate: Path
    key: Path
    bundle: Path
    """The public authorities and this certificate: what clients are given to trust."""


def make_certificate(folder: Path) -> Certificate:
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


_START_SECONDS = 30.0


class Server:
    """Answers requests on a free port, from a thread of its own."""

    def __init__(
        self, answer: Callable[[Asked], Answer], certificate: Certificate, port: int = 0
    ) -> None:
        """Listen, but do not answer yet.

        Args:
            answer: called in a thread for each request.
            certificate: for HTTPS.
            port: of loopback; 0 takes a free one.

        Raises:
            OSError: the port is taken.
        """
        self._answer = answer
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind(("127.0.0.1", port))
        except OSError:
            self._socket.close()
            raise
        self.port = int(self._socket.getsockname()[1])
        config = uvicorn.Config(
            self._respond,
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
        self._thread = threading.Thread(target=self._run, name="loopback", daemon=True)

    def start(self) -> None:
        """Answer from now on."""
        self._thread.start()
        deadline = time.monotonic() + _START_SECONDS
        while not self._server.started:
            if time.monotonic() > deadline or not self._thread.is_alive():
                raise RehearsalError("the server on loopback did not start")
            time.sleep(0.01)

    def stop(self) -> None:
        """Answer nothing new, and wait for nobody who keeps a connection."""
        self._server.should_exit = True
        self._server.force_exit = True

    def close(self) -> None:
        """Stop, and free the port."""
        self.stop()
        if self._thread.is_alive():
            self._thread.join()
        self._socket.close()

    def _run(self) -> None:
        self._server.run(sockets=[self._socket])

    async def _respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        path, query = scope["raw_path"].decode("ascii"), scope["query_string"].decode("ascii")
        asked = Asked(
            request.method,
            request.url.path,
            dict(request.query_params),
            dict(request.headers),
            await request.body(),
            f"{path}?{query}" if query else path,
        )
        answer = await run_in_threadpool(self._answer, asked)
        if answer.cut:
            _cut(send)
            return
        await _response(answer)(scope, receive, send)


def _response(answer: Answer) -> Response:
    headers = dict(answer.headers)
    if isinstance(answer.body, bytes):
        headers.setdefault("content-type", "text/plain; charset=utf-8")
        return Response(answer.body, answer.status, headers)
    content = b"" if answer.body is None else json.dumps(answer.body).encode()
    return Response(content, answer.status, headers, "application/json")


def _cut(send: Send) -> None:
    """Close the connection: what uvicorn sends with is a method of what has the transport."""
    cycle: Any = send
    cycle.__self__.transport.abort()


class Ports:
    """Ports that stay the same when this Azure is started again, if they are still free."""

    def __init__(self, store: Store) -> None:
        """Remember ports in a store."""
        self._store = store

    def server(
        self,
        name: str,
        answer: Callable[[Asked], Answer],
        tls: Certificate,
        wanted: int,
    ) -> Server:
        """A server on the port that it had before, or on a free one.

        Args:
            name: of the server.
            answer: answers its requests.
            tls: its certificate.
            wanted: port that it must have; 0 for any.

        Raises:
            RehearsalError: the port that is wanted is taken.
        """
        known = (self._store.get("ports", name) or {"port": 0})["port"]
        try:
            server = Server(answer, tls, wanted or known)
        except OSError:
            if wanted:
                raise RehearsalError(f"port {wanted} is taken; name another one") from None
            server = Server(answer, tls)
        self._store.put("ports", name, {"port": server.port})
        return server
