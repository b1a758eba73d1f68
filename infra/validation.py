"""Validation: settings from a stack's configuration, and the problems that make them unusable.

`load` reads the fields, and checks them against each other and against Azure's limits. Each check
names the keys that it reads, and is skipped if one of them is invalid by itself: that problem is
reported already.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial

from common import fields
from common.fields import Reading
from infra import naming
from infra.catalog import resource_ids, vm_sizes
from infra.checks import network as network_checks
from infra.errors import SettingsError
from infra.leaf import Check
from infra.leaves import LEAVES, SETTINGS
from infra.naming import CLUSTER, CLUSTER_KEY
from infra.settings import Settings
from infra.subnets import WIDEST_ALLOWED, address_range

REQUIRED_TAGS = ("owner", "cost-center")
OWN_TAGS = ("stack", "managed-by")
"""Tags that the stack adds to each resource."""
MOST_TAGS = 50
"""Tags per resource (Azure Resource Manager, "Use tags"), with the stack's own."""
LONGEST_TAG, LONGEST_TAG_VALUE, UNTAGGABLE = 128, 256, set("<>%&\\?/")
"""Limits of tags (Azure Resource Manager, "Use tags"); names are shortest for storage accounts."""
MOST_STORAGE_RULES = 400
"""Address rules per storage account (Azure Storage, "Configure firewalls")."""
RESERVED_TAGS = ("azure", "microsoft", "windows")
"""Beginnings of tag names that Azure reserves (Azure Resource Manager, "Use tags")."""


OTHER_CLOUDS = ("china", "usgov", "usdod", "ussec", "usnat")
"""Beginnings of the regions of Azure's other clouds, whose services have other addresses."""


def load(values: Mapping[str, object]) -> Settings:
    """Read the configuration of a stack.

    Args:
        values: nested plain data by the names of the fields, with the stack's name as `stack`.

    Raises:
        SettingsError: with every unknown or missing key, wrong type, value out of bounds,
            contradiction, and name, size, address space or quota that Azure would reject.
    """
    reading = fields.read(SETTINGS, values)
    problems = [*reading.problems, *contradictions(reading)]
    if problems:
        raise SettingsError(problems)
    return reading.value


def contradictions(reading: Reading[Settings]) -> list[str]:
    """Return every conflict between the valid fields."""
    return [
        problem
        for check in (*CHECKS, *_cluster_checks(reading.value.clusters))
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
        settings.prefix,
        settings.stack,
        settings.location,
        settings.name_seed,
        [name for leaf in LEAVES for name in leaf.names],
    )


def _own_names(settings: Settings) -> Iterator[str]:
    """Check that the settings give nothing the name of a resource that the stack declares."""
    if any(_names(settings)):
        return
    group = resource_ids.group(settings.subscription.id, settings.names.resource_group)
    own = f"{group}/providers/Microsoft.Network/virtualNetworks/{settings.names.virtual_network}"
    if own.lower() in {peer.lower() for peer in settings.network.peer_with}:
        yield "network.peer_with: contains the stack's own network; remove it"
    named = {key: one.name for key, one in settings.clusters.items() if one.name is not None}
    for key, name in named.items():
        for other in settings.clusters.keys() - named.keys():
            if settings.cluster_name(other).lower() == name.lower():
                yield (
                    f"clusters.{key}.name: {name!r} is the name that clusters.{other} gets; choose "
                    "another"
                )


def _location(settings: Settings) -> Iterator[str]:
    if settings.location.startswith(OTHER_CLOUDS):
        yield (
            f"location: {settings.location} is in another cloud, whose services have other"
            " addresses; choose a region of Azure's public cloud"
        )


def _cluster_keys(settings: Settings) -> Iterator[str]:
    """Check the names that the settings give the clusters."""
    for key in settings.clusters:
        if not re.fullmatch(CLUSTER_KEY, key):
            yield (
                f"clusters.{key}: the name must be at most 17 lower-case letters and digits, with "
                "single underscores between them, and begin with a letter"
            )


def _cluster_names(settings: Settings) -> Iterator[str]:
    """Check the configured names of clusters in Azure."""
    names = {key: c.name for key, c in settings.clusters.items() if c.name is not None}
    for key, name in names.items():
        at = f"clusters.{key}.name"
        ends = re.fullmatch(r"(.*)-(\d+)", name)
        if ends:
            yield (
                f"{at}: {name!r} ends in a hyphen and digits, which Azure Machine Learning "
                f"refuses; write {ends[1] + ends[2]!r}, for example"
            )
        elif not re.fullmatch(CLUSTER, name):
            yield f"{at}: {name!r} must be a letter, then 2 to 23 letters, digits and hyphens"
        first = next(other for other in names if names[other].lower() == name.lower())
        if first != key:
            yield f"{at}: {name!r} is also the name of clusters.{first}; give each cluster its own"


