"""The network: its subnets, their security rules, and the way out: a NAT gateway or a firewall."""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
from pulumi_azure_native import network

from infra.catalog import resource_ids
from infra.catalog.network_rules import Rule
from infra.components.base import Component, StackContext
from infra.naming import SubnetRole

STORAGE_ENDPOINT = "Microsoft.Storage"
MACHINE_LEARNING_ALIAS = "/services/Azure/MachineLearning"
"""Alias for the accounts of Azure Machine Learning and Azure Batch themselves (Azure Machine
Learning, "Prevent data exfiltration"); an alias belongs to a definition of the service `Global`."""
WATCHERS_GROUP = "NetworkWatcherRG"
"""Resource group in which Azure declares Network Watchers by itself."""
IDLE_MINUTES = 10
"""Minutes after which the NAT gateway drops an idle connection; package downloads pause for
less."""


@dataclass(frozen=True)
class SubnetArgs:
    """One subnet."""

    role: SubnetRole
    name: str
    range: str
    rules: Sequence[Rule]
    leaves: bool
    """Whether it leaves through the NAT gateway or the route table."""


@dataclass(frozen=True)
class NetworkArgs:
    """The network of one stack."""

    space: str
    """Address range of the network."""
    subnets: Sequence[SubnetArgs]
    storage_ids: Sequence[pulumi.Input[str]]
    """Accounts that the training subnet may send data to, besides the service's own."""
    peers: Sequence[str] = ()
    """Ids of virtual networks to peer with."""
    remote_gateway: str | None = None
    """Id of the peer whose gateway the network uses."""
    dns_servers: Sequence[str] = ()
    """Addresses of DNS servers; empty means Azure's own."""
    route_table: str | None = None
    """Id of a route table to a firewall, in place of the NAT gateway."""
    flow_logs_to: str | None = None
    """Id of the storage account that keeps the network's flow logs."""


