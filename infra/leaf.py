"""The interface of a leaf: a feature that a stack can do without, in a folder of its own.

`leaves.py` has a row for each leaf. Deleting the folder and the row removes the feature, as no
module of the trunk names it. Standard library only: what declares resources, or checks them, is
named as MODULE:NAME, and imported when a stack declares it.
"""

import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from infra.catalog.dns_zones import Endpoint
from infra.catalog.network_rules import Rule, Surroundings
from infra.catalog.roles import OwnRole
from infra.naming import Name


@dataclass(frozen=True)
class Check:
    """One rule over several settings."""

    reads: tuple[str, ...]
    """Keys that it reads; it is skipped if one of them is invalid by itself."""
    find: Callable[[Any], Iterator[str]]
    """Yields the faults of `Settings`."""


@dataclass(frozen=True)
class Subnet:
    """A subnet of the declared network, besides those of nodes and private endpoints."""

    role: str
    """Short name in the stack, such as `jump`."""
    addresses: int
    """Number of addresses that it has room for."""
    rules: Callable[[Surroundings, Mapping[str, str]], tuple[Rule, ...]]
    """Returns its security rules, by its surroundings and the ranges of all subnets by role."""
    name: str = ""
    """Name that Azure demands; empty for `snet-ROLE`."""
    reaches_endpoints: bool = True
    """Whether the private endpoints let it in."""
    leaves: bool = True
    """Whether it leaves through the NAT gateway or the route table."""
    last: bool = False
    """Whether it comes after all others in the address space, whatever its size."""


@dataclass(frozen=True)
class DataKeys:
    """Keys of the services' data, if not those that Azure manages."""

    encryption: str
    """MODULE:NAME of a function that returns their `Encryption`; called with the stack's
    `Settings`, context, vault and identities."""
    identities: tuple[str, ...]
    """Roles of the identities that use the keys, if the stack declares them."""
    assigned: Mapping[str, str | None]
    """Ids of existing resources that these get roles on, by their settings."""


@dataclass(frozen=True)
class Nodes:
    """Where the nodes of clusters run, if not in subnets of the stack's network."""

    network: str
    """MODULE:NAME of a function that returns their `NodeNetwork`; called with the stack's
    `Settings`."""
    builds: bool
    """Whether they reach package indexes, so that images can be built on them."""


@dataclass(frozen=True)
class Beginning:
    """A month in which something begins, which Azure does not accept once it is past."""

    check: str
    """Name of the check before a deployment."""
    setting: str
    day: str
    """First day of the month, as YYYY-MM-01."""
    resource: str
    """Pulumi's type of the resource; the month no longer matters once it exists."""


@dataclass(frozen=True)
class Needed:
    """Something that must exist in Azure before a deployment."""

    check: str
    """Name of the check before a deployment; several needs are one check."""
    setting: str
    """Setting that names it, or its own name."""
    id: str
    version: str
    """API version."""
    holds: Mapping[str, tuple[object, ...]] = field(default_factory=dict)
    """Accepted values by path; None is a value that is left out."""
    cure: str = ""
    """What to do if it does not exist, or has another value."""
    addresses: int = 0
    """Addresses that a subnet must have room for."""
    linked_to: str | None = None
    """Id of the network that a DNS zone must be linked to."""
    zones: tuple[str, ...] = ()
    """Ids of private DNS zones that the stack links to a network, which may have a link to no other
    zone of such a name."""
    either: Mapping[str, tuple[object, ...]] = field(default_factory=dict)
    """Accepted values by path, or items of a list there; one path suffices."""


@dataclass(frozen=True)
class Leaf:
    """The additions of a feature to the trunk. Everything is optional."""

    groups: Mapping[str, type] = field(default_factory=dict)
    """Frozen dataclasses of its settings, by the key of the configuration that they are below. The
    trunk and several leaves may add fields to one group."""
    checks: tuple[Check, ...] = ()
    """Contradictions in its settings."""
    names: tuple[Name, ...] = ()
    """Names of its resources, which are held to Azure's limits before anything is declared."""
    subnets: Callable[[Any], tuple[Subnet, ...]] = lambda _: ()
    """Returns its subnets in the declared network, by `Settings`."""
    nodes: Mapping[str, Callable[[Any], Nodes]] = field(default_factory=dict)
    """Values of `profile` that it adds, each with a function of `Settings` that returns where nodes
    run; those of the trunk have subnets."""
    encryption: Callable[[Any], DataKeys | None] = lambda _: None
    """Returns the keys of the services' data, by `Settings`; None for those of Azure."""
    own_roles: Callable[[Any], Mapping[str, OwnRole]] = lambda _: {}
    """Returns roles that the stack defines, by the GUID of the one of Azure that each replaces."""
    endpoints: Callable[[Any], Mapping[str, Endpoint]] = lambda _: {}
    """Returns the kinds of private endpoints that it adds, or changes, by `Settings`; the network
    must resolve their zones."""
    needs: Callable[[Any], tuple[Needed | Beginning, ...]] = lambda _: ()
    """Returns what must exist in Azure, and the months that Azure must still accept, by
    `Settings`."""
    declare: str | None = None
    """MODULE:NAME of a function that declares its resources in a `Platform`."""
    facts: str | None = None
    """MODULE:NAME of `Facts`, for the security rules."""
    types: Mapping[str, str] = field(default_factory=dict)
    """Paths in Resource Manager of the types that it alone declares, as in
    `catalog.resource_ids`."""


def load(name: str) -> Any:
    """Return what MODULE:NAME names."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)
