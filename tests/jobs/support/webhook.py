"""A webhook on this machine."""

import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest


@dataclass
class Receiver:
    """The requests to a webhook, and its answers."""

    address: str
    got: list[dict[str, Any]] = field(default_factory=list)
    """Bodies of the requests that it accepted."""
    answers: list[int] = field(default_factory=list)
    """Statuses of the next responses; afterwards 200."""

    @property
    def ids(self) -> list[str]:
        """Ids of the notices that it accepted, in order."""
        return [notice["id"] for notice in self.got]


@pytest.fixture
def receiver():
    """Serve a webhook that ends with its test."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status = found.answers.pop(0) if found.answers else 200
            if status == 200:
                found.got.append(body)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *_):
            return

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        found = Receiver(f"http://127.0.0.1:{server.server_port}/hush")
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield found
        server.shutdown()
