"""Settings: everything that decides what a stack declares, as plain validated data.

One frozen dataclass per concern of the platform. The fields' names are the keys of a stack's
configuration, and their docstrings state effect, unit, and what cannot be changed afterwards.
`validation.load` reads them.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal

from common.annotations import Bounds, Formerly, Pattern
from infra import subnets
from infra.catalog.network_rules import VaultTag
from infra.naming import DUTY_SUBNETS, Names, SubnetRole
from infra.outputs import Duty, Priority, Profile
from infra.setting_types import (
    Email,
    GroupId,
    Guid,
    KeyUri,
    LogWorkspaceId,
    NetworkId,
    Region,
    RegistryId,
    RouteTableId,
    StorageId,
    SubnetId,
    SubscriptionGuid,
    VaultId,
)

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
    """Subnet for the private endpoints."""


@dataclass(frozen=True)
class NetworkSettings:
    """The virtual network, and its connections to other networks."""

    address_space: str = "10.64.0.0/23"
    """Address range of the virtual network. Must not overlap 172.17.0.0/16, which nodes use for
    containers."""

    training_nodes: Annotated[int, Bounds(0, 10_000)] = 128
    """Number of nodes that the training subnet has room for, even if the clusters are smaller
    today: Azure cannot move a subnet that is in use."""

    build_nodes: Annotated[int, Bounds(0, 1000)] = 11
    """Number of nodes that the build subnet has room for, for the same reason."""

    jump_subnet: bool = False
    """Declare a subnet for a machine to work from (a CI runner, a Bastion target). The machine
    itself is not declared."""

    jump_access: tuple[str, ...] = ()
    """Private address ranges that may open SSH and RDP to the jump subnet, such as that of a hub's
    Bastion."""

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
    """Links from somebody else's zones to the network. declared: by this stack, in the resource
    group of the zones. existing: somebody else links them. Required unless the network exists
    already or has `dns_servers`."""

    existing_endpoints: Mapping[str, str] = field(default_factory=dict)
    """Address ranges of private endpoints that existing services have already, by service:
    default_storage, data_storage, registry or vault. The stack then declares neither an endpoint
    nor a record for that service. In a zone that others use, a second endpoint of a service would
    replace the record of the first."""

    vault_service_tag: Annotated[VaultTag, Formerly("vault_tag")] = "AzureKeyVault"
    """Spelling of the key vault's service tag in the rule that a high-business-impact workspace
    needs: Azure's documents use both."""

    @property
    def dns_mode(self) -> DnsMode:
        """`private_dns`, or what its absence means."""
        return self.private_dns or ("hub" if self.existing_dns_zones else "own")


@dataclass(frozen=True)
class ClusterSettings:
    """A compute cluster that scales from zero nodes."""

    size: str
    """Virtual machine size, one of the catalogue."""

    max_nodes: Annotated[int, Bounds(1, 65_000)]
    """Maximum number of nodes at once. They count against the quota whether they run or not.
    Azure's default limit is 100 per cluster; more, without RDMA, takes a support request."""

    duty: Duty = "train"
    """What it is for: its jobs act as the identity of this duty. train: nodes that read the
    prepared data; prepare: CPU nodes, which write them; build: CPU nodes that build images, because
    the registry's own builder cannot reach a private registry. A stack has exactly one build
    cluster."""

    priority: Literal["low", "dedicated"] = "dedicated"
    """low: cheaper nodes that Azure may pre-empt, with a quota of their own; only jobs that resume
    gain from them."""

    idle_seconds_before_scale_down: Annotated[int, Bounds(60, 86_400), Formerly("idle_seconds")] = (
        120
    )
    """Seconds that a node stays without a job."""

    name: str | None = None
    """Name of the cluster in Azure; None generates one."""

    @property
    def azure_priority(self) -> Priority:
        """The priority as Azure calls it."""
        return "LowPriority" if self.priority == "low" else "Dedicated"


DEFAULT_CLUSTERS: Final[Mapping[str, ClusterSettings]] = {
    "gpu": ClusterSettings("Standard_ND40rs_v2", 2, "train", "low"),
    "preparation": ClusterSettings("Standard_D16ads_v5", 2, "prepare"),
    "build": ClusterSettings("Standard_D4ads_v5", 1, "build"),
}


@dataclass(frozen=True)
class SubscriptionSettings:
    """The subscription that the stack belongs to, and its known limits in the region; the clusters
    are checked against those given.
    """

    id: SubscriptionGuid
    """Subscription of all resources. A deployed stack cannot move to another one."""

    tenant: SubscriptionGuid
    """Entra tenant of the subscription. Signed in to another tenant, nothing is deployed."""

    low_priority_cores: Annotated[int, Bounds(0)] | None = None
    """Azure Machine Learning's low-priority quota in the region, in cores over all sizes."""

    dedicated_cores: Mapping[str, int] = field(default_factory=dict)
    """Azure Machine Learning's dedicated quota in cores, by series as the catalogue names them."""

    sizes: tuple[str, ...] = ()
    """Available sizes: `az ml compute list-sizes --location REGION --query [].name`."""


