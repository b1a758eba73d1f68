"""All kinds of resources with rules, except jobs."""

from collections.abc import Callable
from typing import Any

from rehearsal.blob_storage.blobs import Blobs
from rehearsal.control_plane.resource_manager import ResourceManager
from rehearsal.resources import (
    assets,
    computes,
    global_names,
    machines,
    networks,
    regions,
    simple_kinds,
    storage,
    vaults,
    workspaces,
)
from rehearsal.resources.quotas import Quotas
from rehearsal.resources.roles import ASSIGNMENT, RoleAssignment, Roles


def register(
    resources: ResourceManager,
    blobs: Blobs,
    nodes: Callable[[str], list[dict[str, Any]]],
    url: str,
    roles: Roles,
) -> Quotas:
    """Register the rules of all kinds; return the quotas, whose limits can be changed.

    Args:
        resources: Resource Manager.
        blobs: Blob storage, with accounts and containers.
        nodes: Returns the nodes of a cluster by its id, as `listNodes` shows them.
        url: Address of this Azure.
        roles: Decides who may do what.
    """
    quotas = Quotas(resources, nodes)
    for kinds in (
        assets.kinds(resources, blobs),
        {computes.COMPUTE: computes.ComputeCluster(nodes, quotas.refusal)},
        machines.kinds(resources),
        networks.kinds(resources),
        {ASSIGNMENT: RoleAssignment()},
        global_names.kinds(resources),
        simple_kinds.kinds(resources),
        storage.kinds(resources, blobs),
        vaults.kinds(resources),
        workspaces.kinds(resources, blobs, url, roles),
    ):
        resources.register(kinds)
    resources.register_lists(quotas.lists)
    resources.register_lists(vaults.lists(resources))
    resources.register_lists(regions.LISTS)
    storage.restore(resources, blobs)
    return quotas
