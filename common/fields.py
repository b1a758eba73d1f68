"""Typed, bounded fields of frozen dataclasses: the same rules for every source of a value.

A configuration is a tree of frozen dataclasses. Its leaves are `int`, `float`, `bool`, `str`, a
`Literal`, a `Mapping[str, T]`, a tuple, or one of these with `None`. `Annotated` adds `Bounds` to a
number and a `Pattern` to a text, also to the items of a tuple. In a `Mapping` of dataclasses, a
group that is given in part keeps the rest of the default of that name, and null removes it.
Standard library only.

`read` builds a tree from nested plain data, such as JSON or YAML, and collects all problems in it.
`problems` checks an existing tree, such as one built from a command line.
"""

import copy
import dataclasses
import difflib
import sys
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Generic, Literal, TypeVar, Union, get_args, get_origin

from common.annotations import Alone, Bounds, Formerly, Pattern, Positional, Required
from common.errors import ConfigError

T = TypeVar("T")

KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}


@dataclasses.dataclass(frozen=True)
class Unparsed:
    """Text from the command line that cannot be parsed as the type of its field."""

    text: str


@dataclasses.dataclass(frozen=True)
class Leaf:
    """A field that holds a value instead of a group, with its path in the configuration."""

    key: str
    """Dotted path, such as `model.image_size`."""
    type: Any
    """The annotation without `Annotated`."""
    bounds: Bounds | None
    former_key: str | None = None
    """Former dotted path, if the field was renamed."""
    positional: str | None = None
    """Name on the command line, such as DIR, if the field is positional."""
    alone: str | None = None
    """Value if none follows the option on a command line; None if one must follow."""
    required: Required | None = None
    """Given if a command line must have the field."""
    pattern: Pattern | None = None
    """Form of a text."""

    @property
    def flag(self) -> str:
        """Option on the command line, such as `--model.image-size`; DIR if it is positional."""
        return self.positional or _flag(self.key)

    @property
    def former_flag(self) -> str | None:
        """Former option on the command line, or None."""
        return None if self.former_key is None else _flag(self.former_key)


@dataclasses.dataclass(frozen=True)
class Reading(Generic[T]):
    """Result of `read`: the value, and all problems."""

    value: T
    """Instance built from the valid fields. An invalid field has its default, or an empty value of
    its type, so that other fields can still be checked."""
    problems: tuple[str, ...]
    unsound: frozenset[str]
    """Dotted keys of the fields that were invalid."""

    def is_sound(self, key: str) -> bool:
        """Whether this key, all groups around it and all keys inside it were valid."""
        return not any(
            bad == key or bad.startswith(key + ".") or key.startswith(bad + ".")
            for bad in self.unsound
        )


def leaves(cls: type, prefix: str = "") -> Iterator[Leaf]:
    """Iterate over all leaves of a dataclass, in the order of declaration."""
    for field, hint in _hints(cls):
        key = prefix + field.name
        if dataclasses.is_dataclass(hint):
            yield from leaves(typing.cast("type", hint), key + ".")
            continue
        bare, former, alone = _bare(hint), _note(hint, Formerly), _note(hint, Alone)
        positional = _note(hint, Positional)
        if bare is bool:
            alone = Alone("True")
        yield Leaf(
            key,
            bare,
            _note(hint, Bounds),
            None if former is None else ("" if former.moved else prefix) + former.name,
            None if positional is None else positional.name,
            None if alone is None else alone.value,
            _note(hint, Required),
            _note(hint, Pattern),
        )


def get(instance: object, key: str) -> Any:
    """Return the value at a dotted key."""
    for part in key.split("."):
        instance = getattr(instance, part)
    return instance


def to_flags(instance: object, base: object) -> list[str]:
    """Return the options, with their values, in which an instance differs from another one."""
    words = []
    for leaf in leaves(type(instance)):
        value = get(instance, leaf.key)
        if value != get(base, leaf.key):
            words += [leaf.flag, *map(str, value if isinstance(value, tuple) else (value,))]
    return words