@dataclass(frozen=True)
class ResourceGroupSettings:
    """The resource group of the stack."""

    existing: GroupId | None = None
    """Use this group of the same subscription instead of declaring one. The stack then declares
    nothing outside the group, and `teardown` does not delete it."""


@dataclass(frozen=True)
class StorageSettings:
    """Both storage accounts."""

    default_redundancy: Literal["LRS", "ZRS"] = "LRS"
    """Redundancy of the Standard account for logs, results, checkpoints and snapshots."""

    data_redundancy: Literal["LRS", "ZRS"] = "LRS"
    """Redundancy of the Premium account for the training data."""

    soft_delete_retention_days: Annotated[int, Bounds(1, 365), Formerly("deleted_days")] = 7
    """Days that deleted blobs and containers can be restored; they are billed meanwhile."""

    snapshot_retention_days: Annotated[int, Bounds(1, 36_500), Formerly("snapshot_days")] = 180
    """Days after which snapshots and logs of jobs are deleted."""

    cool_after_days: Annotated[int, Bounds(1, 36_500)] = 30
    """Days after which results move to the cool tier."""

    existing_default: StorageId | None = None
    """Use this account instead of declaring one: Standard, without hierarchical namespace."""

    existing_data: StorageId | None = None
    """Use this account for the training data instead of declaring one."""


@dataclass(frozen=True)
class RegistrySettings:
    """The container registry."""

    untagged_retention_days: Annotated[int, Bounds(0, 365), Formerly("untagged_days")] = 14
    """Days after which manifests without a tag are deleted."""

    zone_redundant: bool = False
    """Replicate across availability zones; cannot be changed later."""

    existing: RegistryId | None = None
    """Use this Premium registry instead of declaring one."""


@dataclass(frozen=True)
class VaultSettings:
    """The key vault."""

    soft_delete_retention_days: Annotated[int, Bounds(7, 90), Formerly("deleted_days")] = 7
    """Days that a deleted vault can be restored and its name stays taken. Cannot be changed
    later."""

    purge_protection: bool = False
    """Prevent purging a deleted vault before the retention ends. Cannot be disabled later."""

    existing: VaultId | None = None
    """Use this vault instead of declaring one; it must use roles, not access policies."""


@dataclass(frozen=True)
class EncryptionSettings:
    """Keys for encryption at rest."""

    customer_managed_keys: bool = False
    """Encrypt workspace, registry and storage accounts with a key of the vault. Cannot be disabled
    later, and the workspace then keeps paid resources in a second resource group."""

    key_uri: KeyUri | None = None
    """Existing key in `vault.existing`; None declares one."""


@dataclass(frozen=True)
class PeopleSettings:
    """Entra groups by object id; their members are managed in Entra."""

    publishers: Guid | None = None
    """Group that may write training data, besides the identity that prepares them."""

    scientists: Guid | None = None
    """Group that may submit jobs and read their results."""

    operators: Guid | None = None
    """Group that may start, resize and stop computes."""


@dataclass(frozen=True)
class MonitoringSettings:
    """Logs and alerts."""

    retention_days: Annotated[int, Bounds(30, 730)] = 30
    """Days that logs are kept."""

    daily_cap_gb: Annotated[float, Bounds(0.023)] = 1.0
    """Limit of log ingestion in GB a day, at least 0.023; logs beyond it are dropped."""

    application_insights: Annotated[bool, Formerly("insights")] = False
    """Declare Application Insights for the workspace. Only online endpoints report to it; training
    and its alerts need only the log workspace."""

    private_link: bool = False
    """Send logs and metrics through a private link scope. It overrides Azure Monitor's names in the
    whole network and in every network that shares its DNS."""

    storage_reads: bool = False
    """Log reads of blobs and files too. Training reads every shard in every epoch, and these logs
    can use up `daily_cap_gb` and displace all others."""

    existing_log_workspace: LogWorkspaceId | None = None
    """Use this Log Analytics workspace instead of declaring one."""

    preempted_nodes: Annotated[int, Bounds(1)] = 1
    """Alert when this many nodes were pre-empted within an hour."""

    idle_minutes: Annotated[int, Bounds(5, 1440)] = 60
    """Alert when a cluster keeps idle nodes for this many minutes."""

    failed_jobs: Annotated[int, Bounds(1)] = 1
    """Alert when this many jobs failed within an hour."""

    waiting_minutes: Annotated[int, Bounds(15, 1440)] = 60
    """Alert when a run has failed or was cancelled, and nobody has submitted it again for this many
    minutes, which no supervisor takes to do so."""

    ended_runs: bool = False
    """Alert of every run that ends, for teams without a webhook."""

    quota_percent: Annotated[int, Bounds(1, 100)] = 90
    """Alert when this percentage of the quota is in use."""


