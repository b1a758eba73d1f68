"""What the rules know of a leaf: rules of its own, and rows for the tables of the others.

Written down a second time on purpose, apart from what the leaf declares: a change of that is a
violation until these facts are changed too.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from ipaddress import IPv4Network
from typing import Any, TypeVar

from infra.leaf import load
from infra.leaves import LEAVES
from infra.rules.expected import Table
from infra.rules.rule import Rule
from infra.settings import Settings

K = TypeVar("K")
P = TypeVar("P")
V = TypeVar("V")

Grants = Mapping[tuple[str, str], str | None]
"""Conditions of role assignments by target and role; None for an assignment without a condition.

A target is a service, such as `data`, or a container in it, such as `data/raw`; a role is the name
that `literals.ROLES` has for it.
"""

Allowed = list[tuple[str | IPv4Network, frozenset[str]]]
"""Addresses or service tags with the ports of the traffic that is allowed."""


@dataclass(frozen=True)
class Logging:
    """A service that writes resource logs."""

    provider: str
    """Its type in Azure."""
    name: str
    """Input with its name."""
    part: str
    """Path of the part that writes the logs; empty for the service itself."""
    wanted: frozenset[str]
    """Log categories that must be collected."""


@dataclass(frozen=True)
class Traffic:
    """What may enter and leave a subnet, besides what nodes may."""

    inbound: Callable[[Settings], Allowed] = lambda _: []
    internet: frozenset[str] = frozenset()
    """Ports on which it may reach the internet."""
    faults: Callable[[Mapping[str, Any], Settings], Iterator[str]] | None = None
    """Yields what is wrong with one of its rules, in place of all other checks."""


@dataclass(frozen=True)
class Facts:
    """What the rules know of a leaf. Everything is optional."""

    rules: tuple[Rule, ...] = ()
    """Its own rules."""
    tables: Mapping[str, Table] = field(default_factory=dict)
    """Rows that are added to the tables of other rules, or replace some, by the rule's name."""
    reviewed: Mapping[str, str] = field(default_factory=dict)
    """Inputs by kind of resource that open nothing by themselves, as in `reviewed`."""
    counts: Callable[[Settings], Mapping[str, int]] = lambda _: {}
    """Returns how many resources of each kind the settings ask for."""
    abroad: frozenset[str] = frozenset()
    """Kinds whose resources are in other regions, where a table says."""
    tagged: frozenset[str] = frozenset()
    """Kinds whose resources carry tags."""
    logs: Mapping[str, Logging] = field(default_factory=dict)
    """Services that write logs, by kind."""
    services: Callable[[Settings], Mapping[str, tuple[str, str]]] = lambda _: {}
    """Returns what roles may be assigned on and endpoints connect to: Azure type and name, by
    label."""
    references: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    """Inputs that refer to services, by kind and path, with the labels that they may mean."""
    endpoints: Mapping[str, tuple[str, str, tuple[str, ...]]] = field(default_factory=dict)
    """Services with private endpoints: by label, the kind, the input with the name, and the
    sub-resources."""
    zones: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Zones in which the names of its endpoints are recorded, by sub-resource."""
    people: Mapping[str, Callable[[Settings], str | None]] = field(default_factory=dict)
    """Groups of people, by what they may do."""
    grants: Mapping[str, Grants] = field(default_factory=dict)
    """Roles that its identities and groups of people may have."""
    roles: Callable[[Settings], Mapping[str, str]] = lambda _: {}
    """Returns names of the roles that the stack defines, by GUID."""
    subnets: Mapping[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    """Path of the subnet's id, and the subnet's role, by kind and name of a resource."""
    addresses: Mapping[str, str] = field(default_factory=dict)
    """Paths of the ids of public addresses that a kind of resource may have."""
    traffic: Mapping[str, Traffic] = field(default_factory=dict)
    """Traffic of its subnets, by role."""


@cache
def of_leaves() -> tuple[Facts, ...]:
    """Return the facts of all leaves."""
    return tuple(load(leaf.facts) for leaf in LEAVES if leaf.facts is not None)


def added(read: Callable[[Facts], Mapping[K, V]]) -> dict[K, V]:
    """Return the rows that the leaves have in one of their mappings."""
    return {key: value for facts in of_leaves() for key, value in read(facts).items()}


def extended(
    own: Mapping[K, Mapping[P, V]], read: Callable[[Facts], Mapping[K, Mapping[P, V]]]
) -> Mapping[K, Mapping[P, V]]:
    """Return a table of the trunk with the rows that the leaves add, or put in the place of its."""
    merged = {key: dict(rows) for key, rows in own.items()}
    for facts in of_leaves():
        for key, rows in read(facts).items():
            merged.setdefault(key, {}).update(rows)
    return merged
