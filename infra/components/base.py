"""What all components share: the context of the stack, and how resources are registered."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pulumi

from infra.catalog.roles import OwnRole
from infra.naming import Names


@dataclass(frozen=True)
class StackContext:
    """Properties that all resources of one stack share: names, location and tags."""

    names: Names
    group: pulumi.Input[str]
    """Name of the resource group, as an output of the group, so that every resource in it waits for
    it."""
    region: str
    subscription: str
    tenant: str
    tags: Mapping[str, str]
    protected: bool
    """Whether resources that hold data or cannot be recreated are protected from deletion and
    replacement."""
    assigns: bool = True
    """Whether the stack assigns roles; if not, the owner of the subscription does."""
    own_roles: Mapping[str, OwnRole] = field(default_factory=dict)
    """Roles that the stack defines, by the GUID of the one of Azure that each replaces."""
    definitions: dict[str, pulumi.Resource] = field(default_factory=dict)
    """Their declared definitions, by GUID."""
    roles: list[Mapping[str, pulumi.Input[Any]]] = field(default_factory=list)
    """Roles that the owner of the subscription assigns; `access.grant` adds them."""


@dataclass(frozen=True)
class Service:
    """One service that the stack uses."""

    id: pulumi.Input[str]
    name: pulumi.Input[str]
    address: pulumi.Input[str]
    """A blob endpoint, a vault's URI or a registry's login server."""
    subscription: str
    group: str
    """Name of the resource group that holds it."""
    own: bool
    """Whether the stack declares it; otherwise it existed before."""
    ready: Sequence[pulumi.Resource] = ()
    """Resources that must exist before it is used: the last one declared in it."""


class Component(pulumi.ComponentResource):
    """A group of resources with one owner."""

    def __init__(self, name: str) -> None:
        super().__init__(f"platform:index:{type(self).__name__}", name)

    def child_options(
        self,
        *,
        depends_on: Sequence[pulumi.Resource] = (),
        protect: bool = False,
        extra: pulumi.ResourceOptions | None = None,
    ) -> pulumi.ResourceOptions:
        """Return the options of a resource of this component.

        Args:
            depends_on: resources that must exist before it, beyond those that its inputs refer to.
            protect: refuse to delete or replace it.
            extra: further options.
        """
        options = pulumi.ResourceOptions(
            parent=self, depends_on=list(depends_on) or None, protect=protect or None
        )
        return pulumi.ResourceOptions.merge(options, extra) if extra else options
