"""Conversion between azure-native's inputs and outputs and Resource Manager's bodies. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from rehearsal.pulumi.provider.resource_type import ResourceType

_ASSIGNED: Final = "userAssignedIdentities"
_UNSEEN: Final = frozenset({"properties", "systemData"})


def body(type_: ResourceType, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of a PUT."""
    given = {name: value for name, value in inputs.items() if name in type_.inputs}
    if isinstance(given.get("identity"), Mapping):
        given["identity"] = _identity(given["identity"])
    outer = {name: given.pop(name) for name in list(given) if name in type_.outer}
    if type_.whole:
        return {**outer, "properties": given.get("properties", {})}
    names = {(_above(path), _last(path)): name for path, name in type_.renamed.items()}
    inner = {}
    for name, value in given.items():
        renamed = _renamed(value, names, name)
        inner[names.get(("", name), name)] = _wrapped(renamed, type_.wrapped, name)
    return {**outer, "properties": inner} if inner or type_.inputs - type_.outer else outer


def outputs(type_: ResourceType, document: Mapping[str, Any]) -> dict[str, Any]:
    """Return azure-native's outputs of a resource.

    The time of the last change is left out: it would add to every drift.
    """
    shown = {name: value for name, value in document.items() if name not in _UNSEEN}
    inner = document.get("properties") or {}
    if type_.whole and not type_.flat_outputs:
        return {**shown, "properties": inner}
    here = {(_above(path), name): _last(path) for path, name in type_.renamed.items()}
    for azure_name, value in inner.items():
        name = here.get(("", azure_name), azure_name)
        bare = _unwrapped(value, type_.wrapped, name)
        shown[name] = _renamed(bare, here, name, back=True)
    return {**shown, "azureApiVersion": type_.api_version}


def drifted(
    type_: ResourceType,
    inputs: Mapping[str, Any],
    before: Mapping[str, Any],
    now: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the inputs with everything that has changed in Azure since the outputs were recorded.

    Args:
        type_: Type of the resource.
        inputs: Inputs of the last deployment.
        before: Recorded outputs.
        now: Current outputs.
    """
    values = {name: inputs.get(name) for name in type_.known if name in inputs}
    names = type_.inputs & (before.keys() | now.keys())
    for name in names:
        old, new = _comparable(name, before.get(name)), _comparable(name, now.get(name))
        value = _applied(values.get(name), old, new)
        if value is None:
            values.pop(name, None)
        else:
            values[name] = value
    return values


def _applied(given: Any, before: Any, now: Any) -> Any:
    """Return a value with the difference between two others applied to it."""
    if before == now:
        return given
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        result = dict(given) if isinstance(given, Mapping) else {}
        for key in before.keys() | now.keys():
            value = _applied(result.get(key), before.get(key), now.get(key))
            if value is None:
                result.pop(key, None)
            else:
                result[key] = value
        return result
    if all(isinstance(value, list) for value in (given, before, now)) and (
        len(given) == len(before) == len(now)
    ):
        return [_applied(*three) for three in zip(given, before, now, strict=True)]
    return now


def _identity(identity: Mapping[str, Any]) -> dict[str, Any]:
    """Return the identities as a map by id: azure-native takes a list."""
    assigned = identity.get(_ASSIGNED)
    if not isinstance(assigned, list):
        return dict(identity)
    return {**identity, _ASSIGNED: {identifier: {} for identifier in assigned}}


def _comparable(name: str, value: Any) -> Any:
    """Return an output in the form of the input with the same name."""
    if name == "identity" and isinstance(value, Mapping):
        given = {key: value[key] for key in ("type", _ASSIGNED) if key in value}
        if isinstance(given.get(_ASSIGNED), Mapping):
            given[_ASSIGNED] = list(given[_ASSIGNED])
        return given
    return value


def _renamed(
    value: Any, names: Mapping[tuple[str, str], str], path: str, *, back: bool = False
) -> Any:
    """Return a value with its keys renamed.

    Args:
        value: Value at the path.
        names: New names, by the path of the object and the old name.
        path: Path in azure-native's names.
        back: Whether to rename to azure-native's names.
    """
    if isinstance(value, list):
        return [_renamed(item, names, path, back=back) for item in value]
    if not isinstance(value, Mapping):
        return value
    renamed = {}
    for key, item in value.items():
        name = names.get((path, key), key)
        renamed[name] = _renamed(item, names, f"{path}.{name if back else key}", back=back)
    return renamed


def _above(path: str) -> str:
    return path.rpartition(".")[0]


def _last(path: str) -> str:
    return path.rpartition(".")[2]


def _wrapped(value: Any, paths: frozenset[str], path: str) -> Any:
    """Return a value whose objects at some paths have `properties` of their own."""
    if isinstance(value, list):
        return [_wrapped(item, paths, path) for item in value]
    if not isinstance(value, Mapping):
        return value
    inner = {key: _wrapped(item, paths, f"{path}.{key}") for key, item in value.items()}
    if path not in paths:
        return inner
    outside = {key: inner.pop(key) for key in ("id", "name") if key in inner}
    return {**outside, "properties": inner} if inner else outside


def _unwrapped(value: Any, paths: frozenset[str], path: str) -> Any:
    """Return a value as it was before `_wrapped`."""
    if isinstance(value, list):
        return [_unwrapped(item, paths, path) for item in value]
    if not isinstance(value, Mapping):
        return value
    bare = dict(value)
    if path in paths:
        bare |= bare.pop("properties", {})
    return {key: _unwrapped(item, paths, f"{path}.{key}") for key, item in bare.items()}
