"""Typed fields of frozen dataclasses, read strictly from nested plain data.

A leaf is `str`, `int`, `float`, `bool`, a `Literal`, a `Mapping[str, T]`, a homogeneous
`tuple[T, ...]`, a dataclass, or one of these with `None`. `Annotated` adds `Bounds` to a number and
a `Form` to a text, as in `tuple[Annotated[str, Form(...)], ...]`. One reader serves the settings
that come in and the outputs that go on to `jobs/`. Standard library only.
"""

import dataclasses
import difflib
import math
import re
import sys
import types
import typing
from collections.abc import Mapping
from typing import Annotated, Any, Generic, Literal, TypeVar, Union, get_args, get_origin

T = TypeVar("T")

KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}


@dataclasses.dataclass(frozen=True)
class Bounds:
    """The numbers that a field takes, both ends included."""

    at_least: float
    at_most: float = math.inf

    def problem(self, value: float) -> str | None:
        if self.at_least <= value <= self.at_most:
            return None
        if self.at_most == math.inf:
            return f"must be at least {self.at_least:g}"
        return f"must be from {self.at_least:g} to {self.at_most:g}"


@dataclasses.dataclass(frozen=True)
class Form:
    """The texts that a field takes: a pattern that the whole text matches, and it in words."""

    pattern: str
    wants: str

    def problem(self, value: str) -> str | None:
        return None if re.fullmatch(self.pattern, value) else f"must be {self.wants}"


@dataclasses.dataclass(frozen=True)
class Reading(Generic[T]):
    """What was read, and what was wrong with it."""

    value: T
    """Built from all that could be read. Where a field was wrong it holds its default, or an empty
    value of its type, so that other fields can still be checked."""
    problems: tuple[str, ...]
    unsound: frozenset[str]
    """Dotted keys whose value in `value` is not what was given."""

    def is_sound(self, key: str) -> bool:
        """Whether neither this key, nor a group around it, nor a key inside it was wrong."""
        return not any(
            bad == key or bad.startswith(key + ".") or key.startswith(bad + ".")
            for bad in self.unsound
        )


def read(cls: type[T], data: Mapping[str, object]) -> Reading[T]:
    """Read a dataclass from nested plain data; keys that are missing take their defaults.

    Never raises for bad data: every unknown key, missing key, wrong type and value outside its
    bounds or form is in the `problems` of what it returns.
    """
    reader = _Reader()
    value = reader.group(cls, data, "")
    return Reading(value, tuple(reader.problems), frozenset(reader.unsound))


def to_dict(instance: object) -> dict[str, Any]:
    """Nested plain data of a dataclass, as `read` takes it and JSON can hold it."""
    return {
        field.name: _plain(getattr(instance, field.name))
        for field in dataclasses.fields(instance)  # type: ignore[arg-type]
    }


def describe(hint: Any) -> str:
    """What a field wants, in words."""
    forms = [rule.wants for rule in _rules(hint) if isinstance(rule, Form)]
    bare = _bare(hint)
    if forms:
        return forms[0]
    if get_origin(bare) is Literal:
        return "one of " + ", ".join(map(str, get_args(bare)))
    if _is_optional(bare):
        return describe(_inner(bare)) + " or nothing"
    if get_origin(bare) is tuple or _is_mapping(bare):
        mapping = _is_mapping(bare)
        holder = "a group of names, each with" if mapping else "a list, each"
        return f"{holder} {describe(get_args(bare)[1 if mapping else 0])}"
    return _describe_group(bare) if dataclasses.is_dataclass(bare) else KINDS[bare]


def _describe_group(bare: Any) -> str:
    needed = [field.name for field, _ in _hints(bare) if _default(field) is dataclasses.MISSING]
    return "a group of keys" + (f" with {', '.join(needed)}" if needed else "")


def unknown_key(key: str, known: list[str]) -> str:
    """The problem of a key that does not exist, with the one that was probably meant."""
    name = key.rpartition(".")[2]
    close = difflib.get_close_matches(name, [other.rpartition(".")[2] for other in known], n=1)
    match = next((other for other in known if close and other.rpartition(".")[2] == close[0]), None)
    meant = f"did you mean {match}?" if match else f"known here: {', '.join(known)}"
    return f"{key}: there is no such key; {meant}"


