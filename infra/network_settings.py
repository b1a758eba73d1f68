"""Settings of the network: its own, or one that exists already."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from common.annotations import Bounds, Formerly
from infra.catalog.network_rules import ServiceTraffic, VaultTag
from infra.setting_types import GroupId, NetworkId, RouteTableId, StorageId, SubnetId

DnsMode = Literal["own", "hub", "policy"]


@dataclass(frozen=True)
class ExistingNetwork:
    """A virtual network that exists already, in the same subscription and region. The stack changes
    nothing in it: security groups, NAT, routes and DNS are up to its owner.
    """

    virtual_network: NetworkId
    training_subnet: SubnetId
    """Subnet of the training nodes: one free address per node; not delegated; both network policies
    disabled; outbound access to the service tags that the platform's own rules name."""
    build_subnet: SubnetId
    """Subnet for image builds: as for training, with outbound access to package indexes."""
    endpoints_subnet: SubnetId
    """Subnet for the private endpoints: 9 free addresses, and 13 more with
    `monitoring.private_link`."""


@dataclass(frozen=True)
class NetworkSettings:
    """The virtual network, and its connections to other networks."""

    address_space: str = "10.64.0.0/23"
    """Address range of the virtual network. Must not overlap 172.17.0.0/16, which nodes use for
    containers; nor may `peer_address_spaces`, `dns_servers` and `existing_endpoints`."""

    training_nodes: Annotated[int, Bounds(0, 10_000)] = 128
    """Number of nodes that the training subnet has room for, even if the clusters are smaller
    today: Azure cannot move a subnet that is in use."""

    build_nodes: Annotated[int, Bounds(0, 1000)] = 11
    """Number of nodes that the build subnet has room for, for the same reason."""

    peer_with: tuple[NetworkId, ...] = ()
    """Ids of virtual networks to peer with. Their owners must create the peering of the other
    side."""

    peer_address_spaces: tuple[str, ...] = ()
    """Address ranges of the peered networks, and of networks behind them, such as an office behind
    a gateway. The private endpoints accept HTTPS from them, and this network must not overlap
    them."""

    remote_gateway: NetworkId | None = None
    """Network of `peer_with` whose VPN or ExpressRoute gateway this network uses. Its owner must
    first create the peering of the other side with gateway transit."""

    dns_servers: tuple[str, ...] = ()
    """Addresses of the network's DNS servers, such as a hub's resolver; empty means Azure's own.
    They must resolve the private DNS zones."""

    route_table: RouteTableId | None = None
    """Existing route table with a default route to a firewall, in the stack's subscription and
    region. It replaces the NAT gateway and its public address."""

    flow_logs_to: StorageId | None = None
    """Existing storage account in the same region that keeps flow logs of the network. They belong
    to the region's Network Watcher, in the resource group NetworkWatcherRG."""

    existing: ExistingNetwork | None = None
    """Use this network instead of declaring one."""

    private_dns: DnsMode | None = None
    """Where the endpoints' names are recorded. own: in zones that the stack declares, and links to
    its network and every network of `peer_with`. hub: in the zones of `existing_dns_zones`. policy:
    wherever an Azure Policy of the company records them. None means hub with `existing_dns_zones`,
    and own without."""

    existing_dns_zones: GroupId | None = None
    """Resource group that already holds every private DNS zone."""

    dns_links: Literal["declared", "existing"] | None = None
    """Links from existing zones to the network. declared: by this stack, in the resource group of
    the zones. existing: the zones' owner links them. Required unless the network exists
    already or has `dns_servers`."""

    existing_endpoints: Mapping[str, str] = field(default_factory=dict)
    """Address ranges of private endpoints that existing services have already, by service:
    default_storage, data_storage, registry or vault. The stack then declares neither an endpoint
    nor a record for that service. In a zone that others use, a second endpoint of a service would
    replace the record of the first."""

    vault_service_tag: Annotated[VaultTag, Formerly("vault_tag")] = "AzureKeyVault"
    """Spelling of the key vault's service tag in the rule that a high-business-impact workspace
    needs: Azure's documents use both."""

    storage_over_smb: bool = False
    """Let nodes reach the service tag of the region's storage accounts on port 445 (SMB) besides
    443. Azure Machine Learning has refused clusters without public addresses for lack of this rule
    ("missing the following rules"), and its documents no longer list it. The training subnet still
    reaches the stack's own accounts and the service's only."""

    @property
    def service_traffic(self) -> ServiceTraffic:
        """What these settings decide of the traffic with Azure's services."""
        return ServiceTraffic(self.vault_service_tag, self.storage_over_smb)

    @property
    def dns_mode(self) -> DnsMode:
        """`private_dns`, or the meaning of its absence."""
        return self.private_dns or ("hub" if self.existing_dns_zones else "own")
