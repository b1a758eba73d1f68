"""Facts for the rules about a leaf: rules of its own, and rows for the tables of the others.

Written down a second time on purpose, apart from the leaf's declarations: a change of that is a
violation until these facts are changed too.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from ipaddress import IPv4Network
from typing import Any, TypeVar

from infra.leaf import load
from infra.leaves import LEAVES
from infra.rules.rule import Rule, Table
from infra.settings import Settings

K = TypeVar("K")
P = TypeVar("P")
V = TypeVar("V")

Grants = Mapping[tuple[str, str], str | None]
"""Conditions of role assignments by target and role; None for an assignment without a condition.

A target is a service, such as `data`, or a container in it, such as `data/raw`; a role is the name
that `access.ROLES` has for it.
"""

Allowed = list[tuple[str | IPv4Network, frozenset[str] | None]]
"""Addresses or service tags with the ports of the traffic that is allowed; None for all ports."""


@dataclass(frozen=True)
class Traffic:
    """What may enter and leave a subnet, besides what nodes may."""

    inbound: Callable[[Settings], Allowed] = lambda _: []
    internet: frozenset[str] = frozenset()
    """Ports on which it may reach the internet."""
    faults: Callable[[Mapping[str, Any], Settings], Iterator[str]] | None = None
    """Yields the faults of one of its rules, in place of all other checks."""


@dataclass(frozen=True)
class Facts:
    """The facts for the rules about a leaf. Everything is optional."""

    rules: tuple[Rule, ...] = ()
    """Its own rules."""
    tables: Mapping[str, Table] = field(default_factory=dict)
    """Rows that are added to the tables of other rules, or replace some, by the rule's name."""
    counts: Callable[[Settings], Mapping[str, int]] = lambda _: {}
    """Returns how many resources of each kind the settings ask for."""
    services: Callable[[Settings], Mapping[str, tuple[str, str]]] = lambda _: {}
    """Returns what roles may be assigned on and endpoints connect to: Azure type and name, by
    label."""
    references: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    """Inputs that refer to services, by kind and path, with the labels that they may mean."""
    people: Callable[[Settings], Mapping[str, str | None]] = lambda _: {}
    """Returns groups of people, by their permissions."""
    grants: Callable[[Settings], Mapping[str, Grants]] = lambda _: {}
    """Returns the roles that its identities and groups of people may have."""
    traffic: Mapping[str, Traffic] = field(default_factory=dict)
    """Traffic of its subnets, by role."""


@cache
def of_leaves() -> tuple[Facts, ...]:
    """Return the facts of all leaves."""
    return tuple(load(leaf.facts) for leaf in LEAVES if leaf.facts is not None)


def extended(*tables: Mapping[K, Mapping[P, V]]) -> Mapping[K, Mapping[P, V]]:
    """Return the rows of all tables; a later one adds rows, or replaces some."""
    merged: dict[K, dict[P, V]] = {}
    for table in tables:
        for key, rows in table.items():
            merged.setdefault(key, {}).update(rows)
    return merged
