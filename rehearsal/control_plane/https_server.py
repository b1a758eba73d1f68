"""HTTPS on loopback."""

import json
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import uvicorn
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from rehearsal.control_plane.certificate import Certificate
from rehearsal.control_plane.http_messages import Answer, Asked
from rehearsal.errors import RehearsalError

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
