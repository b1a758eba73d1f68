"""All kinds of resource that have rules, but for jobs."""

from collections.abc import Callable
from typing import Any

from rehearsal.blob_storage.blobs import Blobs
from rehearsal.control_plane.resource_manager import ResourceManager
from rehearsal.resources import (
    assets,
    computes,
    networks,
    simple_kinds,
    storage,
    vaults,
    workspaces,
)
from rehearsal.resources.quotas import Quotas


def register(
    resources: ResourceManager,
    blobs: Blobs,
    nodes: Callable[[str], list[dict[str, Any]]],
    url: str,
) -> Quotas:
    """Let Resource Manager know the rules of all kinds; the quotas, whose limits can be set.

    Args:
        resources: Resource Manager.
        blobs: where accounts and containers are.
        nodes: gives the nodes of a cluster by its id, as `listNodes` shows them.
        url: address of this Azure.
    """
    quotas = Quotas(resources, nodes)
    for kinds in (
        assets.kinds(resources, blobs),
        {computes.COMPUTE: computes.ComputeCluster(nodes)},
        networks.kinds(resources),
        simple_kinds.KINDS,
        storage.kinds(resources, blobs),
        vaults.kinds(resources),
        workspaces.kinds(resources, blobs, url),
    ):
        resources.register(kinds)
    resources.register_lists(quotas.lists)
    resources.register_lists(vaults.lists(resources))
    storage.restore(resources, blobs)
    return quotas