def _build_cluster(settings: Settings) -> Iterator[str]:
    """Check that the workspace has its one image build compute, unless its nodes build none."""
    builds = [key for key, cluster in settings.clusters.items() if cluster.duty == "build"]
    if settings.nodes is not None and not settings.nodes.builds:
        for key in builds:
            yield (
                f"clusters.{key}: has the duty build, but nodes of profile {settings.profile} "
                "reach no package index here; remove it with null, and push images instead"
            )
    elif len(builds) != 1:
        yield (
            f"clusters: {', '.join(builds) or 'none'} with the duty build, but a workspace builds "
            "its images on exactly one cluster; "
            + (
                "give the others another duty, or remove a default with null"
                if builds
                else "add one, such as build: {duty: build, size: Standard_D4ads_v5, max_nodes: 1}"
            )
        )
    for key in builds:
        if settings.clusters[key].priority == "low":
            yield (
                f"clusters.{key}.priority: 'low', but an image build does not resume when its node "
                "is pre-empted; use dedicated"
            )


def _cluster_size(key: str, settings: Settings) -> Iterator[str]:
    """Check the size of a cluster's nodes."""
    cluster = settings.clusters[key]
    at, trains = f"clusters.{key}.size", cluster.duty == "train"
    sizes = [*vm_sizes.deployable(gpu=False), *(vm_sizes.deployable(gpu=True) if trains else ())]
    choice = ", ".join(other.name for other in sizes)
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
    elif size.gpus and not trains:
        yield (
            f"{at}: {size.name} has {size.gpus} GPUs; choose one of {choice}, or another duty than "
            f"{cluster.duty}"
        )
    elif offered and size.name.lower() not in offered:
        yield (
            f"{at}: {size.name} is not listed in subscription.sizes for location "
            f"{settings.location!r}; choose another size or region, or update that list"
        )


def _cluster_nodes(key: str, settings: Settings) -> Iterator[str]:
    """Check a cluster's number of nodes, if its size is known."""
    count, size = settings.clusters[key].max_nodes, vm_sizes.find(settings.clusters[key].size)
    if size is not None and size.infiniband and count > vm_sizes.RDMA_POOL_NODES:
        yield (
            f"clusters.{key}.max_nodes: {count} nodes, but a cluster with InfiniBand can have at "
            f"most {vm_sizes.RDMA_POOL_NODES}"
        )


