"""Properties that Azure fills in when a body does not have them. Pure."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

Defaults: TypeAlias = Mapping[str, Any]
"""Defaults by name. A mapping is filled in inside of an object; the other values are plain, or of
the classes of this module, or a tuple of `Versioned`, of which the first that applies counts."""


@dataclass(frozen=True)
class Versioned:
    """A default of some API versions."""

    value: Any
    since: str = ""
    until: str = "~"
    """First version that does not have it."""


@dataclass(frozen=True)
class Each:
    """Defaults of each element of a list, or of an object that a body may have."""

    defaults: Defaults
    absent: Any = None
    """The value if a body has none; None leaves it out."""


def filled(document: Mapping[str, Any], defaults: Defaults, version: str) -> dict[str, Any]:
    """Return a document with the defaults of an API version; a null is filled in, too.

    Args:
        document: The properties that were sent, and those that Azure computed.
        defaults: Defaults of its kind.
        version: API version of the request; empty for the newest.
    """
    result = dict(document)
    for name, default in defaults.items():
        rows = default if isinstance(default, tuple) else (default,)
        applied = [row for row in rows if _applies(row, version)]
        if not applied:
            continue
        value = applied[0].value if isinstance(applied[0], Versioned) else applied[0]
        known = result.get(name)
        if isinstance(value, Each):
            if known is None and value.absent is None:
                continue
            known = copy.deepcopy(value.absent) if known is None else known
            result[name] = _inside(known, value.defaults, version)
        elif isinstance(value, Mapping) and isinstance(known, Mapping):
            result[name] = filled(known, value, version)
        elif known is None:
            result[name] = (
                filled({}, value, version) if isinstance(value, Mapping) else copy.deepcopy(value)
            )
    return result


def _applies(row: Any, version: str) -> bool:
    # Without a version, it is the newest.
    return not isinstance(row, Versioned) or row.since <= (version or "}") < row.until


def _inside(value: Any, defaults: Defaults, version: str) -> Any:
    if isinstance(value, list):
        return [_inside(item, defaults, version) for item in value]
    return filled(value, defaults, version) if isinstance(value, Mapping) else value
