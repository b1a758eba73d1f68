"""The network between the commands and the simulator, in one process, with faults."""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from http.client import HTTPException, IncompleteRead
from io import BytesIO
from typing import Any
from unittest.mock import patch
from urllib.error import HTTPError, URLError
from urllib.parse import parse_qsl, unquote, urlsplit

import requests
from requests.adapters import HTTPAdapter
from urllib3 import HTTPResponse
from urllib3.exceptions import ProtocolError

from jobs.extras.pipelines import comment
from rehearsal.control_plane.http_messages import Request, Respond, Response
from rehearsal.page.request_kinds import classify
from tests.jobs.faults.clock import Clock
from tests.jobs.faults.github import COMMENTS, HOST
from tests.jobs.faults.simulated import InProcess

HTML = b"<html><head><title>Sign in to the guest network</title></head></html>"
_CODES = {
    400: "BadRequest",
    401: "InvalidAuthenticationToken",
    403: "AuthorizationFailed",
    404: "ResourceNotFound",
    409: "Conflict",
    412: "PreconditionFailed",
    429: "TooManyRequests",
    500: "InternalServerError",
    503: "ServiceUnavailable",
}


@dataclass(frozen=True)
class Fault:
    """What happens to a request."""

    name: str
    status: int | None = None
    retry_after: int | None = None
    body: bytes | None = None
    """Body of the response in place of the service's own."""
    truncated: bool = False
    cut: bool = False
    """Whether the connection is closed without a response."""
    carried_out: bool = False
    """Whether the service carries the request out before its response is lost or replaced."""
    late: float = 0.0
    """Seconds until the response."""
    lasts: float = 0.0
    """Seconds for which all requests of the kind meet the fault; 0 is the one request only."""


@dataclass
class Network:
    """Carries requests to the services of a simulator, and records their kinds."""

    azure: InProcess
    clock: Clock
    fault: Fault | None = None
    kind: str = ""
    """Kind of the requests that meet the fault."""
    number: int = 1
    """Which request of the kind is the first to meet it."""
    kinds: list[str] = field(default_factory=list)
    """Kinds of all requests, in order."""
    met: bool = False
    """Whether a request met the fault."""

    def __post_init__(self) -> None:
        self._seen, self._since = 0, None
        self._lock = threading.Lock()
        self._services: Mapping[str, Respond] = {
            urlsplit(self.azure.url).netloc: self.azure._gateway.respond,
            urlsplit(self.azure.blobs.address("x")).netloc: self.azure._blob_gateway.respond,
            HOST: self.azure.github.respond,
        }

    _since: float | None = field(default=None, init=False)

    @contextmanager
    def patched(self) -> Iterator[None]:
        """Send the requests of this process through this network."""
        real = HTTPAdapter.send

        def send(adapter: HTTPAdapter, request: requests.PreparedRequest, **options: Any) -> Any:
            service = self._services.get(urlsplit(str(request.url)).netloc)
            if service is None:
                return real(adapter, request, **options)
            return adapter.build_response(request, self._send(request, service))

        def urlopen(sent: Any, timeout: float) -> BytesIO:
            del timeout
            headers = {**sent.headers, **sent.unredirected_hdrs}
            request = requests.Request(sent.get_method(), sent.full_url, headers, data=sent.data)
            try:
                answer = self._send(request.prepare(), self._services[HOST])
                body = answer.read()
            except requests.ConnectionError as error:
                raise URLError(str(error)) from error
            except (ProtocolError, HTTPException) as error:
                # http.client tells it when the body is read.
                return _Incomplete(str(error).encode())
            if answer.status >= 400:
                raise HTTPError(sent.full_url, answer.status, "refused", Message(), None)
            return BytesIO(body)

        with patch.object(HTTPAdapter, "send", send), patch.object(comment, "urlopen", urlopen):
            yield

    def _send(self, sent: requests.PreparedRequest, service: Respond) -> HTTPResponse:
        request = _read(sent)
        kind = kind_of(request)
        fault = self._fault(kind)
        if fault is None:
            return _wire(request, service(request))
        if fault.late:
            self.clock.sleep(fault.late)
            return _wire(request, service(request))
        if fault.truncated:
            return _wire(request, service(request), truncated=True)
        if fault.carried_out:
            service(request)
        if fault.cut:
            raise requests.ConnectionError(ProtocolError("Connection aborted."))
        if fault.body is not None:
            return _wire(request, Response(200, fault.body, {"Content-Type": "text/html"}))
        assert fault.status is not None
        return _wire(request, _refusal(fault, is_blob="blob" in kind))

    def _fault(self, kind: str) -> Fault | None:
        with self._lock:
            self.kinds.append(kind)
            if self.fault is None or kind != self.kind:
                return None
            self._seen += 1
            if self._seen < self.number:
                return None
            first = self._since is None
            if self._since is None:
                self._since = self.clock.now
            if not first and self.clock.now - self._since >= self.fault.lasts:
                return None
            self.met = True
            return self.fault


class _Incomplete(BytesIO):
    """A body whose connection is closed in its middle."""

    def read(self, size: int | None = -1, /) -> bytes:
        raise IncompleteRead(super().read(size))


def kind_of(request: Request) -> str:
    """Return the kind of a request, without names."""
    if COMMENTS.search(request.path):
        return f"{request.method} GitHub: comments"
    service, resource = classify(request.method, request.path, request.query_string)
    if service == "blob storage" and "std_log" in request.path:
        resource = "blob: log"
    return f"{request.method} {resource}"


def _read(sent: requests.PreparedRequest) -> Request:
    url = urlsplit(str(sent.url))
    body: Any = sent.body or b""
    if hasattr(body, "read"):
        body = body.read()
    if isinstance(body, str):
        body = body.encode()
    return Request(
        str(sent.method),
        unquote(url.path),
        dict(parse_qsl(url.query)),
        {name.lower(): str(text) for name, text in sent.headers.items()},
        body,
        f"{url.path}?{url.query}" if url.query else url.path,
    )


def _refusal(fault: Fault, *, is_blob: bool) -> Response:
    assert fault.status is not None
    code = _CODES[fault.status]
    headers = {} if fault.retry_after is None else {"Retry-After": str(fault.retry_after)}
    if not is_blob:
        body = {"error": {"code": code, "message": "Injected failure."}}
        return Response(fault.status, body, headers)
    xml = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>Injected.</Message></Error>"
    return Response(
        fault.status,
        xml.encode(),
        {**headers, "x-ms-error-code": code, "Content-Type": "application/xml"},
    )


def _wire(request: Request, response: Response, *, truncated: bool = False) -> HTTPResponse:
    if response.cut:
        raise requests.ConnectionError(ProtocolError("Connection aborted."))
    headers = {name.title(): str(text) for name, text in response.headers.items()}
    body = response.body
    if body is None:
        body = b""
    elif not isinstance(body, bytes):
        body = json.dumps(body).encode()
        headers["Content-Type"] = "application/json"
    if request.method != "HEAD":
        headers["Content-Length"] = str(len(body))
    if truncated:
        body = body[: len(body) // 2]
    return HTTPResponse(
        BytesIO(body if request.method != "HEAD" else b""),
        headers,
        response.status,
        preload_content=False,
        request_method=request.method,
    )