def _cores(settings: Settings) -> Iterator[str]:
    """Check the quotas of cores: nodes that are not running count as well."""
    known = sorted({entry.series for entry in vm_sizes.BY_NAME.values()})
    used: dict[str, dict[str, int]] = {}
    for key, cluster in settings.clusters.items():
        if (size := vm_sizes.find(cluster.size)) is not None:
            low = cluster.priority == "low"
            pool = "low_priority_cores" if low else f"dedicated_cores.{size.series}"
            used.setdefault(pool, {})[f"clusters.{key}"] = cluster.max_nodes * size.vcpus
    quotas = {
        "low_priority_cores": settings.subscription.low_priority_cores,
        **{f"dedicated_cores.{k}": v for k, v in settings.subscription.dedicated_cores.items()},
    }
    for pool, quota in quotas.items():
        at, cores = f"subscription.{pool}", used.get(pool, {})
        series = pool.partition(".")[2]
        if series and series not in known:
            yield f"{at}: unknown series; the catalogue has {', '.join(known)}"
        elif quota is not None and sum(cores.values()) > quota:
            users = ", ".join(f"{name} {count}" for name, count in cores.items())
            yield (
                f"{at}: {quota} cores, but with max_nodes running the clusters need "
                f"{sum(cores.values())} ({users}); use fewer nodes or request more quota"
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
    if settings.network.dns_links == "declared":
        yield (
            "network.dns_links: cannot be declared with resource_group.existing, because the links "
            "would be in the resource group of the zones; ask its owner, and set existing"
        )
    if settings.network.flow_logs_to is not None:
        yield (
            "network.flow_logs_to: cannot be combined with resource_group.existing, because flow "
            "logs are declared in NetworkWatcherRG; ask the owner of the subscription for them"
        )
    services = {
        "storage.existing_default": settings.storage.existing_default,
        "storage.existing_data": settings.storage.existing_data,
        "registry.existing": settings.registry.existing,
        "vault.existing": settings.vault.existing,
        **(settings.data_keys.assigned if settings.data_keys else {}),
    }
    for key, service in services.items():
        outside = service is not None and not service.lower().startswith(f"{group.lower()}/")
        if outside and settings.roles == "declared":
            yield (
                f"{key}: is outside resource_group.existing, but the stack would assign roles on "
                "it; set roles to existing, so that the owner of the subscription assigns them, "
                "use a resource of that group, or let the stack declare one"
            )


def _profile(settings: Settings) -> Iterator[str]:
    allowed = settings.allowed_addresses
    if not settings.public and allowed:
        yield (
            f"allowed_addresses: the {settings.profile} profile allows no access from outside the "
            "network; remove the addresses, or set profile to allowlisted"
        )
    if settings.public and not allowed:
        yield (
            "allowed_addresses: is empty, so the allowlisted profile would admit no one; list the "
            "team's public addresses"
        )
    if len(allowed) > MOST_STORAGE_RULES:
        yield (
            f"allowed_addresses: {len(allowed)} ranges, but a storage account accepts at most "
            f"{MOST_STORAGE_RULES}"
        )
    for names in _repeated(allowed).values():
        yield f"allowed_addresses: contains {names[0]} twice; remove one"
    for i, text in enumerate(allowed):
        yield from (f"allowed_addresses[{i}]: {problem}" for problem in _allowed(text))


def _allowed(text: str) -> Iterator[str]:
    network = address_range(text)
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


def _purge_protection(settings: Settings) -> Iterator[str]:
    vault = settings.vault
    if settings.protect and vault.existing is None and not vault.purge_protection:
        yield "vault.purge_protection: must be true when protect is true"


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
        if name.lower().startswith(RESERVED_TAGS):
            yield (
                f"tags.{name}: Azure reserves names that begin with {', '.join(RESERVED_TAGS)}; "
                "choose another name"
            )
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


def _ignored_tags(settings: Settings) -> Iterator[str]:
    own = {name.lower() for name in (*settings.tags, *OWN_TAGS)}
    for name in settings.ignored_tags:
        if name.lower() in own:
            yield f"ignored_tags: contains {name}, which the stack sets; remove one of the two"
    for names in _repeated(settings.ignored_tags).values():
        yield f"ignored_tags: contains {names[0]} twice; remove one"


def _cluster_checks(clusters: Collection[str]) -> Iterator[Check]:
    """Return the checks of the clusters, by their names in the settings."""
    for key in clusters:
        size = f"clusters.{key}.size"
        yield Check(
            (size, f"clusters.{key}.duty", "subscription.sizes", "location"),
            partial(_cluster_size, key),
        )
        yield Check((size, f"clusters.{key}.max_nodes"), partial(_cluster_nodes, key))
    yield Check(tuple(f"clusters.{key}.name" for key in clusters), _cluster_names)


CHECKS = (
    Check(("prefix", "stack", "location", "name_seed"), _names),
    Check(
        (
            *("prefix", "stack", "location", "name_seed"),
            *("subscription.id", "resource_group", "network", "clusters"),
        ),
        _own_names,
    ),
    Check(("location",), _location),
    Check((), _cluster_keys),
    Check(("clusters", "profile"), _build_cluster),
    Check(("clusters", "subscription"), _cores),
    Check(("network", "profile"), network_checks.address_space),
    Check(("network", "subscription.id"), network_checks.existing_network),
    Check(("network", "profile", "subscription.id"), network_checks.connections),
    Check(("network",), network_checks.private_dns),
    Check(
        ("network", "profile", "storage", "registry", "vault"),
        network_checks.existing_endpoints,
    ),
    Check(
        ("resource_group", "roles", "subscription.id", "network", "storage", "registry", "vault"),
        _resource_group,
    ),
    Check(("network", "clusters"), network_checks.address_plan),
    Check(("profile", "allowed_addresses"), _profile),
    Check(("storage.existing_default", "storage.existing_data"), _storage),
    Check(("vault", "protect"), _purge_protection),
    Check(("tags",), _tags),
    Check(("tags", "ignored_tags"), _ignored_tags),
    *(check for leaf in LEAVES for check in leaf.checks),
)
