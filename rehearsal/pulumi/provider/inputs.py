"""Validates and compares the inputs of a resource, as Azure would. Pure."""

import ipaddress
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from rehearsal.pulumi.provider import schema
from rehearsal.pulumi.provider.resource_type import ResourceType, is_name, own_name
from rehearsal.pulumi.provider.schema import InputProblem
from rehearsal.pulumi.provider.values import at, holds_unknown, is_unknown

_LEAST_ADDRESSES: Final = 4
_PRIVATE: Final = tuple(
    ipaddress.ip_network(text) for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")
)
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ELEMENT = re.compile(r"\[\d+\]")
_Range: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network


def input_problems(type_: ResourceType, inputs: Mapping[str, Any]) -> list[InputProblem]:
    """Return all problems of the inputs; values that are not known yet are not checked."""
    problems = [
        problem
        for problem in schema.problems(type_.arguments, inputs)
        if problem.path not in type_.values
    ]
    missing = {problem.path for problem in problems}
    problems += [
        InputProblem(path, schema.MISSING)
        for path in type_.demanded()
        if path not in missing and not any(True for _ in at(inputs, path))
    ]
    name = inputs.get(type_.names[-1])
    if name is not None and not is_unknown(name) and not is_name(type_, str(name)):
        mismatch = f"{own_name(type_, inputs)!r} does not match {type_.name_form}"
        problems.append(InputProblem(type_.names[-1], mismatch))
    for path, allowed in sorted(type_.values.items()):
        for value in at(inputs, path):
            if allowed and not is_unknown(value) and value not in allowed:
                problems.append(schema.not_allowed(path, value, allowed))
    for path, space in type_.ranges.items():
        problems += [InputProblem(path, reason) for reason in _misplaced(inputs, path, space)]
    for path in sorted(type_.internet):
        for value in at(inputs, path):
            if not is_unknown(value):
                problems += [InputProblem(path, reason) for reason in _unreachable(str(value))]
    return problems


def _misplaced(inputs: Mapping[str, Any], path: str, space: str) -> Iterator[str]:
    """Yield the problems of address ranges that must lie in others."""
    ranges = (_range(text) for text in _texts(inputs, space))
    around = [network for network in ranges if network is not None]
    if space and holds_unknown(list(at(inputs, space))):
        around = []
    before: list[_Range] = []
    for text in _texts(inputs, path):
        own = _range(text)
        if own is None:
            yield f"{text!r} is not an address range"
            continue
        if around and not any(_lies_in(own, network) for network in around):
            yield f"{text!r} is not in {', '.join(map(str, around))}"
        if space:
            yield from (f"{text!r} overlaps {other}" for other in before if own.overlaps(other))
        before.append(own)


def _unreachable(text: str) -> Iterator[str]:
    """Yield the problems of an address, or range, that is to be allowed from the internet."""
    own = _range(text)
    if own is None:
        yield f"{text!r} is not an address or address range"
    elif any(own.overlaps(network) for network in _PRIVATE):
        yield f"{text!r} is not a public address"
    elif "/" in text and own.num_addresses < _LEAST_ADDRESSES:
        yield f"{text!r} is too small a range; list the addresses one by one"


def _texts(inputs: Mapping[str, Any], path: str) -> list[str]:
    """Return all known texts at a path, whether it leads to lists or to single values."""
    texts: list[str] = []
    for value in at(inputs, path) if path else ():
        items = value if isinstance(value, list) else [value]
        texts += [str(item) for item in items if not is_unknown(item)]
    return texts


def _range(text: str) -> _Range | None:
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        return None


def _lies_in(own: _Range, other: _Range) -> bool:
    if isinstance(own, ipaddress.IPv4Network) and isinstance(other, ipaddress.IPv4Network):
        return own.subnet_of(other)
    if isinstance(own, ipaddress.IPv6Network) and isinstance(other, ipaddress.IPv6Network):
        return own.subnet_of(other)
    return False


@dataclass(frozen=True)
class InputChange:
    """One value that differs."""

    path: str
    """Path as the engine writes it, such as `subnets[0].name` or `tags["cost-center"]`."""
    kind: Literal["add", "delete", "update"]
    replaces: bool
    """Whether the change requires a new resource."""


def input_changes(
    type_: ResourceType, before: Mapping[str, Any], after: Mapping[str, Any]
) -> list[InputChange]:
    """Return all values that differ, in the order of their paths."""
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
