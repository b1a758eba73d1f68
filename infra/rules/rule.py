"""Rules and violations. Pure: they read declared resources and the settings of their stack."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from infra.resources import Resource
from infra.rules.expected import Table, violated
from infra.settings import Settings

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
