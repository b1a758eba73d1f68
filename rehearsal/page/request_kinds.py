"""Counts logged requests by kind of resource, without any names. Pure."""

import re
import statistics
import urllib.parse
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from rehearsal.control_plane.arm_path import parse
from rehearsal.control_plane.request_log import LoggedRequest
from rehearsal.errors import AzureError

Service: TypeAlias = Literal[
    "resource manager", "blob storage", "run history", "sign-in", "metrics", "endpoints"
]

OTHER = "other"
"""Resource of unknown requests, whose path may contain names."""

_SIGN_IN = {
    "cloud endpoints": re.compile(r"/metadata/endpoints"),
    "token": re.compile(r"/[^/]+/oauth2(/v2\.0)?/token"),
    "configuration": re.compile(
        r"/[^/]+/(v2\.0/)?\.well-known/openid-configuration|/[^/]+/discovery/instance"
    ),
}
_NAMESAKES = {"Microsoft.OperationalInsights"}
"""Providers with the same type names as others, so that their names are shown too."""

_WHOLE: Final[Mapping[str, tuple[Service, str]]] = {
    "/discovery": ("run history", "discovery"),
    "/inference/": ("endpoints", "endpoint: score"),
}
"""Requests of one kind each, by the beginning of their paths."""

_RUN = re.compile(r"/runs/[^/]+(?:/(\w+))?")
_METRICS = re.compile(r"/api/2\.0/mlflow/([a-z-]+(?:/[a-z-]+)?)$")
_CONTAINER = {"acl", "lease", "list", "metadata"}
_BLOB = {
    "appendblock": "append block",
    "block": "block",
    "blocklist": "block list",
    "copy": "copy",
    "lease": "lease",
    "metadata": "metadata",
    "page": "page",
    "properties": "properties",
    "snapshot": "snapshot",
    "tags": "tags",
    "tier": "tier",
}


_ABSENT = {404, 416}
"""Statuses for a missing resource. 416 is the answer to a range of a blob that is not written
yet."""


@dataclass(frozen=True)
class RequestKind:
    """Requests with the same method and kind of resource."""

    service: Service
    method: str
    """HTTP method."""
    resource: str
    """Kind of resource, without names and ids, such as `workspaces/jobs`."""
    count: int
    errors: int
    """Responses with a status of at least 400, or none at all, except those counted in `absent`."""
    median_ms: float | None = None
    """Median duration in milliseconds; None if it was not measured."""
    absent: int = 0
    """Responses that the resource does not exist (any more, or yet), or has no such range."""


def count_kinds(requests: Sequence[LoggedRequest]) -> tuple[RequestKind, ...]:
    """Count logged requests by kind; by service, the most frequent first."""
    alike: dict[tuple[Service, str, str], list[LoggedRequest]] = defaultdict(list)
    for request in requests:
        service, resource = classify(request.method, request.path, request.query)
        alike[service, request.method, resource].append(request)
    order = get_args(Service)
    counted = [_kind(*key, each) for key, each in alike.items()]
    return tuple(
        sorted(counted, key=lambda k: (order.index(k.service), -k.count, k.resource, k.method))
    )


def _kind(
    service: Service, method: str, resource: str, requests: Sequence[LoggedRequest]
) -> RequestKind:
    absent = sum(request.status in _ABSENT for request in requests)
    errors = sum(request.status == 0 or request.status >= 400 for request in requests) - absent
    times = [request.seconds for request in requests if request.seconds is not None]
    median = round(statistics.median(times) * 1000, 1) if times else None
    return RequestKind(service, method, resource, len(requests), errors, median, absent)


def classify(method: str, path: str, query: str) -> tuple[Service, str]:
    """Return the service that a request went to, and the kind of resource that it named.

    Args:
        method: HTTP method.
        path: Path, with the names and ids that are left out here.
        query: Query without its question mark; may be empty.
    """
    for name, pattern in _SIGN_IN.items():
        if pattern.fullmatch(path):
            return "sign-in", name
    if path.lower().startswith("/subscriptions"):
        return "resource manager", _managed(method, path)
    for start, kind in _WHOLE.items():
        if path.startswith(start):
            return kind
    if path.startswith("/history/"):
        return "run history", _history(path)
    if path.startswith("/mlflow/"):
        match = _METRICS.search(path)
        return "metrics", match[1] if match else OTHER
    return "blob storage", _blob(path, query)


def _managed(method: str, path: str) -> str:
    try:
        arm = parse(path)
    except AzureError:
        return OTHER
    if not arm.tail:
        return _type(arm.kind)
    if method == "POST":
        return f"{_type(arm.kind)}: {arm.tail}"
    within = "/providers/" in path
    return f"{_type(f'{arm.kind}/{arm.tail}') if within else arm.tail}: list"


def _type(kind: str) -> str:
    provider, _, own = kind.partition("/")
    return kind.removeprefix("Microsoft.") if provider in _NAMESAKES else own


def _history(path: str) -> str:
    if path.endswith("/rundata"):
        return "rundata"
    match = _RUN.search(path)
    if match is None:
        return OTHER
    return f"runs: {match[1]}" if match[1] else "runs"


def _blob(path: str, query: str) -> str:
    parameters = dict(urllib.parse.parse_qsl(query))
    operation = parameters.get("comp", "")
    within = path.strip("/").partition("/")[2]
    if not within:
        return "containers: list" if operation == "list" else "account"
    if parameters.get("restype") == "container":
        return f"container: {operation}" if operation in _CONTAINER else "container"
    return f"blob: {_BLOB[operation]}" if operation in _BLOB else "blob"
