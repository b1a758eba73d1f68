"""The regions of a subscription, and which of them have availability zones."""

from typing import Final

from rehearsal.control_plane.arm_path import ArmPath
from rehearsal.control_plane.http_messages import Request
from rehearsal.control_plane.resource_manager import ListResources
from rehearsal.control_plane.store import Document

ZONES: Final = {
    "westeurope": 3,
    "northeurope": 3,
    "swedencentral": 3,
    "eastus": 3,
    "norwaywest": 0,
    "westus": 0,
}
"""Number of availability zones of some regions ("Azure regions list", Microsoft Learn)."""


def regions(path: ArmPath, request: Request) -> list[Document]:  # noqa: ARG001
    """Return the regions of a subscription."""
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


LISTS: Final[dict[str, ListResources]] = {"Microsoft.Resources/subscriptions/locations": regions}
