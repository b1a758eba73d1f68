"""What a recorded request asked for, without the names of anything. Pure."""

import re
import urllib.parse
from typing import Literal

from rehearsal.control_plane.arm_path import parse
from rehearsal.errors import AzureError

Service = Literal["resource manager", "blob storage", "run history", "sign-in", "metrics"]

OTHER = "other"
"""What is not known here; its path may have names in it."""

_SIGN_IN = {
    "cloud endpoints": re.compile(r"/metadata/endpoints"),
    "token": re.compile(r"/[^/]+/oauth2(/v2\.0)?/token"),
    "configuration": re.compile(
        r"/[^/]+/(v2\.0/)?\.well-known/openid-configuration|/[^/]+/discovery/instance"
    ),
}
_NAMESAKES = {"Microsoft.OperationalInsights"}
"""Providers whose types are called like those of others, so that they are named as well."""

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


def classify(method: str, path: str, query: str) -> tuple[Service, str]:
    """The service that a request went to, and what it asked for.

    Args:
        method: of HTTP.
        path: with the names and ids that are left out here.
        query: without its question mark; may be empty.
    """
    for name, pattern in _SIGN_IN.items():
        if pattern.fullmatch(path):
            return "sign-in", name
    if path.lower().startswith("/subscriptions"):
        return "resource manager", _managed(method, path)
    if path.startswith("/discovery"):
        return "run history", "discovery"
    if path.startswith("/history/"):
        return "run history", _history(path)
    if path.startswith("/mlflow/"):
        found = _METRICS.search(path)
        return "metrics", found[1] if found else OTHER
    return "blob storage", _blob(path, query)


def _managed(method: str, path: str) -> str:
    try:
        asked = parse(path)
    except AzureError:
        return OTHER
    if not asked.tail:
        return _type(asked.kind)
    if method == "POST":
        return f"{_type(asked.kind)}: {asked.tail}"
    within = "/providers/" in path
    return f"{_type(f'{asked.kind}/{asked.tail}') if within else asked.tail}: list"


def _type(kind: str) -> str:
    provider, _, own = kind.partition("/")
    return kind.removeprefix("Microsoft.") if provider in _NAMESAKES else own


def _history(path: str) -> str:
    if path.endswith("/rundata"):
        return "rundata"
    found = _RUN.search(path)
    if found is None:
        return OTHER
    return f"runs: {found[1]}" if found[1] else "runs"


def _blob(path: str, query: str) -> str:
    asked = dict(urllib.parse.parse_qsl(query))
    operation = asked.get("comp", "")
    within = path.strip("/").partition("/")[2]
    if not within:
        return "containers: list" if operation == "list" else "account"
    if asked.get("restype") == "container":
        return f"container: {operation}" if operation in _CONTAINER else "container"
    return f"blob: {_BLOB[operation]}" if operation in _BLOB else "blob"
