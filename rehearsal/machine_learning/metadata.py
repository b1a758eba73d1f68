"""The metadata service of the nodes: what Azure announces about their VMs.

One server answers for all nodes. On Azure each VM asks the same address and gets its own answer;
here the address of each node has a path of its own. Standard library only.
"""

import json
import threading
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Literal
from urllib.parse import parse_qs, urlsplit

from typing_extensions import override

EventType = Literal["Preempt", "Terminate", "Reboot", "Redeploy", "Freeze"]

NOTICE_SECONDS: Final = 30.0
"""Time from the notice of a pre-emption to the end of the VM."""


class Metadata:
    """The metadata services of all nodes of executions of jobs."""

    def __init__(self) -> None:
        """Start to serve on a free port."""
        self._events: dict[str, list[dict[str, Any]]] = {}
        """Events by the execution whose nodes see them."""
        self._incarnation = 0
        self.asked: list[str] = []
        """Nodes that have asked, as EXECUTION/NODE, each once."""
        self._lock = threading.Lock()
        metadata = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, body = metadata._answer(self.path, self.headers.get("Metadata"))
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            @override
            def log_message(self, format: str, *args: Any) -> None:
                """Write no log."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), name="metadata", daemon=True
        )
        self._thread.start()

    def address(self, execution: str) -> str:
        """Return the address of the services of an execution, to which the number of a node is
        added.
        """
        return f"http://127.0.0.1:{self._server.server_port}/{execution}"

    def announce(
        self,
        execution: str,
        kind: EventType = "Preempt",
        seconds: float = NOTICE_SECONDS,
        nodes: Sequence[int] = (0,),
    ) -> None:
        """Announce an event of some nodes to all nodes of an execution, as to a scale set."""
        when = datetime.now(UTC) + timedelta(seconds=seconds)
        event = {
            "EventId": str(uuid.uuid4()).upper(),
            "EventType": kind,
            "ResourceType": "VirtualMachine",
            "Resources": [_vm(execution, node) for node in nodes],
            "EventStatus": "Scheduled",
            "NotBefore": format_datetime(when, usegmt=True),
            "Description": "",
            "EventSource": "Platform",
            "DurationInSeconds": 5 if kind == "Freeze" else -1,
        }
        with self._lock:
            self._events.setdefault(execution, []).append(event)
            self._incarnation += 1

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _answer(self, target: str, header: str | None) -> tuple[int, bytes]:
        parts = urlsplit(target)
        execution, node, path = ([*parts.path.split("/", 3), "", "", ""])[1:4]
        query = parse_qs(parts.query)
        if (header or "").lower() != "true" or "api-version" not in query:
            return 400, b'{"error": "Bad request. Required metadata header not specified"}'
        if path == "metadata/instance/compute/name":
            return 200, _vm(execution, int(node)).encode()
        if path != "metadata/scheduledevents":
            return 404, b'{"error": "Not found"}'
        with self._lock:
            if f"{execution}/{node}" not in self.asked:
                self.asked.append(f"{execution}/{node}")
            answer = {
                "DocumentIncarnation": self._incarnation,
                "Events": self._events.get(execution, []),
            }
        return 200, json.dumps(answer).encode()


def _vm(execution: str, node: int) -> str:
    return f"{execution}_{node}"