def describe(hint: Any) -> str:
    """Describe the values of a type in words."""
    bare, pattern = _bare(hint), _note(hint, Pattern)
    items = get_args(bare)
    if pattern:
        words = pattern.wants
    elif get_origin(bare) is Literal:
        words = "one of " + ", ".join(map(str, items))
    elif _is_union(bare):
        words = " or ".join("none" if part is type(None) else describe(part) for part in items)
    elif _is_mapping(bare):
        words = f"a group of names, each with {describe(items[1])}"
    elif get_origin(bare) is tuple and items[-1] is Ellipsis:
        words = f"a list, each {describe(items[0])}"
    elif get_origin(bare) is tuple:
        words = "a list of " + " and ".join(map(describe, items))
    else:
        words = _describe_group(bare) if dataclasses.is_dataclass(bare) else KINDS[bare]
    return words


def accepts(hint: Any, value: object) -> bool:
    """Whether a value has a type; an `int` is also a `float`, but a `bool` is not an `int`."""
    bare = _bare(hint)
    origin = get_origin(bare)
    if origin is Literal:
        return any(value == choice and type(value) is type(choice) for choice in get_args(bare))
    if _is_union(bare):
        return any(accepts(part, value) for part in get_args(bare))
    if origin is tuple:
        return isinstance(value, tuple) and all(accepts(get_args(bare)[0], v) for v in value)
    if bare in {int, float}:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        # Excludes infinity and NaN.
        return (
            number
            and abs(typing.cast("float", value)) <= sys.float_info.max
            and (bare is float or isinstance(value, int))
        )
    return isinstance(value, bare)


def problems(instance: object) -> list[str]:
    """Return the problems of all leaves: a wrong type, a number out of bounds, or a text of another
    form.
    """
    return [
        problem
        for leaf in leaves(type(instance))
        for problem in problems_of(leaf, get(instance, leaf.key))
    ]


def problems_of(leaf: Leaf, value: object) -> list[str]:
    """Return the problems of the value of one leaf, as `problems` does."""
    if isinstance(value, Unparsed) or not accepts(leaf.type, value):
        shown = value.text if isinstance(value, Unparsed) else value
        choices = [text for text in get_args(leaf.type) if isinstance(text, str)]
        close = difflib.get_close_matches(str(shown), choices, n=1)
        meant = f"; did you mean {close[0]}?" if close else ""
        return [f"{leaf.flag}: {shown!r} is not {describe(leaf.type)}{meant}"]
    rule: Bounds | Pattern | None = leaf.bounds or leaf.pattern
    return [
        f"{leaf.flag}: {item!r} {wrong}"
        for item in (value if isinstance(value, tuple) else (value,))
        if rule and item is not None and (wrong := rule.problem(item))
    ]


def unknown_key(
    key: str, known: list[str], former: Mapping[str, str], *, list_known: bool = False
) -> str:
    """Return the problem of an unknown key, with the key that was probably meant.

    Args:
        key: Unknown key.
        known: Existing keys.
        former: Existing keys by their former names.
        list_known: Whether to list the existing keys if none is similar.
    """
    if key in former:
        return f"{key}: is now called {former[key]}"
    inner = [other for other in known if other.startswith(f"{key}.")]
    if inner:
        return f"{key}: is a group; known in it: {', '.join(inner)}"
    # Compare only the last part: a common prefix makes all keys of a group look similar.
    names = {other.rpartition(".")[2]: other for other in reversed(known)}
    asked = key.rpartition(".")[2]
    close = difflib.get_close_matches(asked, names, n=1)
    short = asked.lstrip("-")
    initials = [name for name in names if "-" in name and _initials(name) == short]
    if len(initials) == 1:
        close = initials
    problem = f"{key}: unknown {'option' if key.startswith('--') else 'key'}"
    if close:
        return f"{problem}; did you mean {names[close[0]]}?"
    return f"{problem}; known here: {', '.join(known)}" if list_known else problem


