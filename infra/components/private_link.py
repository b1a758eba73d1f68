"""Private Link: a service's endpoint inside the network, and its name in private DNS."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
from pulumi_azure_native import network, privatedns

from infra.components.base import Component, StackContext

EVERYWHERE = "Global"
"""Zones and links have no region; without this the provider uses the resource group's."""


@dataclass(frozen=True)
class Zones:
    """Private DNS zones, as endpoints use them."""

    ids: Mapping[str, pulumi.Input[str]]
    """Ids of the zones by name."""
    links: Mapping[str, pulumi.Resource]
    """Network links of the zones by name; empty for zones that someone else links."""


def existing_zones(group: str, zones: Sequence[str]) -> Zones:
    """Return the zones of an existing resource group.

    Args:
        group: Id of the group.
        zones: Names of the zones.
    """
    return Zones(
        {zone: f"{group}/providers/Microsoft.Network/privateDnsZones/{zone}" for zone in zones}, {}
    )


class PrivateDns(Component):
    """The private DNS zones and their links to the network.

    A zone is declared once, whoever uses it: the blob zone serves both storage accounts and Azure
    Monitor. All links exist before the first endpoint is used.
    """

    def __init__(
        self,
        context: StackContext,
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
                resource_group_name=context.group,
                location=EVERYWHERE,
                tags=context.tags,
                opts=self.child_options(),
            )
            ids[zone] = declared.id
            links[zone] = privatedns.VirtualNetworkLink(
                f"link-{zone}",
                virtual_network_link_name=context.names.dns_link,
                private_zone_name=declared.name,
                resource_group_name=context.group,
                location=EVERYWHERE,
                registration_enabled=False,
                virtual_network=privatedns.SubResourceArgs(id=network_id),
                tags=context.tags,
                opts=self.child_options(),
            )
        self.zones = Zones(ids, links)
        self.register_outputs({})


ZONE_GROUP = "default"


@dataclass(frozen=True)
class PrivateEndpointArgs:
    """One private endpoint of one service."""

    service: str
    """Short name in the stack, such as `vault` or `data-blob`."""
    target: pulumi.Input[str]
    """Id of the service that it connects to."""
    group: str
    """Sub-resource of the service that it connects to, such as `blob`."""
    zones: Sequence[str]
    """Private DNS zones that hold its addresses, in one zone group."""
    subnet: pulumi.Input[str]


class PrivateEndpoint(Component):
    """A private endpoint with one zone group over all of its zones.

    Two endpoints for one service, with one zone each, would each resolve only half of its names.
    """

    def __init__(
        self,
        context: StackContext,
        args: PrivateEndpointArgs,
        zones: Zones,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(f"endpoint-{args.service}", opts)
        self.endpoint = network.PrivateEndpoint(
            args.service,
            private_endpoint_name=context.names.private_endpoint(args.service),
            custom_network_interface_name=context.names.network_interface(args.service),
            resource_group_name=context.group,
            location=context.region,
            subnet=network.SubnetArgs(id=args.subnet),
            private_link_service_connections=[
                network.PrivateLinkServiceConnectionArgs(
                    name=args.service,
                    private_link_service_id=args.target,
                    group_ids=[args.group],
                )
            ],
            tags=context.tags,
            # Azure sets these from the zone group; without this every refresh shows a change.
            opts=self.child_options(
                extra=pulumi.ResourceOptions(ignore_changes=["customDnsConfigs"])
            ),
        )
        self.zone_group = network.PrivateDnsZoneGroup(
            args.service,
            private_dns_zone_group_name=ZONE_GROUP,
            private_endpoint_name=self.endpoint.name,
            resource_group_name=context.group,
            private_dns_zone_configs=[
                network.PrivateDnsZoneConfigArgs(
                    name=zone.replace(".", "-"), private_dns_zone_id=zones.ids[zone]
                )
                for zone in args.zones
            ],
            opts=self.child_options(
                depends_on=[zones.links[zone] for zone in args.zones if zone in zones.links]
            ),
        )
        self.register_outputs({})

    @property
    def ready(self) -> list[pulumi.Resource]:
        """Resources that must exist before the service's name resolves to the endpoint."""
        return [self.endpoint, self.zone_group]
