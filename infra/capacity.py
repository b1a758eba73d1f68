"""What keeps a cluster from being made: its name, its size, or more nodes than there may be.

Each check yields a sentence a problem, with the key of the setting.
"""

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, get_args

from infra.catalog import vm_sizes
from infra.naming import CLUSTER, PRIORITIES, ClusterRole

if TYPE_CHECKING:
    from infra.settings import Settings

ROLES: Final[Sequence[ClusterRole]] = get_args(ClusterRole)


def key(role: ClusterRole) -> str:
    """Where a cluster stands in the settings."""
    return f"clusters.{role.replace('-', '_')}"


def names(settings: "Settings") -> Iterator[str]:
    """What is wrong with the names that clusters were given."""
    given = {role: c.name for role, c in settings.clusters.by_role.items() if c.name is not None}
    for role, name in given.items():
        at = f"{key(role)}.name"
        ends = re.fullmatch(r"(.*)-(\d+)", name)
        if ends:
            yield (
                f"{at}: {name!r} ends in a hyphen and digits, which Azure Machine Learning "
                f"refuses; write {ends[1] + ends[2]!r}, for example"
            )
        elif not re.fullmatch(CLUSTER, name):
            yield f"{at}: {name!r} must be 3 to 24 letters, digits and hyphens, a letter first"
        first = next(other for other in given if given[other].lower() == name.lower())
        if first != role:
            yield f"{at}: {name!r} is the name of {key(first)} too; give each its own"


def size(role: ClusterRole, settings: "Settings") -> Iterator[str]:
    """What is wrong with a cluster's size, if the stack has that cluster."""
    cluster = settings.clusters.by_role.get(role)
    if cluster is None:
        return
    at, gpu = f"{key(role)}.size", role in {"gpu", "gpu-dedicated"}
    choice = ", ".join(other.name for other in vm_sizes.deployable(gpu=gpu))
    found = vm_sizes.find(cluster.size)
    offered = {name.lower() for name in settings.subscription.sizes}
    if found is None:
        yield f"{at}: {cluster.size!r} is not in the catalogue; choose one of {choice}"
    elif found.name != cluster.size:
        yield f"{at}: {cluster.size!r} is written {found.name}"
    elif found.status != "deployable":
        state = {"retired": "is retired", "restricted": "is closed to new subscriptions"}
        yield (
            f"{at}: {found.name} {state[found.status]} since {found.since}; take "
            f"{found.replacement}"
        )
    elif bool(found.gpus) != gpu:
        yield f"{at}: {found.name} has {found.gpus or 'no'} GPUs; choose one of {choice}"
    elif offered and found.name.lower() not in offered:
        yield (
            f"{at}: {found.name} is not on offer in location {settings.location!r} by "
            "subscription.sizes; choose another size or region, or bring that list up to date"
        )


def nodes(role: ClusterRole, settings: "Settings") -> Iterator[str]:
    """What is wrong with a cluster's number of nodes, if its size is known."""
    cluster = settings.clusters.by_role.get(role)
    found = vm_sizes.find(cluster.size) if cluster else None
    if cluster is None or found is None:
        return
    at, count = f"{key(role)}.max_nodes", cluster.max_nodes
    if found.infiniband and count > vm_sizes.RDMA_POOL_NODES:
        yield (
            f"{at}: {count} nodes, but a cluster with InfiniBand has at most "
            f"{vm_sizes.RDMA_POOL_NODES}"
        )
    quota = settings.subscription.low_priority_cores
    if quota is None or PRIORITIES[role] != "LowPriority":
        return
    if count * found.vcpus > quota:
        yield (
            f"{at}: {count} nodes of {found.name} take {count * found.vcpus} cores, but the "
            f"low-priority quota is {quota} (subscription.low_priority_cores), enough for "
            f"{quota // found.vcpus}; take fewer nodes or ask for more quota"
        )


def dedicated(settings: "Settings") -> Iterator[str]:
    """What is wrong with the dedicated quotas: nodes that are not running count as well."""
    known = sorted({entry.series for entry in vm_sizes.BY_NAME.values()})
    for series, quota in settings.subscription.dedicated_cores.items():
        at = f"subscription.dedicated_cores.{series}"
        if series not in known:
            yield f"{at}: is no series of the catalogue, which are {', '.join(known)}"
            continue
        cores = {
            key(role): cluster.max_nodes * found.vcpus
            for role, cluster in settings.clusters.by_role.items()
            if PRIORITIES[role] == "Dedicated"
            and (found := vm_sizes.find(cluster.size))
            and found.series == series
        }
        if sum(cores.values()) > quota:
            users = ", ".join(f"{name} {count}" for name, count in cores.items())
            yield (
                f"{at}: {quota} cores, but at their largest the clusters take "
                f"{sum(cores.values())} ({users}); take fewer nodes or ask for more quota"
            )
