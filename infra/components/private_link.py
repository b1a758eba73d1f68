"""Private Link: a service's endpoint inside the network, and its name in private DNS."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
from pulumi_azure_native import Provider, network, privatedns

from infra.catalog import resource_ids
from infra.components.base import Component, StackContext

EVERYWHERE = "Global"
"""Zones and links have no region; without this the provider uses the resource group's."""


@dataclass(frozen=True)
class Zones:
    """Private DNS zones, as endpoints use them."""

    ids: Mapping[str, pulumi.Input[str]]
    """Ids of the zones by name."""
    links: Mapping[str, pulumi.Resource]
    """Links of the zones to the stack's network by name; empty for zones that someone else
    links."""


def existing_zones(
    group: str, zones: Sequence[str], links: Mapping[str, pulumi.Resource] | None = None
) -> Zones:
    """Return the zones of an existing resource group.

    Args:
        group: Id of the group.
        zones: Names of the zones.
        links: Links that the stack declares in these zones.
    """
    ids = {zone: f"{group}/providers/Microsoft.Network/privateDnsZones/{zone}" for zone in zones}
    return Zones(ids, links or {})


class PrivateDns(Component):
    """The private DNS zones, and their links to the network and its peers.

    A zone is declared once for all its users: the blob zone serves both storage accounts and Azure
    Monitor. All links exist before the first endpoint is used.
    """

    def __init__(
        self,
        context: StackContext,
        zones: Sequence[str],
        network_id: pulumi.Input[str],
        peers: Sequence[str] = (),
    ) -> None:
        super().__init__("dns")
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
            at = _LinkPlace(declared.name, context.group, context.names.dns_link)
            links[zone] = _link(context, f"link-{zone}", at, network_id, self.child_options())
            for peer in peers:
                to = f"to-{resource_ids.name(peer)}"
                at = _LinkPlace(declared.name, context.group, to)
                _link(context, f"link-{zone}-{to}", at, peer, self.child_options())
        self.zones = Zones(ids, links)
        self.register_outputs({"zones": ids})


class HubLinks(Component):
    """Links of existing private DNS zones to the network, in the zones' own resource group.

    The zones may be in another subscription, so the links have a provider of their own. Stacks of
    several teams share a zone, so the links' names contain the stack's hash.
    """

    def __init__(
        self, context: StackContext, group: str, zones: Sequence[str], network_id: pulumi.Input[str]
    ) -> None:
        super().__init__("hub-links")
        subscription, group_name, _ = resource_ids.parts(group)
        provider = Provider(
            "hub",
            subscription_id=subscription,
            tenant_id=context.tenant,
            opts=self.child_options(),
        )
        options = self.child_options(extra=pulumi.ResourceOptions(provider=provider))
        name = f"{context.names.dns_link}-{context.names.hash()}"
        self.links: dict[str, pulumi.Resource] = {
            zone: _link(
                context, f"link-{zone}", _LinkPlace(zone, group_name, name), network_id, options
            )
            for zone in zones
        }
        self.register_outputs({})


@dataclass(frozen=True)
class _LinkPlace:
    zone: pulumi.Input[str]
    group: pulumi.Input[str]
    name: str


def _link(
    context: StackContext,
    name: str,
    at: _LinkPlace,
    network_id: pulumi.Input[str],
    options: pulumi.ResourceOptions,
) -> privatedns.VirtualNetworkLink:
    return privatedns.VirtualNetworkLink(
        name,
        virtual_network_link_name=at.name,
        private_zone_name=at.zone,
        resource_group_name=at.group,
        location=EVERYWHERE,
        registration_enabled=False,
        virtual_network=privatedns.SubResourceArgs(id=network_id),
        tags=context.tags,
        opts=options,
    )


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
    depends_on: Sequence[pulumi.Resource] = ()
    """Resources that must exist before it."""


class PrivateEndpoint(Component):
    """A private endpoint with one zone group over all of its zones.

    Two endpoints for one service, with one zone each, would each resolve only half of its names.
    Without zones, an Azure Policy of the company records its names.
    """

    def __init__(
        self, context: StackContext, args: PrivateEndpointArgs, zones: Zones | None
    ) -> None:
        super().__init__(f"endpoint-{args.service}")
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
                depends_on=args.depends_on,
                extra=pulumi.ResourceOptions(ignore_changes=["customDnsConfigs"]),
            ),
        )
        self.ready: list[pulumi.Resource] = [self.endpoint]
        """Resources that must exist before the service's name resolves to the endpoint."""
        if zones is not None:
            self.ready.append(self._zone_group(context, args, zones))
        self.register_outputs({"endpoint": self.endpoint.id})

    def _zone_group(
        self, context: StackContext, args: PrivateEndpointArgs, zones: Zones
    ) -> network.PrivateDnsZoneGroup:
        return network.PrivateDnsZoneGroup(
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
