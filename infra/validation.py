"""Validation: settings from a stack's configuration, and the problems that make them unusable.

`load` reads the fields, and checks them against each other and against Azure's limits. Each check
names the keys that it reads, and is skipped if one of them is invalid by itself: that problem is
reported already.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv4Network
from typing import Final, get_args

from common import fields
from common.fields import Reading
from infra import naming, subnets
from infra.catalog import vm_sizes
from infra.errors import AddressError, SettingsError
from infra.naming import CLUSTER, PRIORITIES, ClusterRole
from infra.settings import Settings

ROLES: Final[Sequence[ClusterRole]] = get_args(ClusterRole)
REQUIRED_TAGS = ("owner", "cost-center")
OWN_TAGS = ("stack", "managed-by")
"""Tags that the stack adds to each resource."""
MOST_TAGS = 50
"""Tags per resource (Azure Resource Manager, "Use tags"), with the stack's own."""
LONGEST_TAG, LONGEST_TAG_VALUE, UNTAGGABLE = 128, 256, set("<>%&\\?/")
"""Limits of tags (Azure Resource Manager, "Use tags"); names are shortest for storage accounts."""
MOST_NOTIFICATIONS = 5
"""Notifications per budget (Azure Cost Management)."""
MOST_STORAGE_RULES = 400
"""Address rules per storage account (Azure Storage, "Configure firewalls")."""
WIDEST_ALLOWED = 16
"""Prefix length of the largest range that may be allowed."""


def load(values: Mapping[str, object]) -> Settings:
    """Read the configuration of a stack.

    Args:
        values: nested plain data by the names of the fields, with the stack's name as `stack`.

    Raises:
        SettingsError: with every unknown or missing key, wrong type, value out of bounds,
            contradiction, and name, size, address space or quota that Azure would reject.
    """
    reading = fields.read(Settings, values)
    problems = [*reading.problems, *contradictions(reading)]
    if problems:
        raise SettingsError(problems)
    return reading.value


@dataclass(frozen=True)
class Check:
    """One rule over several fields."""

    reads: tuple[str, ...]
    find: Callable[[Settings], Iterator[str]]


def contradictions(reading: Reading[Settings]) -> list[str]:
    """Return every conflict between the valid fields."""
    return [
        problem
        for check in CHECKS
        if all(reading.is_sound(key) for key in check.reads)
        for problem in check.find(reading.value)
    ]


def _repeated(values: Iterable[str]) -> dict[str, list[str]]:
    """Return the values that differ in case only, by their lower case."""
    spellings: dict[str, list[str]] = {}
    for value in values:
        spellings.setdefault(value.lower(), []).append(value)
    return {key: found for key, found in spellings.items() if len(found) > 1}


def _names(settings: Settings) -> Iterator[str]:
    yield from naming.problems(
        settings.prefix, settings.stack, settings.location, settings.name_seed
    )


def _cluster_names(settings: Settings) -> Iterator[str]:
    """Check the configured names of clusters."""
    names = {role: c.name for role, c in settings.clusters.by_role.items() if c.name is not None}
    for role, name in names.items():
        at = f"{_key(role)}.name"
        ends = re.fullmatch(r"(.*)-(\d+)", name)
        if ends:
            yield (
                f"{at}: {name!r} ends in a hyphen and digits, which Azure Machine Learning "
                f"refuses; write {ends[1] + ends[2]!r}, for example"
            )
        elif not re.fullmatch(CLUSTER, name):
            yield f"{at}: {name!r} must be a letter, then 2 to 23 letters, digits and hyphens"
        first = next(other for other in names if names[other].lower() == name.lower())
        if first != role:
            yield f"{at}: {name!r} is also the name of {_key(first)}; give each cluster its own"


