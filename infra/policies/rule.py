"""Rules and violations. Pure; standard library only."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from infra.resources import Resource, input_at

PRIVATE: Literal["private"] = "private"
ALLOWLISTED: Literal["allowlisted"] = "allowlisted"


@dataclass(frozen=True)
class Posture:
    """What the rules need to know about a stack that its resources do not say."""

    profile: Literal["private", "allowlisted"]
    """`private`: no service can be reached from outside. `allowlisted`: the workspace has a public
    endpoint, and the storage accounts are open to the listed addresses."""
    production: bool
    """Whether data, vault, registry and workspace must be protected from mistakes."""
    tags: frozenset[str]
    """Keys that every resource with tags must carry."""
    publishers: frozenset[str] = frozenset()
    """Object ids of the groups that may write training data."""
    preparation: str = ""
    """Azure name of the identity that prepares training data, and so may write them."""
    addresses: frozenset[str] = frozenset()
    """Addresses and CIDR ranges that the `allowlisted` profile lets in."""


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
    faults: Callable[[Resource, Posture], Iterator[str]]
    """Function that yields what is wrong with a resource; nothing if the rule does not apply to
    it."""

    def check(self, resources: Sequence[Resource], posture: Posture) -> Iterator[Violation]:
        for resource in resources:
            for fault in self.faults(resource, posture):
                yield violation(self, resource, fault)


@dataclass(frozen=True)
class StackRule:
    """A rule about several resources, checked when all of them are known."""

    name: str
    description: str
    remedy: str
    faults: Callable[[Sequence[Resource], Posture], Iterator[tuple[Resource | None, str]]]

    def check(self, resources: Sequence[Resource], posture: Posture) -> Iterator[Violation]:
        for resource, fault in self.faults(resources, posture):
            yield violation(self, resource, fault)


Rule = ResourceRule | StackRule


def violation(rule: Rule, resource: Resource | None, fault: str) -> Violation:
    subject = f"{resource.name} ({resource.kind})" if resource else "the stack"
    return Violation(rule.name, resource, f"{subject}: {fault}. {rule.remedy}")


def wants(resource: Resource, path: str, expected: object) -> Iterator[str]:
    """Yield a fault unless the input is exactly this value; a missing input is a fault too."""
    setting = input_at(resource, path)
    if setting is None:
        yield f"{path} is not set and must be {shown(expected)}"
    elif not _same(setting, expected):
        yield f"{path} is {shown(setting)} and must be {shown(expected)}"


def shown(setting: object) -> str:
    """Return a value as a stack's configuration would spell it."""
    return str(setting).lower() if isinstance(setting, bool) else repr(setting)


def named(identifier: str, provider: str, name: str) -> bool:
    """Check whether an Azure id refers to this resource or to something inside it.

    Args:
        identifier: an id, such as a role assignment's scope.
        provider: the resource's type, such as `Microsoft.Storage/storageAccounts`.
        name: the resource's name. Azure ignores case in all of it.
    """
    return f"/providers/{provider}/{name}/".lower() in f"{identifier}/".lower()


def _same(setting: object, expected: object) -> bool:
    if isinstance(setting, str) and isinstance(expected, str):
        return setting.lower() == expected.lower()
    return setting == expected and isinstance(setting, bool) == isinstance(expected, bool)
