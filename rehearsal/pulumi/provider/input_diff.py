"""The difference between two sets of inputs, and whether it takes another resource. Pure."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from rehearsal.pulumi.provider.types.resource_type import ResourceType

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ELEMENT = re.compile(r"\[\d+\]")


@dataclass(frozen=True)
class InputChange:
    """One value that differs."""

    path: str
    """As the engine writes it, such as `subnets[0].name` or `tags["cost-center"]`."""
    kind: Literal["add", "delete", "update"]
    replaces: bool
    """Whether no change to what exists can bring it about."""


def input_changes(
    type_: ResourceType, before: Mapping[str, Any], after: Mapping[str, Any]
) -> list[InputChange]:
    """All values that differ, in the order of their paths."""
    fixed = type_.fixed | type_.identifying
    return [
        InputChange(path, kind, any(_within(path, other) for other in fixed))
        for path, kind in sorted(_differences("", before, after))
    ]


def _differences(
    path: str, before: Any, after: Any
) -> Iterator[tuple[str, Literal["add", "delete", "update"]]]:
    if before == after:
        return
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in before.keys() | after.keys():
            yield from _member(_below(path, key), key, before, after)
    elif isinstance(before, list) and isinstance(after, list):
        for index in range(max(len(before), len(after))):
            yield from _member(
                f"{path}[{index}]", index, dict(enumerate(before)), dict(enumerate(after))
            )
    else:
        yield path, "update"


def _member(
    path: str, key: Any, before: Mapping[Any, Any], after: Mapping[Any, Any]
) -> Iterator[tuple[str, Literal["add", "delete", "update"]]]:
    if key not in before:
        yield path, "add"
    elif key not in after:
        yield path, "delete"
    else:
        yield from _differences(path, before[key], after[key])


def _below(path: str, key: str) -> str:
    if not _PLAIN.fullmatch(key):
        return f"{path}[{json.dumps(key)}]"
    return f"{path}.{key}" if path else key


def _within(path: str, fixed: str) -> bool:
    plain = _ELEMENT.sub("", path)
    return plain == fixed or plain.startswith((f"{fixed}.", f"{fixed}["))