def _cluster_size(role: ClusterRole, settings: Settings) -> Iterator[str]:
    """Check a cluster's size, if the stack has that cluster."""
    cluster = settings.clusters.by_role.get(role)
    if cluster is None:
        return
    at, gpu = f"{_key(role)}.size", role in {"gpu", "gpu-dedicated"}
    choice = ", ".join(other.name for other in vm_sizes.deployable(gpu=gpu))
    size = vm_sizes.find(cluster.size)
    offered = {name.lower() for name in settings.subscription.sizes}
    if size is None:
        yield f"{at}: {cluster.size!r} is not in the catalogue; choose one of {choice}"
    elif size.name != cluster.size:
        yield f"{at}: {cluster.size!r} has the wrong case; write {size.name}"
    elif size.status != "deployable":
        state = {"retired": "was retired", "restricted": "was closed to new subscriptions"}
        yield (
            f"{at}: {size.name} {state[size.status]} ({size.since}); use {size.replacement} instead"
        )
    elif bool(size.gpus) != gpu:
        yield f"{at}: {size.name} has {size.gpus or 'no'} GPUs; choose one of {choice}"
    elif offered and size.name.lower() not in offered:
        yield (
            f"{at}: {size.name} is not listed in subscription.sizes for location "
            f"{settings.location!r}; choose another size or region, or update that list"
        )


def _cluster_nodes(role: ClusterRole, settings: Settings) -> Iterator[str]:
    """Check a cluster's number of nodes, if its size is known."""
    cluster = settings.clusters.by_role.get(role)
    size = vm_sizes.find(cluster.size) if cluster else None
    if cluster is None or size is None:
        return
    at, count = f"{_key(role)}.max_nodes", cluster.max_nodes
    if size.infiniband and count > vm_sizes.RDMA_POOL_NODES:
        yield (
            f"{at}: {count} nodes, but a cluster with InfiniBand can have at most "
            f"{vm_sizes.RDMA_POOL_NODES}"
        )
    quota = settings.subscription.low_priority_cores
    if quota is None or PRIORITIES[role] != "LowPriority":
        return
    if count * size.vcpus > quota:
        yield (
            f"{at}: {count} nodes of {size.name} need {count * size.vcpus} cores, but the "
            f"low-priority quota is {quota} (subscription.low_priority_cores), enough for "
            f"{quota // size.vcpus}; use fewer nodes or request more quota"
        )


def _dedicated_cores(settings: Settings) -> Iterator[str]:
    """Check the dedicated quotas: nodes that are not running count as well."""
    known = sorted({entry.series for entry in vm_sizes.BY_NAME.values()})
    for series, quota in settings.subscription.dedicated_cores.items():
        at = f"subscription.dedicated_cores.{series}"
        if series not in known:
            yield f"{at}: unknown series; the catalogue has {', '.join(known)}"
            continue
        cores = {
            _key(role): cluster.max_nodes * size.vcpus
            for role, cluster in settings.clusters.by_role.items()
            if PRIORITIES[role] == "Dedicated"
            and (size := vm_sizes.find(cluster.size))
            and size.series == series
        }
        if sum(cores.values()) > quota:
            users = ", ".join(f"{name} {count}" for name, count in cores.items())
            yield (
                f"{at}: {quota} cores, but with max_nodes running the clusters need "
                f"{sum(cores.values())} ({users}); use fewer nodes or request more quota"
            )


def _network(settings: Settings) -> Iterator[str]:
    network = settings.network
    if network.existing is not None:
        return
    for i, other in enumerate(network.peer_address_spaces):
        if _range(other) is None:
            yield f"network.peer_address_spaces[{i}]: {other!r} is not a range like 10.0.0.0/16"
    if network.peer_with and not network.peer_address_spaces:
        yield (
            "network.peer_address_spaces: is empty, but network.peer_with names networks; list "
            "their address ranges, so that an overlap is found before anything is deployed"
        )
    yield from (f"network.address_space: {problem}" for problem in _space(settings))


def _peers(settings: Settings) -> Iterator[str]:
    peers = (peer.rpartition("/")[2] for peer in settings.network.peer_with)
    for name, found in _repeated(peers).items():
        yield (
            f"network.peer_with: {len(found)} networks are called {name!r}, which names the peering"
            " as well; peer with one of them, or with a network of another name"
        )


def _resource_group(settings: Settings) -> Iterator[str]:
    """Check that nothing is declared outside an existing resource group."""
    group = settings.resource_group.existing
    if group is None:
        return
    if group.split("/")[2].lower() != settings.subscription.id.lower():
        yield (
            f"resource_group.existing: {group!r} is not in subscription.id "
            f"{settings.subscription.id}; use a group of that subscription"
        )
    services = {
        "storage.existing_default": settings.storage.existing_default,
        "storage.existing_data": settings.storage.existing_data,
        "registry.existing": settings.registry.existing,
        "vault.existing": settings.vault.existing,
    }
    for key, service in services.items():
        if service is not None and not service.lower().startswith(f"{group.lower()}/"):
            yield (
                f"{key}: is outside resource_group.existing, but the stack would assign roles on "
                "it; use a resource of that group, or let the stack declare one"
            )


