"""Rules and violations. Pure: they read declared resources and the settings of their stack."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from infra.resources import Resource
from infra.settings import Settings

Faults = Iterator[tuple[Resource | None, str]]
"""What is wrong with which resource; None for something that the stack lacks."""


@dataclass(frozen=True)
class Violation:
    """One resource that breaks one rule."""

    rule: str
    resource: Resource | None
    """Resource that breaks the rule; None if the stack lacks something."""
    message: str
    """Name of the resource, the fault, and the remedy."""


@dataclass(frozen=True)
class ResourceRule:
    """A rule that can be checked on one resource, and so before it is created."""

    name: str
    description: str
    remedy: str
    faults: Callable[[Resource, Settings], Iterator[str]]
    """Function that yields what is wrong with a resource; nothing if the rule does not apply to
    it."""
    inputs: Mapping[str, Collection[str]] = field(default_factory=dict)
    """Paths of the inputs that the rule decides on, by kind of resource."""

    def check(self, resources: Sequence[Resource], settings: Settings) -> Iterator[Violation]:
        for resource in resources:
            for fault in self.faults(resource, settings):
                yield violation(self, resource, fault)


@dataclass(frozen=True)
class StackRule:
    """A rule about several resources, checked when all of them are known."""

    name: str
    description: str
    remedy: str
    faults: Callable[[Sequence[Resource], Settings], Faults]
    inputs: Mapping[str, Collection[str]] = field(default_factory=dict)
    """Paths of the inputs that the rule decides on, by kind of resource."""

    def check(self, resources: Sequence[Resource], settings: Settings) -> Iterator[Violation]:
        for resource, fault in self.faults(resources, settings):
            yield violation(self, resource, fault)


Rule = ResourceRule | StackRule


def violation(rule: Rule, resource: Resource | None, fault: str) -> Violation:
    subject = f"{resource.name} ({resource.kind})" if resource else "the stack"
    return Violation(rule.name, resource, f"{subject}: {fault}. {rule.remedy}")


def named(identifier: object, provider: str, name: str) -> bool:
    """Check whether an Azure id refers to this resource or to something inside it.

    Args:
        identifier: an id, such as a role assignment's scope.
        provider: the resource's type, such as `Microsoft.Storage/storageAccounts`.
        name: the resource's name. Azure ignores case in all of it.
    """
    return f"/providers/{provider}/{name}/".lower() in f"{identifier}/".lower()
