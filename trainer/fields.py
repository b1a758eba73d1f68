"""Typed, bounded fields of frozen dataclasses: one set of rules for every way a value comes in.

A configuration is a tree of frozen dataclasses whose leaves are `int`, `float`, `bool`, `str`, a
`Literal`, a homogeneous `tuple[T, ...]`, or one of these with `None`. A leaf may carry `Bounds`
through `Annotated`. Standard library only.
"""

import dataclasses
import difflib
import sys
import types
import typing
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from trainer.errors import ConfigError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Bounds:
    """The values a number may take; bounds are inclusive unless they say otherwise."""

    at_least: float | None = None
    at_most: float | None = None
    above: float | None = None
    below: float | None = None

    def allow(self, value: float) -> bool:
        return (
            (self.at_least is None or value >= self.at_least)
            and (self.at_most is None or value <= self.at_most)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
        )

    def __str__(self) -> str:
        words = {
            "at least": self.at_least,
            "at most": self.at_most,
            "above": self.above,
            "below": self.below,
        }
        return " and ".join(
            f"{word} {bound:g}" for word, bound in words.items() if bound is not None
        )


@dataclasses.dataclass(frozen=True)
class Unparsed:
    """Text from the command line that does not read as the type of its field."""

    text: str


@dataclasses.dataclass(frozen=True)
class Leaf:
    """One field that holds a value, addressed from the root of the configuration."""

    key: str
    """Dotted path, such as `model.image_size`."""
    type: Any
    """The annotation without `Annotated`."""
    bounds: Bounds | None

    @property
    def flag(self) -> str:
        return "--" + self.key.replace("_", "-")


def leaves(cls: type, prefix: str = "") -> Iterator[Leaf]:
    """Every leaf below a dataclass, in the order of declaration."""
    hints = typing.get_type_hints(cls, include_extras=True)
    for field in dataclasses.fields(cls):
        hint, key = hints[field.name], prefix + field.name
        if dataclasses.is_dataclass(hint):
            yield from leaves(typing.cast("type", hint), key + ".")
            continue
        bounds = None
        if get_origin(hint) is Annotated:
            hint, *extras = get_args(hint)
            bounds = next((extra for extra in extras if isinstance(extra, Bounds)), None)
        yield Leaf(key, hint, bounds)


def get(instance: object, key: str) -> Any:
    """The value at a dotted key."""
    for part in key.split("."):
        instance = getattr(instance, part)
    return instance


def describe(hint: Any) -> str:
    """What a field wants, in words."""
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(map(str, get_args(hint)))
    if get_origin(hint) in (Union, types.UnionType):
        return " or ".join(
            "none" if part is type(None) else describe(part) for part in get_args(hint)
        )
    if get_origin(hint) is tuple:
        return f"a list, each {describe(get_args(hint)[0])}"
    return {int: "a whole number", float: "a number", bool: "True or False", str: "a text"}[hint]


def accepts(hint: Any, value: object) -> bool:
    """Whether a value has the type of a field; an `int` is also a `float`, a `bool` is no `int`."""
    origin = get_origin(hint)
    if origin is Literal:
        return any(value == choice and type(value) is type(choice) for choice in get_args(hint))
    if origin in (Union, types.UnionType):
        return any(accepts(part, value) for part in get_args(hint))
    if origin is tuple:
        return isinstance(value, tuple) and all(accepts(get_args(hint)[0], v) for v in value)
    if hint is float:
        return (
            isinstance(value, int | float)
            and not isinstance(value, bool)
            and abs(value) <= sys.float_info.max
        )
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint)


def problems(instance: object) -> list[str]:
    """Every leaf with a wrong type or out of its bounds, each with its key and what it wants."""
    found = []
    for leaf in leaves(type(instance)):
        value = get(instance, leaf.key)
        if isinstance(value, Unparsed) or not accepts(leaf.type, value):
            shown = value.text if isinstance(value, Unparsed) else value
            found.append(f"{leaf.flag}: {shown!r} is not {describe(leaf.type)}")
        elif leaf.bounds is not None:
            numbers = value if isinstance(value, tuple) else (value,)
            found += [
                f"{leaf.flag}: {number!r} must be {leaf.bounds}"
                for number in numbers
                if number is not None and not leaf.bounds.allow(number)
            ]
    return found


def unknown_key(key: str, known: list[str]) -> str:
    """The problem of a key that does not exist, with the one that was probably meant."""
    close = difflib.get_close_matches(key, known, n=1)
    return f"{key}: there is no such key" + (f"; did you mean {close[0]}?" if close else "")


def to_dict(instance: "DataclassInstance") -> dict[str, Any]:
    """Nested plain data of a configuration, as `from_dict` reads it and JSON can hold it."""
    return dataclasses.asdict(instance)


def from_dict(cls: type[T], data: Mapping[str, Any]) -> T:
    """Build a configuration from nested plain data; keys that are missing take their defaults.

    Raises:
        ConfigError: with every unknown key, wrong type and value out of range.
    """
    strange: list[str] = []
    values = _checked(cls, data, "", strange)
    try:
        built = _build(cls, values)
    except ConfigError as error:
        raise ConfigError([*strange, *error.problems]) from None
    if strange:
        raise ConfigError(strange)
    return built


def _checked(cls: type, data: Mapping[str, Any], prefix: str, strange: list[str]) -> dict[str, Any]:
    hints = typing.get_type_hints(cls)
    known = [field.name for field in dataclasses.fields(cls)]
    values: dict[str, Any] = {}
    for name, value in data.items():
        key = prefix + name
        if name not in known:
            strange.append(unknown_key(key, [prefix + other for other in known]))
        elif dataclasses.is_dataclass(hints[name]):
            if isinstance(value, Mapping):
                nested = typing.cast("type", hints[name])
                values[name] = _checked(nested, value, key + ".", strange)
            else:
                strange.append(f"{key}: {value!r} is not a group of keys")
        else:
            values[name] = tuple(value) if isinstance(value, list) else value
    return values


def _build(cls: type[T], values: Mapping[str, Any]) -> T:
    hints = typing.get_type_hints(cls)
    return cls(
        **{
            name: _build(typing.cast("type", hints[name]), value)
            if dataclasses.is_dataclass(hints[name])
            else value
            for name, value in values.items()
        }
    )
