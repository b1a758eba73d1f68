"""What every component shares: where its resources live, and how they are registered."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi

from infra.naming import Names


@dataclass(frozen=True)
class StackContext:
    """What all resources of one stack share: where they are, and what they are called."""

    names: Names
    group: pulumi.Input[str]
    """Name of the resource group; as an output of it, so that all that lives in it waits."""
    region: str
    subscription: str
    tenant: str
    tags: Mapping[str, str]
    protected: bool
    """Whether what holds data or cannot be made again refuses to be deleted or replaced."""


class Component(pulumi.ComponentResource):
    """A group of resources with one owner."""

    def __init__(self, name: str, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"platform:index:{type(self).__name__}", name, None, opts)

    def child_options(
        self,
        *,
        depends_on: Sequence[pulumi.Resource] = (),
        protect: bool = False,
        extra: pulumi.ResourceOptions | None = None,
    ) -> pulumi.ResourceOptions:
        """Options of a resource of this component.

        Args:
            depends_on: resources that must exist before it, beyond those that its inputs refer to.
            protect: refuse to delete or replace it.
            extra: further options.
        """
        options = pulumi.ResourceOptions(
            parent=self, depends_on=list(depends_on) or None, protect=protect or None
        )
        return pulumi.ResourceOptions.merge(options, extra) if extra else options
