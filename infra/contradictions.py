"""What settings contradict each other, or Azure would refuse, though each field is well formed.

Each check names the keys that it reads, and is left out when one of them was wrong by itself: its
problem is known already.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import TYPE_CHECKING

from infra import addresses, naming
from infra.catalog import sizes
from infra.errors import AddressError
from infra.fields import Reading
from infra.groups import ClusterSettings

if TYPE_CHECKING:
    from infra.settings import Settings

REQUIRED_TAGS = ("owner", "cost-center")
MOST_NOTIFICATIONS = 5
"""Of a budget (Azure's limit)."""
MOST_STORAGE_RULES = 400
"""Address rules of a storage account (Azure's limit)."""


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
    own = {role: c.name for role, c in settings.clusters.by_role.items() if c.name is not None}
    for role, name in own.items():
        key = f"clusters.{role.replace('-', '_')}.name"
        if re.search(r"-\d+$", name):
            yield (
                f"{key}: {name!r} ends in a hyphen and digits, which Azure Machine Learning "
                f"refuses; write {re.sub(r'-(?=[0-9]+$)', 'x', name)!r} or another name"
            )
        elif not re.fullmatch(naming.CLUSTER, name):
            yield f"{key}: {name!r} must be 3 to 24 letters, digits and hyphens, a letter first"
    for name in {name for name in own.values() if list(own.values()).count(name) > 1}:
        yield f"clusters: two clusters have the name {name!r}; give each its own"


def _clusters(settings: "Settings") -> Iterator[str]:
    for role, cluster in settings.clusters.by_role.items():
        yield from _cluster(settings, role, cluster)


def _cluster(
    settings: "Settings", role: naming.ClusterRole, cluster: ClusterSettings
) -> Iterator[str]:
    key = f"clusters.{role.replace('-', '_')}"
    gpu = role in {"gpu", "gpu-dedicated"}
    usable = ", ".join(size.name for size in sizes.deployable(gpu=gpu))
    size = sizes.find(cluster.size)
    if size is None:
        yield f"{key}.size: {cluster.size!r} is not in the catalogue; choose one of {usable}"
        return
    if size.status == "retired":
        yield (
            f"{key}.size: {size.name} is retired since {size.retired} and cannot be deployed; "
            f"take {size.replacement}"
        )
        return
    if bool(size.gpus) != gpu:
        wants = "GPUs" if gpu else "no GPU"
        yield f"{key}.size: {size.name} is a size for something else; with {wants} are {usable}"
        return
    offered = {name.lower() for name in settings.subscription.sizes}
    if (offered and size.name.lower() not in offered) or (
        size.regions is not None and settings.location not in size.regions
    ):
        yield (
            f"{key}.size: {size.name} is not on offer in location {settings.location!r}; choose "
            "another size or another region"
        )
    yield from _quota(settings, role, cluster, size)


def _quota(
    settings: "Settings", role: naming.ClusterRole, cluster: ClusterSettings, size: sizes.Size
) -> Iterator[str]:
    key = f"clusters.{role.replace('-', '_')}.max_nodes"
    if size.infiniband and cluster.max_nodes > sizes.RDMA_POOL_NODES:
        yield (
            f"{key}: {cluster.max_nodes} nodes, but a cluster with InfiniBand has at most "
            f"{sizes.RDMA_POOL_NODES}"
        )
    known = settings.subscription
    low = role == "gpu"
    cores = known.low_priority_cores if low else known.dedicated_cores.get(size.series)
    if cores is not None and cluster.max_nodes * size.vcpus > cores:
        kind = "low-priority quota" if low else f"dedicated quota of {size.series}"
        yield (
            f"{key}: {cluster.max_nodes} nodes of {size.name} take "
            f"{cluster.max_nodes * size.vcpus} cores, but the {kind} is {cores}; that is "
            f"{cores // size.vcpus} nodes; ask for more quota or lower it"
        )


def _network(settings: "Settings") -> Iterator[str]:
    network = settings.network
    for i, other in enumerate(network.peer_address_spaces):
        if _range(other) is None:
            yield f"network.peer_address_spaces[{i}]: {other!r} is not a range like 10.0.0.0/16"
    if network.peer_with and not network.peer_address_spaces:
        yield (
            "network.peer_address_spaces: is empty, but network.peer_with names networks; give "
            "their address ranges, so that an overlap is found before it is deployed"
        )
    wrong = addresses.space_problems(network.address_space, network.peer_address_spaces)
    yield from (f"network.address_space: {problem}" for problem in wrong)
    if wrong:
        return
    try:
        _ = settings.address_plan
    except AddressError as error:
        yield from (f"network.address_space: {problem}" for problem in error.problems)


def _existing_network(settings: "Settings") -> Iterator[str]:
    network, existing = settings.network, settings.network.existing
    if existing is None:
        return
    for key in ("training_subnet", "build_subnet", "endpoints_subnet"):
        if not getattr(existing, key).lower().startswith(existing.virtual_network.lower() + "/"):
            yield f"network.existing.{key}: is not a subnet of network.existing.virtual_network"
    if existing.endpoints_subnet.lower() == existing.training_subnet.lower():
        yield "network.existing.endpoints_subnet: must be another subnet than training_subnet"
    if network.jump_subnet:
        yield "network.jump_subnet: cannot be made in network.existing, which is not changed"
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
            "allowed_addresses: is empty, so that the allowlisted profile would let nobody in; "
            "give the public addresses of the team"
        )
    if len(allowed) > MOST_STORAGE_RULES:
        yield (
            f"allowed_addresses: {len(allowed)} ranges, but a storage account takes at most "
            f"{MOST_STORAGE_RULES}"
        )
    for i, text in enumerate(allowed):
        network = _range(text)
        key = f"allowed_addresses[{i}]"
        if network is None:
            yield f"{key}: {text!r} is not an IPv4 address or range such as 203.0.113.7"
        elif not network.is_global:
            yield f"{key}: {text} is not a public address; give the one that the internet sees"
        elif network.prefixlen == 31 or ("/" in text and network.prefixlen == 32):
            yield f"{key}: storage accounts take no /31 and /32; list the addresses one by one"
        elif network.prefixlen < 8:
            yield f"{key}: {text} is nearly everybody; give ranges of /8 or smaller"


