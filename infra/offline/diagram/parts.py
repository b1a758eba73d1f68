"""How the picture reads a resource's inputs as text."""

from collections.abc import Mapping

from infra.policies.rule import value
from infra.resources import Resource


def last(identifier: object) -> str:
    """The last part of an Azure identifier."""
    return str(identifier).rstrip("/").rsplit("/", 1)[-1]


def text_at(resource: Resource, path: str) -> str:
    """The input at a dotted path; empty where there is none."""
    found = value(resource, path)
    return "" if found is None else str(found)


def value_of(part: Mapping[str, object], key: str) -> str:
    """The identifier that a part of a resource refers to; empty where it refers to none."""
    found = part.get(key)
    return str(found.get("id", "")) if isinstance(found, Mapping) else ""
