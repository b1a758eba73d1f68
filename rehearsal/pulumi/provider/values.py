"""Conversion of values between the engine's protocol and Python."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from google.protobuf import json_format, struct_pb2

UNKNOWN: Final = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
"""Marks a value that only the deployment will know; the protocol has one mark for each type."""
_UNKNOWN: Final = frozenset(
    {
        UNKNOWN,
        "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",
        "3eeb2bf0-c639-47a8-9e75-3b44932eb421",
        "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",
        "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",
    }
)


def is_unknown(value: object) -> bool:
    """Check whether a value is not known yet."""
    return isinstance(value, str) and value in _UNKNOWN


def holds_unknown(value: object) -> bool:
    """Check whether a value, or any value in it, is not known yet."""
    if isinstance(value, Mapping):
        return any(holds_unknown(key) or holds_unknown(item) for key, item in value.items())
    if isinstance(value, list):
        return any(holds_unknown(item) for item in value)
    return is_unknown(value)


def plain(struct: struct_pb2.Struct) -> dict[str, Any]:
    """Convert the engine's values; whole numbers become integers: the protocol has only floats."""
    values: dict[str, Any] = _integers(json_format.MessageToDict(struct))
    return values


def struct(values: Mapping[str, Any]) -> struct_pb2.Struct:
    """Convert values for the engine."""
    message = struct_pb2.Struct()
    message.update(dict(values))
    return message


def at(value: Any, path: str) -> Iterator[Any]:
    """Yield all values at a dotted path, which leads through every element of a list."""
    if isinstance(value, list):
        for item in value:
            yield from at(item, path)
        return
    first, _, rest = path.partition(".")
    if is_unknown(value):
        yield value
    elif isinstance(value, Mapping) and first in value:
        if rest:
            yield from at(value[first], rest)
        else:
            yield value[first]


def _integers(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _integers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_integers(item) for item in value]
    return value
