"""All kinds of resources with rules, except jobs, and the list of regions."""

from collections.abc import Callable
from typing import Any, Final

from rehearsal.blob_storage.blobs import Blobs
from rehearsal.control_plane.arm_path import ArmPath
from rehearsal.control_plane.http_messages import Request
from rehearsal.control_plane.resource_manager import ResourceManager
from rehearsal.control_plane.store import Document
from rehearsal.resources import (
    assets,
    computes,
    global_names,
    machines,
    managed_networks,
    networks,
    simple_kinds,
    storage,
    vaults,
    workspaces,
)
from rehearsal.resources.answers import ANSWERS
from rehearsal.resources.defaults import DEFAULTS
from rehearsal.resources.quotas import Quotas
from rehearsal.resources.roles import ASSIGNMENT, DEFINITION, RoleAssignment, RoleDefinition, Roles

ZONES: Final = {
    "westeurope": 3,
    "northeurope": 3,
    "swedencentral": 3,
    "eastus": 3,
    "norwaywest": 0,
    "westus": 0,
}
"""Number of availability zones of some regions ("Azure regions list", Microsoft Learn)."""


def register(
    resources: ResourceManager,
    blobs: Blobs,
    nodes: Callable[[str], list[dict[str, Any]]],
    url: str,
    roles: Roles,
    knows: Callable[[str], bool],
    card_seconds: float,
) -> Quotas:
    """Register the rules of all kinds; return the quotas, whose limits can be changed.

    Args:
        resources: Resource Manager.
        blobs: Blob storage, with accounts and containers.
        nodes: Returns the nodes of a cluster by its id, as `listNodes` shows them.
        url: Address of this Azure.
        roles: Decides who may do what.
        knows: Whether the directory has a principal, by its object id.
        card_seconds: Time for which a deleted cluster's network cards keep its subnet.
    """
    quotas = Quotas(resources, nodes)
    cards = networks.NetworkCards(resources.store, card_seconds)
    for kinds in (
        assets.kinds(resources, blobs),
        {
            computes.COMPUTE: computes.Compute(
                nodes, resources.get, quotas.refusal, cards.leave, resources.discard
            )
        },
        machines.kinds(resources),
        managed_networks.kinds(resources, roles),
        networks.kinds(resources, cards),
        {ASSIGNMENT: RoleAssignment(resources, knows), DEFINITION: RoleDefinition()},
        global_names.kinds(resources),
        simple_kinds.kinds(resources),
        storage.kinds(resources, blobs),
        vaults.kinds(resources),
        workspaces.kinds(resources, blobs, url, roles),
    ):
        resources.register(kinds)
    resources.register_bodies(ANSWERS, DEFAULTS)
    resources.register_lists(quotas.lists)
    resources.register_lists(vaults.lists(resources))
    resources.register_lists({"Microsoft.Resources/subscriptions/locations": _regions})
    storage.restore(resources, blobs)
    return quotas


def _regions(path: ArmPath, request: Request) -> list[Document]:  # noqa: ARG001
    """Return the regions of a subscription, and which of them have availability zones."""
    return [
        {
            "id": f"{path.id}/locations/{name}",
            "name": name,
            "availabilityZoneMappings": [
                {"logicalZone": str(zone), "physicalZone": f"{name}-az{zone}"}
                for zone in range(1, zones + 1)
            ],
        }
        for name, zones in ZONES.items()
    ]
