"""The inputs of azure-native's types, as the argument classes of its SDK declare them.

The SDK is generated from the schema with which the real provider checks inputs: names, which of
them are required, and the values of enumerations.
"""

import enum
import functools
import importlib
import inspect
import re
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pulumi

from rehearsal.pulumi.provider.values import is_unknown

_VERSION: Final = re.compile(r"^\s*Uses Azure REST API version ([\w-]+)\.", re.MULTILINE)
MISSING: Final = "is required but missing"
_GIVEN: Final = object()
_NAMES: Final = {"Output": pulumi.Output, "T": type(None)}
"""Names in the SDK's annotations that its own modules do not define."""


@dataclass(frozen=True)
class InputProblem:
    """A problem with an input."""

    path: str
    reason: str


@dataclass(frozen=True)
class Property:
    """A property of an argument class."""

    required: bool
    classes: tuple[type, ...]
    """Argument classes of its value, or of the elements of its list."""
    values: frozenset[Any]
    """Values of its enumeration, or its only value; empty if every value is allowed."""
    fixed: bool
    """Whether its value tells the class from its alternatives."""


def arguments(module: str, kind: str) -> type:
    """Return the argument class of a resource, such as `storage` and `StorageAccount`."""
    module_ = importlib.import_module(f"pulumi_azure_native.{module}")
    # The plain name is taken where other resources contain such a resource.
    class_: type = getattr(module_, f"{kind}InitArgs", None) or getattr(module_, f"{kind}Args")
    return class_


def api_version(module: str, kind: str) -> str:
    """Return the version of Azure's API that azure-native uses for a resource."""
    resource = getattr(importlib.import_module(f"pulumi_azure_native.{module}"), kind)
    documented = typing.get_overloads(resource.__init__)[0].__doc__ or ""
    match = _VERSION.search(documented)
    assert match is not None, f"{module}:{kind}: its documentation names no API version"
    return match[1]


@functools.cache
def properties(class_: type) -> Mapping[str, Property]:
    """Return the properties of an argument class by azure-native's names."""
    getters = {
        name: value.fget
        for name, value in vars(class_).items()
        if isinstance(value, property) and value.fget is not None
    }
    parameters = inspect.signature(class_).parameters
    required = {name for name in getters if parameters[name].default is inspect.Parameter.empty}
    # The class itself sets the value that tells it from its alternatives, such as a computeType.
    example = class_(**dict.fromkeys(required, _GIVEN))
    by_name = {}
    for name, getter in getters.items():
        leaves = tuple(
            dict.fromkeys(_leaves(typing.get_type_hints(getter, localns=_NAMES)["return"]))
        )
        values = {member.value for leaf in leaves if issubclass(leaf, enum.Enum) for member in leaf}
        fixed = name in required and pulumi.get(example, name) is not _GIVEN
        if fixed:
            values = {pulumi.get(example, name)}
        by_name[getattr(getter, "_pulumi_name", name)] = Property(
            name in required,
            tuple(leaf for leaf in leaves if hasattr(leaf, "_pulumi_input_type")),
            frozenset(values),
            fixed,
        )
    return by_name


def problems(class_: type, inputs: Mapping[str, Any], above: str = "") -> Iterator[InputProblem]:
    """Yield properties that an argument class would not accept; unknown values are not checked.

    Args:
        class_: The argument class.
        inputs: Values by azure-native's names.
        above: Path of the object, with a final dot; empty for a resource.
    """
    known = properties(class_)
    for name in sorted(inputs.keys() - known.keys()):
        yield InputProblem(f"{above}{name}", f"unknown input {name!r}")
    for name, declared in known.items():
        if inputs.get(name) is not None:
            yield from _value_problems(declared, inputs[name], f"{above}{name}")
        elif declared.required:
            yield InputProblem(f"{above}{name}", MISSING)


def _value_problems(declared: Property, value: Any, path: str) -> Iterator[InputProblem]:
    if isinstance(value, list):
        for item in value:
            yield from _value_problems(declared, item, path)
    elif isinstance(value, Mapping) and declared.classes:
        yield from _object_problems(declared.classes, value, path)
    elif declared.values and not is_unknown(value) and value not in declared.values:
        yield not_allowed(path, value, declared.values)


def not_allowed(path: str, value: Any, allowed: frozenset[Any]) -> InputProblem:
    """Return the problem of a value that is not one of those allowed."""
    return InputProblem(path, f"{value!r} is not one of {', '.join(sorted(map(str, allowed)))}")


def _object_problems(
    classes: tuple[type, ...], value: Mapping[str, Any], path: str
) -> Iterator[InputProblem]:
    """Yield the problems of an object, whose class is the one with its computeType, or the like."""
    if len(classes) == 1:
        yield from problems(classes[0], value, f"{path}.")
        return
    (name,) = {name for class_ in classes for name, own in properties(class_).items() if own.fixed}
    kinds = {kind: class_ for class_ in classes for kind in properties(class_)[name].values}
    kind = value.get(name)
    if kind in kinds:
        yield from problems(kinds[kind], value, f"{path}.")
    elif kind is None:
        yield InputProblem(f"{path}.{name}", MISSING)
    elif not is_unknown(kind):
        yield not_allowed(f"{path}.{name}", kind, frozenset(kinds))


def _leaves(hint: Any) -> Iterator[type]:
    """Yield the classes of a value, or of the elements of a list."""
    origin = typing.get_origin(hint)
    if origin is typing.Union or origin is Sequence:
        for inner in typing.get_args(hint):
            yield from _leaves(inner)
    elif isinstance(hint, type):
        yield hint
