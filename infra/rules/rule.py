"""Rules: rows of tables with what inputs must be, functions, and violations.

Pure: they read declared resources and the settings of their stack. A path is dotted; `[]` stands
for every item of a list. An input that no stack sets needs no row: `only-reviewed` refuses it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from infra.catalog import resource_ids
from infra.resources import Resource
from infra.settings import Settings


@dataclass(frozen=True)
class Expected:
    """A condition on the value of an input."""

    text: str
    """Text that completes "must be ..."."""
    holds: Callable[[Any], bool]
    required: bool = True
    """Whether a missing input is a fault too, because Azure's default differs."""


@dataclass(frozen=True)
class OfResource:
    """A row that depends on the resource, with the function that returns the requirement."""

    read: Callable[[Resource, Settings], "Required"]


Required = Expected | str | float | Sequence[Any] | Mapping[str, Any] | None
"""A condition or a value that is required of an input; None if it must be left out."""
Row = Required | Callable[[Settings], Required] | OfResource
"""The requirement of an input: of every stack, by its settings, or by the resource as well."""
Table = Mapping[str, Mapping[str, Row]]
"""Rows by kind of resource and path."""

ANYTHING: Final = Expected("set", lambda given: bool(given) or isinstance(given, int | float))
UNCHECKED: Final = Expected("anything", lambda _: True, required=False)


def one_of(*values: object, text: str = "") -> Expected:
    """Expect one of some values; texts are compared as Azure does, without case.

    Args:
        values: The values.
        text: Words for the values, such as "an address of allowed_addresses".
    """
    return Expected(
        text or " or ".join(map(shown, values)),
        lambda given: any(same(given, value) for value in values),
    )


def by_name(name: str) -> Expected:
    """Expect the id of the resource of this name."""
    return Expected(f"the id of {name}", lambda given: same(resource_ids.name(str(given)), name))


def only_id(name: str) -> Expected:
    """Expect the id of the resource of this name alone, in a list or as the key of a mapping: a
    state lists identities as keys.
    """
    return Expected(
        f"{name} alone", lambda given: [resource_ids.name(id_) for id_ in given] == [name]
    )


def optional(row: Required) -> Expected:
    """Expect a value of an input that is set; Azure's default is as good."""
    return replace(_expected(row), required=False)


def _expected(row: Required) -> Expected:
    return row if isinstance(row, Expected) else one_of(row)


def violated(resource: Resource, rows: Mapping[str, Row], settings: Settings) -> Iterator[str]:
    """Yield a fault for each input of a resource that is not as its row expects."""
    for path, row in rows.items():
        if isinstance(row, OfResource):
            required = row.read(resource, settings)
        else:
            required = row(settings) if callable(row) else row
        expected = _expected(required)
        for exact, value in values_at(resource.inputs, path.split(".")):
            if required is None:
                if value:
                    yield f"{exact} is {shown(value)} and must be left out"
            elif value is None:
                if expected.required:
                    yield f"{exact} is not set and must be {expected.text}"
            elif not expected.holds(value):
                yield f"{exact} is {shown(value)} and must be {expected.text}"


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


Faults = Iterator[tuple[Resource | None, str]]
"""A fault and its resource; None for something that the stack lacks."""


@dataclass(frozen=True)
class Violation:
    """One resource that breaks one rule."""

    rule: str
    resource: Resource | None
    """Resource that breaks the rule; None if the stack lacks something."""
    message: str
    """Name of the resource, the fault, and the remedy."""


@dataclass(frozen=True)
class Rule:
    """What must hold of inputs, of single resources, or of a whole stack."""

    name: str
    description: str
    remedy: str
    table: Table = field(default_factory=dict)
    """What inputs must be."""
    of_resource: Callable[[Resource, Settings], Iterator[str]] | None = None
    """Function that yields what else is wrong with a resource."""
    of_stack: Callable[[Sequence[Resource], Settings], Faults] | None = None
    """Function that yields the faults when all resources are known. A rule without it is checked
    on each resource before Azure creates it."""

    def check(self, resources: Sequence[Resource], settings: Settings) -> Iterator[Violation]:
        """Yield every violation in some resources."""
        for resource in resources:
            for fault in violated(resource, self.table.get(resource.kind, {}), settings):
                yield self._violation(resource, fault)
            if self.of_resource is not None:
                for fault in self.of_resource(resource, settings):
                    yield self._violation(resource, fault)
        if self.of_stack is not None:
            for faulty, fault in self.of_stack(resources, settings):
                yield self._violation(faulty, fault)

    def _violation(self, resource: Resource | None, fault: str) -> Violation:
        subject = f"{resource.name} ({resource.kind})" if resource else "the stack"
        return Violation(self.name, resource, f"{subject}: {fault}. {self.remedy}")


def named(identifier: object, provider: str, name: str) -> bool:
    """Check whether an Azure id refers to this resource or to something inside it.

    Args:
        identifier: an id, such as a role assignment's scope.
        provider: the resource's type, such as `Microsoft.Storage/storageAccounts`.
        name: the resource's name. Azure ignores case in all of it.
    """
    return f"/providers/{provider}/{name}/".lower() in f"{identifier}/".lower()