def _plan(settings: Settings) -> Iterator[str]:
    if settings.network.existing is not None or _space(settings):
        return
    try:
        _ = settings.address_plan
    except AddressError as error:
        yield from (f"network.address_space: {problem}" for problem in error.problems)


def _space(settings: Settings) -> list[str]:
    network = settings.network
    return subnets.space_problems(network.address_space, network.peer_address_spaces)


def _existing_network(settings: Settings) -> Iterator[str]:
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
                "all three subnets must be in that network"
            )
    if subnets["endpoints_subnet"].lower() == subnets["training_subnet"].lower():
        yield (
            "network.existing.endpoints_subnet: is also the training subnet; private endpoints "
            "need a subnet of their own"
        )
    if network.jump_subnet:
        yield (
            "network.jump_subnet: cannot be combined with network.existing, which the stack does "
            "not change; ask the network's owner to add the subnet"
        )
    if network.peer_with:
        yield (
            "network.peer_with: cannot be combined with network.existing, which the stack does "
            "not change; ask the network's owner to peer it"
        )


def _profile(settings: Settings) -> Iterator[str]:
    allowed = settings.allowed_addresses
    if settings.profile == "private" and allowed:
        yield (
            "allowed_addresses: the private profile allows no access from outside the network; "
            "remove the addresses, or set profile to allowlisted"
        )
    if settings.profile == "allowlisted" and not allowed:
        yield (
            "allowed_addresses: is empty, so the allowlisted profile would let nobody in; list the "
            "team's public addresses"
        )
    if len(allowed) > MOST_STORAGE_RULES:
        yield (
            f"allowed_addresses: {len(allowed)} ranges, but a storage account accepts at most "
            f"{MOST_STORAGE_RULES}"
        )
    for i, text in enumerate(allowed):
        yield from (f"allowed_addresses[{i}]: {problem}" for problem in _allowed(text))


def _allowed(text: str) -> Iterator[str]:
    network = _range(text)
    if network is None:
        yield f"{text!r} is not an IPv4 address or range, such as 203.0.113.7 or 203.0.113.0/24"
    elif not network.is_global:
        yield f"{text} is not a public address; use the address that the internet sees"
    elif network.prefixlen < WIDEST_ALLOWED:
        yield f"{text} is a large part of the internet; use ranges of /{WIDEST_ALLOWED} or smaller"
    elif "/" in text and network.prefixlen > 30:
        yield f"{text}: a storage account rejects /31 and /32; list the addresses one by one"


def _storage(settings: Settings) -> Iterator[str]:
    default, data = settings.storage.existing_default, settings.storage.existing_data
    if default is not None and data is not None and default.lower() == data.lower():
        yield (
            "storage.existing_data: is the same account as storage.existing_default; training data "
            "need a separate account, which training may only read"
        )


def _encryption(settings: Settings) -> Iterator[str]:
    encryption, vault = settings.encryption, settings.vault
    if encryption.key_uri is not None and vault.existing is None:
        yield "vault.existing: is missing; give the id of the vault that holds encryption.key_uri"
    if encryption.key_uri is not None and not encryption.customer_managed_keys:
        yield "encryption.key_uri: has no effect; set encryption.customer_managed_keys to true"
    if (
        encryption.customer_managed_keys
        and vault.existing is not None
        and encryption.key_uri is None
    ):
        yield (
            "encryption.key_uri: is missing; the stack adds no key to vault.existing, so give the "
            "URI of a key in it"
        )
    if encryption.key_uri is not None and vault.existing is not None:
        key_vault = encryption.key_uri.removeprefix("https://").partition(".")[0]
        name = vault.existing.rpartition("/")[2]
        if key_vault.lower() != name.lower():
            yield (
                f"encryption.key_uri: is a key in vault {key_vault!r}, but vault.existing is "
                f"{name!r}; use one vault in both"
            )
    if vault.existing is not None or vault.purge_protection:
        return
    if encryption.customer_managed_keys:
        yield (
            "vault.purge_protection: must be true with encryption.customer_managed_keys; if the "
            "key is purged, the data can never be read again"
        )
    if settings.protect:
        yield "vault.purge_protection: must be true when protect is true"


