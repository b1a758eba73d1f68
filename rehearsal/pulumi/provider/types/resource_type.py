"""What is known of a type of resource: where it lies, what it takes and what cannot change."""

import re
import string
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

GROUP: Final = "resourceGroupName"


@dataclass(frozen=True)
class ResourceType:
    """One of azure-native's types, as Azure Resource Manager knows it.

    Names of inputs are azure-native's. Dotted paths lead into objects, and through lists without
    saying which element.
    """

    path: str
    """Below the scope, with the inputs that name each level in braces."""
    api_version: str
    inputs: frozenset[str]
    """Those that no path names."""
    scope: str = GROUP
    """Input that says what it lies in; the group's name, or any resource's id."""
    required: frozenset[str] = frozenset()
    """Dotted paths."""
    outer: frozenset[str] = frozenset({"location", "tags"})
    """Inputs beside `properties` in the body; all others are inside."""
    whole: bool = False
    """Whether azure-native has `properties` as an input of its own."""
    flat_outputs: bool = False
    """Whether its outputs lie beside each other although `properties` is an input."""
    wrapped: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Objects, or lists of them, with `properties` of their own in the body: what stays outside."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Dotted paths that Resource Manager calls otherwise, and their last part there."""
    values: Mapping[str, frozenset[str] | frozenset[int]] = field(default_factory=dict)
    """What may be given at a dotted path."""
    ranges: Mapping[str, str] = field(default_factory=dict)
    """Dotted paths of ranges of addresses, and of those that they must lie in without meeting each
    other; empty where they may lie anywhere."""
    internet: frozenset[str] = frozenset()
    """Dotted paths of what must be an address of the internet, or a range of at least four."""
    fixed: frozenset[str] = frozenset()
    """Dotted paths whose change makes another resource, beside what identifies and places it."""
    name_form: str = r".+"
    """Regular expression of its own name."""
    computed: frozenset[str] = frozenset()
    """Dotted paths of what Azure adds to objects that are given."""
    comes_with_parent: bool = False
    """Whether it is there as soon as what holds it is, and cannot be deleted alone."""

    @property
    def names(self) -> list[str]:
        """The inputs in its path; its own name is the last."""
        return [name for _, name, _, _ in string.Formatter().parse(self.path) if name]

    @property
    def known(self) -> frozenset[str]:
        """All its inputs."""
        return self.inputs | frozenset(self.names) | {self.scope}

    @property
    def identifying(self) -> frozenset[str]:
        """The inputs that decide its id or its place, so that another value is another resource."""
        return frozenset(self.names) | ({self.scope, "location"} & self.known)


def identifier(type_: ResourceType, inputs: Mapping[str, Any], subscription: str) -> str:
    """The id of a resource.

    Args:
        type_: its type.
        inputs: all that identify it.
        subscription: that it is in, unless its scope is an id.
    """
    if not type_.scope:
        return f"/subscriptions/{subscription}/{type_.path.format_map(inputs)}"
    above = str(inputs[type_.scope])
    if type_.scope == GROUP:
        above = f"/subscriptions/{subscription}/resourceGroups/{above}"
    return f"{above}/providers/{type_.path.format_map(inputs)}"


def own_name(type_: ResourceType, inputs: Mapping[str, Any]) -> str:
    """The last part of the id."""
    return str(inputs[type_.names[-1]])


def is_name(type_: ResourceType, name: str) -> bool:
    """Whether Azure would take it as a name."""
    return re.fullmatch(type_.name_form, name) is not None
