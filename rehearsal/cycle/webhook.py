"""A webhook on this machine, in the place of a chat room that gets the notices about runs."""

import contextlib
import json
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from typing_extensions import override


class Webhook(contextlib.AbstractContextManager["Webhook"]):
    """Receives notices, and keeps them in the order of their arrival."""

    def __init__(self) -> None:
        self._notices: list[dict[str, Any]] = []
        notices = self._notices

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                size = int(self.headers["Content-Length"])
                notices.append(json.loads(self.rfile.read(size)))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            @override
            def log_message(self, format: str, *args: Any) -> None:
                """Log nothing: the notices are kept."""

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def address(self) -> str:
        """URL that notices are sent to."""
        return f"http://127.0.0.1:{self._server.server_port}/"

    @property
    def ids(self) -> Sequence[str]:
        """Ids of all notices so far."""
        return [str(notice.get("id")) for notice in self._notices]