class _Reader:
    def __init__(self) -> None:
        self.problems: list[str] = []
        self.unsound: set[str] = set()

    def group(
        self, cls: type[T], data: Mapping[str, object], prefix: str, base: object = None
    ) -> T:
        hints = _hints(cls)
        known = [prefix + field.name for field, _ in hints]
        self.problems += [
            unknown_key(f"{prefix}{name}", known) for name in data if f"{prefix}{name}" not in known
        ]
        return cls(
            **{
                field.name: self._field(_default(field, base), hint, data, prefix + field.name)
                for field, hint in hints
            }
        )

    def _field(self, default: Any, hint: Any, data: Mapping[str, object], key: str) -> object:
        name = key.rpartition(".")[2]
        if name in data:
            found = len(self.problems)
            value = self._value(hint, data[name], key, default)
            if len(self.problems) == found or dataclasses.is_dataclass(value):
                return value
            self.unsound.add(key)
        elif default is dataclasses.MISSING:
            self.problems.append(f"{key}: is missing; give {describe(hint)}")
            self.unsound.add(key)
        return _empty(hint) if default is dataclasses.MISSING else default

    def _value(self, hint: Any, value: object, key: str, default: object = None) -> object:
        bare = _bare(hint)
        if _is_optional(bare):
            inner = _inner(bare)
            return None if value is None else self._value(inner, value, key, default)
        if isinstance(value, Mapping):
            if dataclasses.is_dataclass(bare):
                return self.group(typing.cast("type", bare), value, key + ".", default)
            if _is_mapping(bare):
                item = get_args(bare)[1]
                return {str(k): self._value(item, v, f"{key}.{k}") for k, v in value.items()}
        if get_origin(bare) is tuple and isinstance(value, list | tuple):
            item = get_args(bare)[0]
            return tuple(self._value(item, v, f"{key}[{i}]") for i, v in enumerate(value))
        return self._leaf(bare, _rules(hint), value, key)

    def _leaf(self, bare: Any, rules: tuple[Any, ...], value: object, key: str) -> object:
        if not _accepts(bare, value):
            self.problems.append(f"{key}: {value!r} is not {describe(bare)}")
            return value
        if bare in {int, float}:
            value = bare(value)
        for rule in rules:
            wrong = rule.problem(value)
            if wrong:
                self.problems.append(f"{key}: {value!r} {wrong}")
        return value


def _hints(cls: type) -> list[tuple["dataclasses.Field[Any]", Any]]:
    hints = typing.get_type_hints(cls, include_extras=True)
    return [(field, hints[field.name]) for field in dataclasses.fields(cls)]


def _default(field: "dataclasses.Field[Any]", base: object = None) -> object:
    """What a missing key takes: that of the group's own default, if it has one."""
    if dataclasses.is_dataclass(base):
        return getattr(base, field.name)
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _empty(hint: Any) -> object:
    bare = _bare(hint)
    if _is_optional(bare):
        return None
    if dataclasses.is_dataclass(bare):
        nested = typing.cast("type", bare)
        return nested(**{field.name: _empty(inner) for field, inner in _hints(nested)})
    if get_origin(bare) is Literal:
        return get_args(bare)[0]
    if _is_mapping(bare):
        return {}
    return () if get_origin(bare) is tuple else bare()


def _accepts(bare: Any, value: object) -> bool:
    if get_origin(bare) is Literal:
        return any(value == choice and type(value) is type(choice) for choice in get_args(bare))
    if bare in {int, float}:
        if not isinstance(value, int | float) or isinstance(value, bool):
            return False
        # Pulumi hands whole numbers on as 4.0; neither infinity nor NaN is within the limit.
        return abs(value) <= sys.float_info.max and (bare is float or value == int(value))
    return type(value) is bare


def _plain(value: object) -> Any:
    if dataclasses.is_dataclass(value):
        return to_dict(value)
    if isinstance(value, Mapping):
        return dict(value)
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _bare(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def _rules(hint: Any) -> tuple[Any, ...]:
    return get_args(hint)[1:] if get_origin(hint) is Annotated else ()


def _is_optional(bare: Any) -> bool:
    return get_origin(bare) in (Union, types.UnionType)


def _inner(bare: Any) -> Any:
    return next(part for part in get_args(bare) if part is not type(None))


def _is_mapping(bare: Any) -> bool:
    return get_origin(bare) is Mapping