def _initials(name: str) -> str:
    """Return the first letters of the words of an option, such as lr of learning-rate."""
    return "".join(word[0] for word in name.split("-") if word)


def to_dict(instance: object) -> dict[str, Any]:
    """Convert a dataclass to nested plain data for `read` or JSON."""
    return {
        field.name: _plain(getattr(instance, field.name))
        for field in dataclasses.fields(instance)  # type: ignore[arg-type]
    }


def read(cls: type[T], data: Mapping[str, object]) -> Reading[T]:
    """Read a dataclass from nested plain data; missing keys get their defaults.

    Invalid data raises no exception: every unknown or missing key, wrong type and value outside its
    bounds or pattern is listed in the result's `problems`.
    """
    reader = _Reader()
    value = reader.group(cls, data, "")
    return Reading(value, tuple(reader.problems), frozenset(reader.unsound))


def from_dict(cls: type[T], data: Mapping[str, object]) -> T:
    """Read a dataclass from nested plain data that must be valid.

    Raises:
        ConfigError: The data is invalid, or the dataclass raised this; lists all problems.
    """
    reader = _Reader()
    try:
        value = reader.group(cls, data, "")
    except ConfigError as error:
        # A default in place of an invalid value may contradict other values.
        raise ConfigError(reader.problems or error.problems) from None
    if reader.problems:
        raise ConfigError(reader.problems)
    return value


def gone(cls: type) -> list[tuple[str, str]]:
    """Return the keys of options and groups that earlier versions of a dataclass had, each with a
    clause that names the last version and what to use: those of `GONE` in the class.
    """
    return list(getattr(cls, "GONE", {}).items())


def with_current_keys(cls: type, data: Mapping[str, Any]) -> dict[str, Any]:
    """Replace former keys by current ones in nested plain data, and leave out those that are gone:
    for files of earlier versions, which users need not edit.
    """
    current = copy.deepcopy(dict(data))
    for key, _ in gone(cls):
        group, name = _inner(current, key)
        if isinstance(group, dict):
            group.pop(name, None)
    for leaf in leaves(cls):
        if leaf.former_key is not None:
            before, former = _inner(current, leaf.former_key)
            group, name = _inner(current, leaf.key)
            if isinstance(before, dict) and isinstance(group, dict) and former in before:
                group.setdefault(name, before.pop(former))
    return current


def _inner(data: Any, key: str) -> tuple[Any, str]:
    """Return the group of a dotted key inside nested plain data, and the key's last part. A group
    that is missing is added.
    """
    *groups, name = key.split(".")
    for group in groups:
        data = data.setdefault(group, {}) if isinstance(data, dict) else None
    return data, name


