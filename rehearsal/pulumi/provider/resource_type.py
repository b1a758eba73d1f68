"""Description of a resource type: its id, its body, and what Azure demands beyond the SDK."""

import re
import string
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from rehearsal.pulumi.provider import schema

GROUP: Final = "resourceGroupName"
ENVELOPE: Final = frozenset(
    {"location", "tags", "identity", "kind", "sku", "zones", "extendedLocation", "plan"}
    | {"placement", "managedBy", "eTag"}
)
"""Inputs that are usually next to `properties` in a body, not inside."""
_SCOPES: Final = frozenset({"scope", "resourceUri"})


@dataclass(frozen=True)
class ResourceType:
    """One azure-native type, as Azure Resource Manager knows it.

    Input names are azure-native's. Dotted paths lead into objects, and through every element of
    lists.
    """

    token: str
    """Module and kind, such as `storage:StorageAccount`."""
    path: str
    """Path below the scope, with the inputs that name each level in braces."""
    required: frozenset[str] = frozenset()
    """Dotted paths that Azure requires, although the SDK does not."""
    envelope: frozenset[str] = ENVELOPE
    """Inputs next to `properties` in the body; all others are inside."""
    flat_outputs: bool = False
    """Whether its outputs are flat although `properties` is an input."""
    wrapped: frozenset[str] = frozenset()
    """Dotted paths of objects, or lists of them, that have their own `properties` in the body,
    below their names and ids."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """New last parts of dotted paths that Resource Manager names differently."""
    values: Mapping[str, frozenset[Any]] = field(default_factory=dict)
    """Values at a dotted path that Azure allows, where the SDK has no enumeration or another; empty
    for every value."""
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

    version: str = ""
    """Version of Azure's API in the program's token; empty for the one of the SDK."""

    @cached_property
    def arguments(self) -> type:
        """Its argument class in the SDK."""
        return schema.arguments(*self.token.split(":"))

    @cached_property
    def api_version(self) -> str:
        """Version of Azure's API that azure-native uses for it."""
        return self.version or schema.api_version(*self.token.split(":"))

    @cached_property
    def known(self) -> frozenset[str]:
        """All its inputs."""
        return frozenset(schema.properties(self.arguments))

    @cached_property
    def names(self) -> list[str]:
        """The inputs in its path; the last is its own name."""
        return [name for _, name, _, _ in string.Formatter().parse(self.path) if name]

    @cached_property
    def scope(self) -> str:
        """Input that names the scope: a resource group's name, or any resource's id. Empty for a
        resource group.
        """
        if GROUP in self.names:
            return ""
        return next(iter(_SCOPES & self.known), GROUP)

    @cached_property
    def inputs(self) -> frozenset[str]:
        """Inputs that are not part of the id."""
        return self.known - {*self.names, self.scope}

    @property
    def outer(self) -> frozenset[str]:
        """Its inputs next to `properties` in the body."""
        return self.inputs & self.envelope

    @property
    def whole(self) -> bool:
        """Whether azure-native has `properties` as an input."""
        return "properties" in self.known

    @property
    def identifying(self) -> frozenset[str]:
        """Inputs that decide its id or location, so that a change requires a new resource."""
        return frozenset(self.names) | ({self.scope, "location"} & self.known)

    def demanded(self) -> Iterator[str]:
        """Yield the dotted paths that must be there, whatever the SDK says: azure-native would
        choose a random name, and the location of the group.
        """
        yield from sorted(self.identifying | self.required)


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