class Network(Component):
    """One virtual network.

    Subnets are part of the network's own declaration: declared separately, each would be removed by
    the network's next update and compete with the others for one lock. Nodes have no public
    address, and no subnet has Azure's default outbound access: the NAT gateway, or the firewall of
    an existing route table, is the only way out.
    On the training subnet a service endpoint policy restricts storage traffic to the stack's own
    accounts, although Azure Batch needs the whole region's storage tag open.
    """

    def __init__(self, context: StackContext, args: NetworkArgs) -> None:
        super().__init__("network")
        names = context.names
        self.groups = {
            one.role: network.NetworkSecurityGroup(
                f"nsg-{one.role}",
                network_security_group_name=names.network_security_group(one.role),
                resource_group_name=context.group,
                location=context.region,
                security_rules=[_rule(rule) for rule in one.rules],
                tags=context.tags,
                opts=self.child_options(),
            )
            for one in args.subnets
        }
        self.address: network.PublicIPAddress | None = None
        leaves = any(one.leaves for one in args.subnets)
        nat = self._nat(context) if leaves and not args.route_table else None
        trains = any(one.role == "training" for one in args.subnets)
        policy = self._storage_policy(context, args.storage_ids) if trains else None
        self.network = network.VirtualNetwork(
            "network",
            virtual_network_name=names.virtual_network,
            resource_group_name=context.group,
            location=context.region,
            address_space=network.AddressSpaceArgs(address_prefixes=[args.space]),
            dhcp_options=(
                network.DhcpOptionsArgs(dns_servers=list(args.dns_servers))
                if args.dns_servers
                else None
            ),
            subnets=[self._subnet(one, args.route_table, nat, policy) for one in args.subnets],
            virtual_network_peerings=[
                _peering(peer, gateway=peer.lower() == (args.remote_gateway or "").lower())
                for peer in args.peers
            ]
            or None,
            tags=context.tags,
            opts=self.child_options(),
        )
        self.subnets = {
            one.role: pulumi.Output.concat(self.network.id, "/subnets/", one.name)
            for one in args.subnets
        }
        if args.flow_logs_to is not None:
            self._flow_log(context, args.flow_logs_to)
        self.register_outputs({"network": self.network.id})

    def _flow_log(self, context: StackContext, storage: str) -> None:
        # Azure declares the watcher of a region with the first network there (Network Watcher,
        # "Enable or disable"). A flow log is part of the watcher, so it cannot be in the stack's
        # group.
        network.FlowLog(
            "flow-log",
            flow_log_name=context.names.flow_log,
            network_watcher_name=f"NetworkWatcher_{context.region}",
            resource_group_name=WATCHERS_GROUP,
            location=context.region,
            target_resource_id=self.network.id,
            storage_id=storage,
            enabled=True,
            format=network.FlowLogFormatParametersArgs(
                type=network.FlowLogFormatType.JSON, version=2
            ),
            tags=context.tags,
            opts=self.child_options(),
        )

    def _nat(self, context: StackContext) -> network.NatGateway:
        self.address = network.PublicIPAddress(
            "nat",
            public_ip_address_name=context.names.nat_address,
            resource_group_name=context.group,
            location=context.region,
            sku=network.PublicIPAddressSkuArgs(name=network.PublicIPAddressSkuName.STANDARD),
            public_ip_allocation_method=network.IPAllocationMethod.STATIC,
            tags=context.tags,
            opts=self.child_options(),
        )
        return network.NatGateway(
            "nat",
            nat_gateway_name=context.names.nat_gateway,
            resource_group_name=context.group,
            location=context.region,
            sku=network.NatGatewaySkuArgs(name=network.NatGatewaySkuName.STANDARD),
            public_ip_addresses=[network.SubResourceArgs(id=self.address.id)],
            idle_timeout_in_minutes=IDLE_MINUTES,
            tags=context.tags,
            opts=self.child_options(),
        )

    def _storage_policy(
        self, context: StackContext, storage_ids: Sequence[pulumi.Input[str]]
    ) -> network.ServiceEndpointPolicy:
        return network.ServiceEndpointPolicy(
            "training",
            service_endpoint_policy_name=context.names.service_endpoint_policy,
            resource_group_name=context.group,
            location=context.region,
            service_endpoint_policy_definitions=[
                network.ServiceEndpointPolicyDefinitionArgs(
                    name="own-accounts",
                    service=STORAGE_ENDPOINT,
                    service_resources=list(storage_ids),
                ),
                network.ServiceEndpointPolicyDefinitionArgs(
                    name="machine-learning",
                    service="Global",
                    service_resources=[MACHINE_LEARNING_ALIAS],
                ),
            ],
            tags=context.tags,
            opts=self.child_options(),
        )

    def _subnet(
        self,
        args: SubnetArgs,
        route_table: str | None,
        nat: network.NatGateway | None,
        policy: network.ServiceEndpointPolicy | None,
    ) -> network.SubnetArgs:
        training = args.role == "training"
        endpoints = args.role == "endpoints"
        policies = network.VirtualNetworkPrivateEndpointNetworkPolicies
        return network.SubnetArgs(
            name=args.name,
            address_prefix=args.range,
            default_outbound_access=False,
            network_security_group=network.NetworkSecurityGroupArgs(id=self.groups[args.role].id),
            nat_gateway=network.SubResourceArgs(id=nat.id) if nat and args.leaves else None,
            route_table=(
                network.RouteTableArgs(id=route_table) if route_table and args.leaves else None
            ),
            # Private endpoints obey their security group; nodes without a public address need both
            # of these policies disabled on their own subnet.
            private_endpoint_network_policies=(
                policies.NETWORK_SECURITY_GROUP_ENABLED if endpoints else policies.DISABLED
            ),
            private_link_service_network_policies=(
                network.VirtualNetworkPrivateLinkServiceNetworkPolicies.DISABLED
            ),
            service_endpoints=(
                [network.ServiceEndpointPropertiesFormatArgs(service=STORAGE_ENDPOINT)]
                if training
                else None
            ),
            service_endpoint_policies=(
                [network.ServiceEndpointPolicyArgs(id=policy.id)] if training and policy else None
            ),
        )


def _peering(peer: str, *, gateway: bool) -> network.VirtualNetworkPeeringArgs:
    return network.VirtualNetworkPeeringArgs(
        name=f"to-{resource_ids.name(peer)}",
        remote_virtual_network=network.SubResourceArgs(id=peer),
        allow_virtual_network_access=True,
        allow_forwarded_traffic=True,
        # This network has no gateway to offer; the peer's owner allows the use of theirs.
        allow_gateway_transit=False,
        use_remote_gateways=gateway,
    )


def _rule(rule: Rule) -> network.SecurityRuleArgs:
    source, sources = _one_or_more(rule.sources)
    destination, destinations = _one_or_more(rule.destinations)
    port, ports = _one_or_more(rule.ports)
    return network.SecurityRuleArgs(
        name=rule.name,
        priority=rule.priority,
        direction=network.SecurityRuleDirection(rule.direction),
        access=network.SecurityRuleAccess(rule.access),
        protocol=network.SecurityRuleProtocol(rule.protocol),
        source_address_prefix=source,
        source_address_prefixes=sources,
        source_port_range="*",
        destination_address_prefix=destination,
        destination_address_prefixes=destinations,
        destination_port_range=port,
        destination_port_ranges=ports,
    )


def _one_or_more(values: Sequence[str]) -> tuple[str | None, list[str] | None]:
    """Return values as Azure takes them: one in a property of its own, several in a list."""
    return (values[0], None) if len(values) == 1 else (None, list(values))
