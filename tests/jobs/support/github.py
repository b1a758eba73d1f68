"""The part of GitHub's REST API that writes comments, on this machine."""

import json
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

TOKEN = "token-of-a-job"
_ALL = re.compile(r"/repos/team/platform/issues/7/comments")
_ONE = re.compile(r"/repos/team/platform/issues/comments/(\d+)")


@dataclass
class GitHub:
    """One pull request with its comments."""

    address: str
    comments: dict[int, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """Variables of a job with which it finds this GitHub."""
        return {
            "GITHUB_API_URL": self.address,
            "GITHUB_REPOSITORY": "team/platform",
            "GITHUB_TOKEN": TOKEN,
        }


@pytest.fixture
def github():
    """Serve pull request 7 of team/platform, which ends with its test."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            page = int(parse_qs(urlsplit(self.path).query)["page"][0])
            ids = sorted(found.comments)[100 * (page - 1) : 100 * page]
            self.answer(_ALL, lambda _: [shown(one) for one in ids])

        def do_POST(self):
            number = max(found.comments, default=0) + 1
            self.answer(_ALL, lambda _: write(number, self.body()), 201)

        def do_PATCH(self):
            self.answer(_ONE, lambda match: write(int(match[1]), self.body()))

        def body(self):
            return json.loads(self.rfile.read(int(self.headers["Content-Length"])))["body"]

        def answer(self, pattern, act, status=200):
            match = pattern.fullmatch(urlsplit(self.path).path)
            allowed = self.headers["Authorization"] == f"Bearer {TOKEN}"
            document = act(match) if match and allowed else {}
            self.send_response(status if match and allowed else 404 if allowed else 403)
            self.end_headers()
            self.wfile.write(json.dumps(document).encode())

        def log_message(self, *_):
            return

    def shown(number):
        url = f"https://github.com/team/platform/pull/7#issuecomment-{number}"
        return {"id": number, "body": found.comments[number], "html_url": url}

    def write(number, body):
        found.comments[number] = body
        return shown(number)

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        found = GitHub(f"http://127.0.0.1:{server.server_port}")
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield found
        server.shutdown()