def _bring_your_own(settings: "Settings") -> Iterator[str]:
    storage = settings.storage
    if storage.existing_default and storage.existing_default == storage.existing_data:
        yield (
            "storage.existing_data: is storage.existing_default too; training data need an "
            "account of their own, which training can only read"
        )
    if settings.encryption.key_uri and not settings.encryption.customer_managed_keys:
        yield "encryption.key_uri: is not used; set encryption.customer_managed_keys to true"
    if settings.encryption.customer_managed_keys:
        if settings.vault.existing is None and not settings.vault.purge_protection:
            yield (
                "vault.purge_protection: must be true with encryption.customer_managed_keys; a "
                "purged key would make the data unreadable for ever"
            )
        if settings.vault.existing and not settings.encryption.key_uri:
            yield "encryption.key_uri: is missing; nothing is declared in vault.existing"
    if settings.encryption.key_uri and settings.vault.existing is None:
        yield "vault.existing: is missing; encryption.key_uri is of a vault that exists"


def _budget(settings: "Settings") -> Iterator[str]:
    budget = settings.budget
    if not budget.emails:
        yield "budget.emails: is empty; somebody has to be told, give at least one e-mail address"
    if not budget.actual_percent:
        yield "budget.actual_percent: is empty; give at least one share, such as 100"
    if not budget.forecast_percent:
        yield "budget.forecast_percent: is empty; give at least one share, such as 100"
    count = len(budget.actual_percent) + len(budget.forecast_percent)
    if count > MOST_NOTIFICATIONS:
        yield (
            f"budget: {count} shares in actual_percent and forecast_percent, Azure takes at most "
            f"{MOST_NOTIFICATIONS}"
        )


def _tags(settings: "Settings") -> Iterator[str]:
    for tag in REQUIRED_TAGS:
        if not settings.tags.get(tag):
            yield f"tags.{tag}: is missing; say who owns the stack and who pays for it"


def _protection(settings: "Settings") -> Iterator[str]:
    if settings.protect and settings.vault.existing is None and not settings.vault.purge_protection:
        yield "vault.purge_protection: must be true where protect is true"


def _range(text: str) -> IPv4Network | None:
    try:
        return IPv4Network(text)
    except ValueError:
        return None


CHECKS = (
    Check(("prefix", "stack", "location", "name_seed", "clusters"), _names),
    Check(("clusters", "subscription", "location"), _clusters),
    Check(("network.address_space", "network.peer_address_spaces", "clusters"), _network),
    Check(("network.existing", "network.jump_subnet", "network.peer_with"), _existing_network),
    Check(("profile", "allowed_addresses"), _profile),
    Check(("storage", "encryption", "vault"), _bring_your_own),
    Check(("budget",), _budget),
    Check(("tags",), _tags),
    Check(("protect", "vault"), _protection),
)
