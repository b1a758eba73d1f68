"""Private DNS: the zones in which private endpoints write their addresses."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
from pulumi_azure_native import privatedns

from infra.components.base import Component, Place

EVERYWHERE = "Global"
"""Zones and links have no region; without this the provider fills in the resource group's."""


@dataclass(frozen=True)
class Zones:
    """Private DNS zones, as endpoints use them."""

    ids: Mapping[str, pulumi.Input[str]]
    """By name."""
    links: Mapping[str, pulumi.Resource]
    """Their links to the network by name; none of zones that someone else links."""


def existing_zones(group: str, zones: Sequence[str]) -> Zones:
    """Zones that a resource group of someone else holds.

    Args:
        group: its identifier.
        zones: their names.
    """
    return Zones(
        {zone: f"{group}/providers/Microsoft.Network/privateDnsZones/{zone}" for zone in zones}, {}
    )


class PrivateDns(Component):
    """The private DNS zones and their links to the network.

    A zone is declared once, whoever uses it: the blob zone serves both storage accounts and Azure
    Monitor. All links are made before the first endpoint is used.
    """

    def __init__(
        self,
        place: Place,
        zones: Sequence[str],
        network_id: pulumi.Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("dns", opts)
        ids: dict[str, pulumi.Input[str]] = {}
        links: dict[str, pulumi.Resource] = {}
        for zone in zones:
            declared = privatedns.PrivateZone(
                zone,
                private_zone_name=zone,
                resource_group_name=place.group,
                location=EVERYWHERE,
                tags=place.tags,
                opts=self.own(),
            )
            ids[zone] = declared.id
            links[zone] = privatedns.VirtualNetworkLink(
                f"link-{zone}",
                virtual_network_link_name=place.names.dns_link,
                private_zone_name=declared.name,
                resource_group_name=place.group,
                location=EVERYWHERE,
                registration_enabled=False,
                virtual_network=privatedns.SubResourceArgs(id=network_id),
                tags=place.tags,
                opts=self.own(),
            )
        self.zones = Zones(ids, links)
        self.register_outputs({})