class _Reader:
    def __init__(self) -> None:
        self.problems: list[str] = []
        self.unsound: set[str] = set()

    def group(
        self, cls: type[T], data: Mapping[str, object], prefix: str, base: object = None
    ) -> T:
        hints = _hints(cls)
        known = [prefix + field.name for field, _ in hints]
        former = {
            prefix + note.name: prefix + field.name
            for field, hint in hints
            if (note := _note(hint, Formerly)) and not note.moved
        }
        self.problems += [
            unknown_key(f"{prefix}{name}", known, former, list_known=True)
            for name in data
            if f"{prefix}{name}" not in known
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
            problems_before = len(self.problems)
            value = self._value(hint, data[name], key, default)
            inner = value.values() if isinstance(value, Mapping) else (value,)
            groups = inner and all(map(dataclasses.is_dataclass, inner))
            if len(self.problems) == problems_before or groups:
                return value
            self.unsound.add(key)
        elif default is dataclasses.MISSING:
            self.problems.append(f"{key}: is missing; give {describe(hint)}")
            self.unsound.add(key)
        return _empty(hint) if default is dataclasses.MISSING else default

    def _value(self, hint: Any, value: object, key: str, default: object = None) -> object:
        bare = _bare(hint)
        if _is_union(bare):
            inner = next(part for part in get_args(bare) if part is not type(None))
            return None if value is None else self._value(inner, value, key, default)
        if isinstance(value, Mapping):
            if dataclasses.is_dataclass(bare):
                return self.group(typing.cast("type", bare), value, key + ".", default)
            if _is_mapping(bare):
                item = get_args(bare)[1]
                named = dataclasses.is_dataclass(item) and isinstance(default, Mapping)
                read = dict(typing.cast("Mapping[str, object]", default)) if named else {}
                for name, inner in value.items():
                    # The text is all that `pulumi config set --path` can write.
                    if inner in (None, "null") and name in read:
                        del read[name]
                    else:
                        read[str(name)] = self._value(item, inner, f"{key}.{name}", read.get(name))
                return read
        if get_origin(bare) is tuple and isinstance(value, list | tuple):
            items = get_args(bare)
            if items[-1] is Ellipsis:
                items = items[:1] * len(value)
            if len(items) == len(value):
                pairs = enumerate(zip(items, value, strict=True))
                return tuple(self._value(item, v, f"{key}[{i}]") for i, (item, v) in pairs)
        return self._leaf(bare, _note(hint, Bounds) or _note(hint, Pattern), value, key)

    def _leaf(self, bare: Any, rule: Bounds | Pattern | None, value: Any, key: str) -> object:
        if bare is int and isinstance(value, float) and value.is_integer():
            # Pulumi passes whole numbers as 4.0.
            value = int(value)
        nested = dataclasses.is_dataclass(bare) or _is_mapping(bare) or get_origin(bare) is tuple
        if nested or not accepts(bare, value):
            shown = f"{value!r:.60}" if nested else repr(value)
            self.problems.append(f"{key}: {shown} is not {describe(bare)}{_cure(bare, value)}")
            return value
        if bare is float:
            value = float(value)
        if rule and (wrong := rule.problem(value)):
            self.problems.append(f"{key}: {value!r} {wrong}")
        return value


def _cure(bare: Any, value: object) -> str:
    """Return the cure of a value of another type than a file's author meant, or nothing."""
    if value in (None, ""):
        return "; remove the key, or give it a value"
    return "; write it in quotes" if bare is str and isinstance(value, int | float) else ""


def _describe_group(bare: Any) -> str:
    needed = [field.name for field, _ in _hints(bare) if _default(field) is dataclasses.MISSING]
    return "a group of keys" + (f" with {', '.join(needed)}" if needed else "")


def _hints(cls: type) -> list[tuple["dataclasses.Field[Any]", Any]]:
    hints = typing.get_type_hints(cls, include_extras=True)
    return [(field, hints[field.name]) for field in dataclasses.fields(cls)]


def _default(field: "dataclasses.Field[Any]", base: object = None) -> object:
    """Return the value of a missing key, from the group's default if it has one."""
    if dataclasses.is_dataclass(base):
        return getattr(base, field.name)
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _empty(hint: Any) -> object:
    bare = _bare(hint)
    if _is_union(bare):
        return None
    if dataclasses.is_dataclass(bare):
        nested = typing.cast("type", bare)
        return nested(**{field.name: _empty(inner) for field, inner in _hints(nested)})
    if get_origin(bare) is Literal:
        return get_args(bare)[0]
    if _is_mapping(bare):
        return {}
    return () if get_origin(bare) is tuple else bare()


def _plain(value: object) -> Any:
    if dataclasses.is_dataclass(value):
        return to_dict(value)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _bare(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def _note(hint: Any, kind: type[T]) -> T | None:
    """Return what `Annotated` adds of a kind, or None."""
    notes = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    return next((note for note in notes if isinstance(note, kind)), None)


def _flag(key: str) -> str:
    # A field whose name would be a keyword of Python ends with an underscore.
    return "--" + key.rstrip("_").replace("_", "-")


def _is_union(bare: Any) -> bool:
    return get_origin(bare) in (Union, types.UnionType)


def _is_mapping(bare: Any) -> bool:
    return get_origin(bare) is Mapping
