"""What settings contradict each other, or Azure would refuse, though each field is well formed.

Each check names the keys that it reads, and is left out when one of them was wrong by itself: its
problem is known already.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv4Network
from typing import TYPE_CHECKING

from common.fields import Reading
from infra import capacity, naming
from infra import subnets as addresses
from infra.capacity import ROLES, key
from infra.errors import AddressError

if TYPE_CHECKING:
    from infra.settings import Settings

REQUIRED_TAGS = ("owner", "cost-center")
LONGEST_TAG, LONGEST_TAG_VALUE, UNTAGGABLE = 128, 256, set("<>%&\\?/")
"""Azure Resource Manager, "Use tags"; names are shortest for storage accounts."""
MOST_NOTIFICATIONS = 5
"""Of a budget (Azure Cost Management)."""
MOST_STORAGE_RULES = 400
"""Address rules of a storage account (Azure Storage, "Configure firewalls")."""
WIDEST_ALLOWED = 8
"""Prefix length of the largest range that may be let in."""


@dataclass(frozen=True)
class Check:
    """One rule over several fields."""

    reads: tuple[str, ...]
    find: Callable[["Settings"], Iterator[str]]


def contradictions(reading: "Reading[Settings]") -> list[str]:
    """Every problem that the sound fields have with each other."""
    return [
        problem
        for check in CHECKS
        if all(reading.is_sound(key) for key in check.reads)
        for problem in check.find(reading.value)
    ]


def _names(settings: "Settings") -> Iterator[str]:
    yield from naming.problems(
        settings.prefix, settings.stack, settings.location, settings.name_seed
    )


def _network(settings: "Settings") -> Iterator[str]:
    network = settings.network
    if network.existing is not None:
        return
    for i, other in enumerate(network.peer_address_spaces):
        if _range(other) is None:
            yield f"network.peer_address_spaces[{i}]: {other!r} is not a range like 10.0.0.0/16"
    if network.peer_with and not network.peer_address_spaces:
        yield (
            "network.peer_address_spaces: is empty, but network.peer_with names networks; give "
            "their ranges, so that an overlap is found before anything is deployed"
        )
    yield from (f"network.address_space: {problem}" for problem in _space(settings))


def _plan(settings: "Settings") -> Iterator[str]:
    if settings.network.existing is not None or _space(settings):
        return
    try:
        _ = settings.address_plan
    except AddressError as error:
        yield from (f"network.address_space: {problem}" for problem in error.problems)


def _space(settings: "Settings") -> list[str]:
    network = settings.network
    return addresses.space_problems(network.address_space, network.peer_address_spaces)


def _existing_network(settings: "Settings") -> Iterator[str]:
    network, existing = settings.network, settings.network.existing
    if existing is None:
        return
    subnets = {
        "training_subnet": existing.training_subnet,
        "build_subnet": existing.build_subnet,
        "endpoints_subnet": existing.endpoints_subnet,
    }
    for name, subnet in subnets.items():
        if not subnet.lower().startswith(existing.virtual_network.lower() + "/"):
            yield (
                f"network.existing.{name}: {subnet!r} is not in network.existing.virtual_network; "
                "all subnets must be of that network"
            )
    if subnets["endpoints_subnet"].lower() == subnets["training_subnet"].lower():
        yield "network.existing.endpoints_subnet: is the training subnet too; give one of its own"
    if network.jump_subnet:
        yield "network.jump_subnet: network.existing is not changed; its owner adds subnets"
    if network.peer_with:
        yield "network.peer_with: network.existing is not changed; its owner peers it"


def _profile(settings: "Settings") -> Iterator[str]:
    allowed = settings.allowed_addresses
    if settings.profile == "private" and allowed:
        yield (
            "allowed_addresses: the private profile lets nobody in from outside; take them out, or "
            "set profile to allowlisted"
        )
    if settings.profile == "allowlisted" and not allowed:
        yield (
            "allowed_addresses: is empty, so the allowlisted profile would let nobody in; give the "
            "public addresses of the team"
        )
    if len(allowed) > MOST_STORAGE_RULES:
        yield (
            f"allowed_addresses: {len(allowed)} ranges, a storage account takes at most "
            f"{MOST_STORAGE_RULES}"
        )
    for i, text in enumerate(allowed):
        yield from (f"allowed_addresses[{i}]: {problem}" for problem in _allowed(text))


def _allowed(text: str) -> Iterator[str]:
    network = _range(text)
    if network is None:
        yield f"{text!r} is not an IPv4 address or range, such as 203.0.113.7 or 203.0.113.0/24"
    elif not network.is_global:
        yield f"{text} is not a public address; give the one that the internet sees"
    elif network.prefixlen < WIDEST_ALLOWED:
        yield f"{text} is a large part of the internet; give ranges of /{WIDEST_ALLOWED} or smaller"
    elif "/" in text and network.prefixlen > 30:
        yield f"{text}: a storage account takes no /31 and /32; list the addresses themselves"


def _storage(settings: "Settings") -> Iterator[str]:
    default, data = settings.storage.existing_default, settings.storage.existing_data
    if default is not None and data is not None and default.lower() == data.lower():
        yield (
            "storage.existing_data: is storage.existing_default too; training data need an "
            "account of their own, which training only reads"
        )


def _encryption(settings: "Settings") -> Iterator[str]:
    wanted, vault = settings.encryption, settings.vault
    if wanted.key_uri is not None and vault.existing is None:
        yield "vault.existing: is missing; encryption.key_uri is of a vault that exists"
    if wanted.key_uri is not None and not wanted.customer_managed_keys:
        yield "encryption.key_uri: is not used; set encryption.customer_managed_keys to true"
    if wanted.customer_managed_keys and vault.existing is not None and wanted.key_uri is None:
        yield "encryption.key_uri: is missing; nothing is added to vault.existing, so give its key"
    if wanted.key_uri is not None and vault.existing is not None:
        of = wanted.key_uri.removeprefix("https://").partition(".")[0]
        name = vault.existing.rpartition("/")[2]
        if of.lower() != name.lower():
            yield f"encryption.key_uri: is of vault {of!r}, but vault.existing is {name!r}"
    if vault.existing is not None or vault.purge_protection:
        return
    if wanted.customer_managed_keys:
        yield (
            "vault.purge_protection: must be true with encryption.customer_managed_keys; without "
            "its key nobody can read the data again"
        )
    if settings.protect:
        yield "vault.purge_protection: must be true where protect is true"


def _told(settings: "Settings") -> Iterator[str]:
    if not settings.budget.emails:
        yield "budget.emails: is empty; somebody has to be told, give at least one e-mail address"


def _shares(settings: "Settings") -> Iterator[str]:
    actual, forecast = settings.budget.actual_percent, settings.budget.forecast_percent
    for name, shares in (("actual_percent", actual), ("forecast_percent", forecast)):
        if not shares:
            yield f"budget.{name}: is empty; give at least one share, such as 100"
        if len(set(shares)) < len(shares):
            yield f"budget.{name}: {list(shares)} has a share twice"
    count = len(actual) + len(forecast)
    if count > MOST_NOTIFICATIONS:
        yield (
            f"budget.actual_percent: {count} shares with budget.forecast_percent, a budget takes "
            f"at most {MOST_NOTIFICATIONS}"
        )


def _tags(settings: "Settings") -> Iterator[str]:
    for tag in REQUIRED_TAGS:
        if not settings.tags.get(tag):
            yield f"tags.{tag}: is missing; say who owns the stack and who pays for it"
    for name, value in settings.tags.items():
        if len(name) > LONGEST_TAG or set(name) & UNTAGGABLE:
            yield (
                f"tags.{name}: a tag's name has at most {LONGEST_TAG} characters and none of "
                f"{' '.join(sorted(UNTAGGABLE))}"
            )
        if len(value) > LONGEST_TAG_VALUE:
            yield (
                f"tags.{name}: {len(value)} characters, a tag's text has at most "
                f"{LONGEST_TAG_VALUE}"
            )


def _range(text: str) -> IPv4Network | None:
    try:
        return IPv4Network(text)
    except ValueError:
        return None


CHECKS = (
    Check(("prefix", "stack", "location", "name_seed"), _names),
    Check(tuple(f"{key(role)}.name" for role in ROLES), capacity.names),
    *(
        Check((f"{key(role)}.size", "subscription.sizes", "location"), partial(capacity.size, role))
        for role in ROLES
    ),
    *(
        Check(
            (
                f"{key(role)}.size",
                f"{key(role)}.max_nodes",
                "subscription.low_priority_cores",
            ),
            partial(capacity.nodes, role),
        )
        for role in ROLES
    ),
    Check(("clusters", "subscription.dedicated_cores"), capacity.dedicated),
    Check(("network",), _network),
    Check(("network",), _existing_network),
    Check(("network", *(f"{key(role)}.max_nodes" for role in ROLES)), _plan),
    Check(("profile", "allowed_addresses"), _profile),
    Check(("storage.existing_default", "storage.existing_data"), _storage),
    Check(("encryption", "vault", "protect"), _encryption),
    Check(("budget.emails",), _told),
    Check(("budget.actual_percent", "budget.forecast_percent"), _shares),
    Check(("tags",), _tags),
)