def _budget_emails(settings: Settings) -> Iterator[str]:
    if not settings.budget.emails:
        yield "budget.emails: is empty; give at least one e-mail address to notify"
    for email in _repeated(settings.budget.emails):
        yield f"budget.emails: contains {email} twice; Azure refuses two receivers of one address"


def _budget_percentages(settings: Settings) -> Iterator[str]:
    actual, forecast = settings.budget.actual_percent, settings.budget.forecast_percent
    for name, shares in (("actual_percent", actual), ("forecast_percent", forecast)):
        if not shares:
            yield f"budget.{name}: is empty; give at least one percentage, such as 100"
        if len(set(shares)) < len(shares):
            yield f"budget.{name}: {list(shares)} contains a percentage twice"
    count = len(actual) + len(forecast)
    if count > MOST_NOTIFICATIONS:
        yield (
            f"budget.actual_percent: {count} percentages together with budget.forecast_percent, "
            f"but a budget accepts at most {MOST_NOTIFICATIONS}"
        )


def _tags(settings: Settings) -> Iterator[str]:
    for tag in REQUIRED_TAGS:
        if not settings.tags.get(tag):
            needed = " and ".join(REQUIRED_TAGS)
            yield f"tags.{tag}: is missing; every stack needs the tags {needed}"
    for names in _repeated(settings.tags).values():
        yield f"tags.{names[1]}: differs from {names[0]!r} in case only, which Azure ignores"
    if len(settings.tags) + len(OWN_TAGS) > MOST_TAGS:
        yield (
            f"tags: {len(settings.tags)} tags, but Azure accepts {MOST_TAGS} on a resource, and "
            f"the stack adds {' and '.join(OWN_TAGS)}; remove some"
        )
    for name, value in settings.tags.items():
        if name.lower() in OWN_TAGS:
            yield f"tags.{name}: the stack sets this tag itself; choose another name"
        if len(name) > LONGEST_TAG or set(name) & UNTAGGABLE:
            yield (
                f"tags.{name}: a tag name can have at most {LONGEST_TAG} characters and none of "
                f"{' '.join(sorted(UNTAGGABLE))}"
            )
        if len(value) > LONGEST_TAG_VALUE:
            yield (
                f"tags.{name}: {len(value)} characters, but a tag value can have at most "
                f"{LONGEST_TAG_VALUE}"
            )


def _range(text: str) -> IPv4Network | None:
    try:
        return IPv4Network(text)
    except ValueError:
        return None


def _key(role: ClusterRole) -> str:
    """Return the settings key of a cluster."""
    return f"clusters.{role.replace('-', '_')}"


CHECKS = (
    Check(("prefix", "stack", "location", "name_seed"), _names),
    Check(tuple(f"{_key(role)}.name" for role in ROLES), _cluster_names),
    *(
        Check(
            (f"{_key(role)}.size", "subscription.sizes", "location"), partial(_cluster_size, role)
        )
        for role in ROLES
    ),
    *(
        Check(
            (
                f"{_key(role)}.size",
                f"{_key(role)}.max_nodes",
                "subscription.low_priority_cores",
            ),
            partial(_cluster_nodes, role),
        )
        for role in ROLES
    ),
    Check(("clusters", "subscription.dedicated_cores"), _dedicated_cores),
    Check(("network",), _network),
    Check(("network",), _existing_network),
    Check(("network.peer_with",), _peers),
    Check(("resource_group", "subscription.id", "storage", "registry", "vault"), _resource_group),
    Check(("network", *(f"{_key(role)}.max_nodes" for role in ROLES)), _plan),
    Check(("profile", "allowed_addresses"), _profile),
    Check(("storage.existing_default", "storage.existing_data"), _storage),
    Check(("encryption", "vault", "protect"), _encryption),
    Check(("budget.emails",), _budget_emails),
    Check(("budget.actual_percent", "budget.forecast_percent"), _budget_percentages),
    Check(("tags",), _tags),
)