@dataclass(frozen=True)
class BudgetSettings:
    """A monthly budget. It notifies people; it stops nothing."""

    amount: Annotated[float, Bounds(1)]
    """Amount in the billing currency of the subscription."""

    start: Annotated[
        str, Pattern(r"20\d\d-(0[1-9]|1[0-2])-01", "the first day of a month, such as 2026-12-01")
    ]
    """First month of the budget. Azure accepts the current month or up to 12 months ahead, and no
    past month, so set it once and leave it."""

    emails: tuple[Email, ...]
    """Recipients of budget notifications and alerts."""

    actual_percent: tuple[Annotated[float, Bounds(0.01, 1000)], ...] = (80.0, 100.0)
    """Percentages of the amount at which actual spending is reported."""

    forecast_percent: tuple[Annotated[float, Bounds(0.01, 1000)], ...] = (100.0,)
    """Percentages of the amount at which forecast spending for the month is reported."""


@dataclass(frozen=True)
class Settings:
    """Settings of one stack."""

    stack: str
    """Name of the Pulumi stack; comes from the engine and is not a key of the configuration."""

    prefix: str
    """Common beginning of all names: lower-case letters and digits, starting with a letter."""

    location: Region
    """Azure region of all resources."""

    budget: BudgetSettings

    subscription: SubscriptionSettings

    resource_group: ResourceGroupSettings = field(default_factory=ResourceGroupSettings)

    name_seed: str = ""
    """Any text; changing it changes the names with a hash. For when a name is taken, or still held
    by a deleted resource. Storage accounts, registry and vault that exist keep their names."""

    profile: Profile = "private"
    """private: reachable from inside the network only. allowlisted: the workspace has a public
    endpoint with Entra sign-in, and both storage accounts are open to `allowed_addresses`."""

    allowed_addresses: tuple[str, ...] = ()
    """Public IPv4 addresses or ranges of the team's computers, for the allowlisted profile."""

    protect: bool = False
    """Refuse to delete or replace data, vault, registry and workspace, as in production."""

    tags: Mapping[str, str] = field(default_factory=dict)
    """Tags of every resource that can have tags; `owner` and `cost-center` are required."""

    ignored_tags: tuple[str, ...] = ()
    """Names of tags that others set on the resources, such as Azure Policy, and that a deployment
    leaves as they are."""

    network: NetworkSettings = field(default_factory=NetworkSettings)

    clusters: Mapping[str, ClusterSettings] = field(default_factory=lambda: DEFAULT_CLUSTERS)
    """The clusters by name: any number of them. A default that is given in part keeps the rest, and
    null removes it. Jobs choose one with `--cluster NAME`."""

    storage: StorageSettings = field(default_factory=StorageSettings)
    registry: RegistrySettings = field(default_factory=RegistrySettings)
    vault: VaultSettings = field(default_factory=VaultSettings)
    encryption: EncryptionSettings = field(default_factory=EncryptionSettings)
    people: PeopleSettings = field(default_factory=PeopleSettings)
    monitoring: MonitoringSettings = field(default_factory=MonitoringSettings)
    serving: bool = False
    """Declare the identity that endpoints of models act as; `python -m jobs deploy` needs it."""

    @property
    def names(self) -> Names:
        """Every name of the stack."""
        return Names(
            self.prefix,
            self.stack,
            self.location,
            self.name_seed,
            subscription=self.subscription.id,
            group=(self.resource_group.existing or "").rpartition("/")[2],
        )

    def cluster_name(self, key: str) -> str:
        """Return the name in Azure of one of the stack's clusters: the configured one, or a
        generated one.

        Raises:
            KeyError: the stack has no such cluster.
        """
        cluster = self.clusters[key]
        return cluster.name or self.names.cluster(
            key, cluster.duty, cluster.size, cluster.azure_priority
        )

    @property
    def address_plan(self) -> subnets.AddressPlan:
        """The subnets of the declared network; not used with `network.existing`.

        Raises:
            AddressError: the subnets do not fit into the address space.
        """
        nodes: Counter[SubnetRole] = Counter()
        for cluster in self.clusters.values():
            nodes[DUTY_SUBNETS[cluster.duty]] += cluster.max_nodes
        return subnets.plan(
            self.network.address_space,
            max(self.network.training_nodes, nodes["training"]),
            max(self.network.build_nodes, nodes["build"]),
            jump=self.network.jump_subnet,
        )
