"""Description of a resource type: its id, its inputs, and what cannot change."""

import re
import string
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

GROUP: Final = "resourceGroupName"


def words(text: str) -> frozenset[str]:
    """Return the words of a text, for long sets of names."""
    return frozenset(text.split())


@dataclass(frozen=True)
class ResourceType:
    """One azure-native type, as Azure Resource Manager knows it.

    Input names are azure-native's. Dotted paths lead into objects, and through every element of
    lists.
    """

    path: str
    """Path below the scope, with the inputs that name each level in braces."""
    api_version: str
    inputs: frozenset[str]
    """Inputs that are not part of the path."""
    scope: str = GROUP
    """Input that names the scope: a resource group's name, or any resource's id."""
    required: frozenset[str] = frozenset()
    """Dotted paths of required inputs."""
    outer: frozenset[str] = frozenset({"location", "tags"})
    """Inputs beside `properties` in the body; all others are inside."""
    whole: bool = False
    """Whether azure-native has `properties` as an input."""
    flat_outputs: bool = False
    """Whether its outputs are flat although `properties` is an input."""
    wrapped: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Objects, or lists of them, that have their own `properties` in the body, with the keys that
    stay outside."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """New last parts of dotted paths that Resource Manager names differently."""
    values: Mapping[str, frozenset[str] | frozenset[int]] = field(default_factory=dict)
    """Allowed values at a dotted path."""
    ranges: Mapping[str, str] = field(default_factory=dict)
    """Dotted paths of address ranges, each with the path of the ranges that they must lie in
    without overlapping each other; empty if they may lie anywhere."""
    internet: frozenset[str] = frozenset()
    """Dotted paths of public addresses, or public ranges of at least four."""
    fixed: frozenset[str] = frozenset()
    """Dotted paths whose change requires a new resource, besides id and location."""
    name_form: str = r".+"
    """Regular expression for its own name."""
    computed: frozenset[str] = frozenset()
    """Dotted paths of values that Azure adds to given objects."""
    comes_with_parent: bool = False
    """Whether it exists as soon as its parent does, and cannot be deleted alone."""

    @property
    def names(self) -> list[str]:
        """The inputs in its path; the last is its own name."""
        return [name for _, name, _, _ in string.Formatter().parse(self.path) if name]

    @property
    def known(self) -> frozenset[str]:
        """All its inputs."""
        return self.inputs | frozenset(self.names) | {self.scope}

    @property
    def identifying(self) -> frozenset[str]:
        """Inputs that decide its id or location, so that a change requires a new resource."""
        return frozenset(self.names) | ({self.scope, "location"} & self.known)


def identifier(type_: ResourceType, inputs: Mapping[str, Any], subscription: str) -> str:
    """Return the id of a resource.

    Args:
        type_: Type of the resource.
        inputs: All inputs that identify it.
        subscription: Id of its subscription, used unless its scope is an id.
    """
    if not type_.scope:
        return f"/subscriptions/{subscription}/{type_.path.format_map(inputs)}"
    above = str(inputs[type_.scope])
    if type_.scope == GROUP:
        above = f"/subscriptions/{subscription}/resourceGroups/{above}"
    return f"{above}/providers/{type_.path.format_map(inputs)}"


def own_name(type_: ResourceType, inputs: Mapping[str, Any]) -> str:
    """Return the last part of the id."""
    return str(inputs[type_.names[-1]])


def is_name(type_: ResourceType, name: str) -> bool:
    """Check whether Azure would accept a name."""
    return re.fullmatch(type_.name_form, name) is not None
