"""What inputs must be: the rows of the rules' tables, by kind of resource and path.

A path is dotted; `[]` stands for every item of a list. An input that no stack sets needs no row:
`only-reviewed` refuses it.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from infra.catalog import resource_ids
from infra.resources import Resource
from infra.settings import Settings


@dataclass(frozen=True)
class Expected:
    """What one input must be."""

    text: Callable[[Settings], str]
    """Function that completes "must be ..."."""
    holds: Callable[[Any, Settings], bool]
    required: bool = True
    """Whether a missing input is a fault too, because Azure's default differs."""
    when: Callable[[Settings], bool] = lambda _: True
    """Whether the stack's settings ask for it; if not, the input must be left out."""


Row = Expected | Callable[[Resource, Settings], Expected | None]
"""The required value of an input, or a function that returns it for one resource; None for any
value."""
Table = Mapping[str, Mapping[str, Row]]
"""What inputs must be, by kind of resource and path."""


def exactly(value: object) -> Expected:
    """Expect one value; texts are compared as Azure does, without case."""
    return Expected(lambda _: shown(value), lambda given, _: same(given, value))


OFF, ON = exactly(value=False), exactly(value=True)
ANYTHING = Expected(lambda _: "set", lambda given, _: bool(given) or isinstance(given, int | float))


def one_of(*values: object) -> Expected:
    """Expect one of some values."""
    return Expected(
        lambda _: " or ".join(map(shown, values)),
        lambda given, _: any(same(given, value) for value in values),
    )


def as_set(read: Callable[[Settings], object]) -> Expected:
    """Expect the value that follows from the stack's settings."""
    return Expected(
        lambda settings: shown(read(settings)),
        lambda given, settings: same(given, read(settings)),
    )


def among(read: Callable[[Settings], Collection[str]], what: str) -> Expected:
    """Expect one of the texts that the stack's settings list.

    Args:
        read: Function that returns the texts.
        what: Words for the texts, such as "an address of allowed_addresses".
    """
    return Expected(
        lambda _: what,
        lambda given, settings: any(same(given, text) for text in read(settings)),
    )


def by_name(*reads: Callable[[Settings], str]) -> Expected:
    """Expect the id of a resource by its name; of several, any."""
    return Expected(
        lambda s: "the id of " + " or ".join(read(s) for read in reads),
        lambda given, s: any(same(resource_ids.name(str(given)), read(s)) for read in reads),
    )


def optional(expected: Expected) -> Expected:
    """Expect it of an input that is set; Azure's default is as good."""
    return replace(expected, required=False)


def only_if(when: Callable[[Settings], bool], expected: Expected) -> Expected:
    """Expect it where the settings ask for it, and nothing elsewhere."""
    return replace(expected, when=when)


def violated(resource: Resource, rows: Mapping[str, Row], settings: Settings) -> Iterator[str]:
    """Yield a fault for each input of a resource that is not as its row expects."""
    for path, row in rows.items():
        expected = row if isinstance(row, Expected) else row(resource, settings)
        if expected is None:
            continue
        for exact, value in values_at(resource.inputs, path.split(".")):
            if not expected.when(settings):
                if value:
                    yield f"{exact} is {shown(value)} and must be left out"
            elif value is None:
                if expected.required:
                    yield f"{exact} is not set and must be {expected.text(settings)}"
            elif not expected.holds(value, settings):
                yield f"{exact} is {shown(value)} and must be {expected.text(settings)}"


def values_at(tree: Any, keys: Sequence[str], at: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each value at a path, with its exact path; None where a part of the path is missing,
    and nothing for the items of a missing list.
    """
    if tree is None and any(key.endswith("[]") for key in keys):
        return
    if tree is None or not keys:
        yield ".".join([at, *keys]).removeprefix("."), tree
        return
    key, *deeper = keys
    name = key.removesuffix("[]")
    value = tree.get(name) if isinstance(tree, Mapping) else None
    if name == key:
        yield from values_at(value, deeper, f"{at}.{name}")
    else:
        for index, item in enumerate(value or ()):
            yield from values_at(item, deeper, f"{at}.{name}[{index}]")


def shown(setting: object) -> str:
    """Return a value as a stack's configuration would spell it."""
    return str(setting).lower() if isinstance(setting, bool) else repr(setting)


def same(setting: object, expected: object) -> bool:
    """Compare two values of inputs: texts without case, and true never equals 1."""
    if isinstance(setting, str) and isinstance(expected, str):
        return setting.lower() == expected.lower()
    if isinstance(expected, list | Mapping):
        return canonical(setting) == canonical(expected)
    return setting == expected and isinstance(setting, bool) == isinstance(expected, bool)


def canonical(tree: Any) -> str:
    """Return a text that is equal for trees that differ in the order of keys and items only."""
    if isinstance(tree, Mapping):
        return "{" + ",".join(f"{key}:{canonical(tree[key])}" for key in sorted(tree)) + "}"
    if isinstance(tree, Sequence) and not isinstance(tree, str):
        return "[" + ",".join(sorted(map(canonical, tree))) + "]"
    # The engine passes every number as one with a point.
    whole = isinstance(tree, float) and tree.is_integer()
    return repr(int(tree) if whole else tree).lower()
