"""Settings: everything that decides what a stack declares, as plain validated data.

One frozen dataclass per concern of the platform. The fields' names are the keys of a stack's
configuration, and their docstrings state effect, unit, and what cannot be changed afterwards.
`validation.load` reads them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from common.fields import Bounds, Formerly, Pattern
from infra import subnets
from infra.catalog.network_rules import VaultTag
from infra.naming import PRIORITIES, ClusterRole, Names
from infra.outputs import Profile

GUID = r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
Guid = Annotated[str, Pattern(GUID, "a GUID")]
Email = Annotated[str, Pattern(r"[^@\s]+@[^@\s]+\.[^@\s]+", "an e-mail address")]
SubscriptionGuid = Annotated[
    str,
    Pattern(
        GUID,
        "the GUID of the stack's subscription, or tenant; `make configure STACK=NAME` sets both to"
        " those that the Azure CLI is signed in to",
    ),
]
GROUP_ID = r"/subscriptions/[^/]+/resource[gG]roups/[^/]+"


def _id(kind: str, *, parent: str = "") -> Pattern:
    return Pattern(
        rf"(?i:{GROUP_ID}/providers/{kind}/[^/]+{parent})",
        f"a resource id /subscriptions/.../resourceGroups/.../providers/{kind}/...",
    )


GroupId = Annotated[
    str, Pattern(GROUP_ID, "a resource group's id, /subscriptions/.../resourceGroups/...")
]
KeyUri = Annotated[
    str, Pattern(r"https://[^/\s]+/keys/[^/\s]+/[^/\s]+", "https://VAULT/keys/NAME/VERSION")
]
NetworkId = Annotated[str, _id("Microsoft.Network/virtualNetworks")]
SubnetId = Annotated[str, _id("Microsoft.Network/virtualNetworks", parent="/subnets/[^/]+")]
StorageId = Annotated[str, _id("Microsoft.Storage/storageAccounts")]
RegistryId = Annotated[str, _id("Microsoft.ContainerRegistry/registries")]
VaultId = Annotated[str, _id("Microsoft.KeyVault/vaults")]
LogWorkspaceId = Annotated[str, _id("Microsoft.OperationalInsights/workspaces")]


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

    peer_with: tuple[NetworkId, ...] = ()
    """Ids of virtual networks to peer with. Their owners must create the peering of the other
    side."""

    peer_address_spaces: tuple[str, ...] = ()
    """Address ranges of the peered networks, which this network must not overlap."""

    existing: ExistingNetwork | None = None
    """Use this network instead of declaring one."""

    existing_dns_zones: GroupId | None = None
    """Resource group that already holds every private DNS zone, linked to the network; None
    declares zones and links."""

    certificate_zone: bool = False
    """Also declare privatelink.cert.api.azureml.ms; whether a workspace needs it is
    undocumented."""

    vault_service_tag: Annotated[VaultTag, Formerly("vault_tag")] = "AzureKeyVault"
    """Spelling of the key vault's service tag in the rule that a high-business-impact workspace
    needs: Azure's documents use both."""


@dataclass(frozen=True)
class ClusterSettings:
    """A compute cluster that scales from zero nodes."""

    size: str
    """Virtual machine size, one of the catalogue."""

    max_nodes: Annotated[int, Bounds(1, 65_000)]
    """Maximum number of nodes at once. They count against the quota whether they run or not.
    Azure's default limit is 100 per cluster; more, without RDMA, takes a support request."""

    idle_seconds_before_scale_down: Annotated[int, Bounds(60, 86_400), Formerly("idle_seconds")] = (
        120
    )
    """Seconds that a node stays without a job."""

    name: str | None = None
    """Name of the cluster; None generates one."""


@dataclass(frozen=True)
class ClustersSettings:
    """The clusters of the workspace."""

    gpu: ClusterSettings = ClusterSettings("Standard_ND40rs_v2", 2)
    """Low-priority GPU nodes, which Azure may pre-empt."""

    gpu_dedicated: ClusterSettings | None = None
    """A second GPU cluster whose nodes are not pre-empted, with a separate quota and a higher
    price."""

    preparation: ClusterSettings = ClusterSettings("Standard_D16ads_v5", 2)
    """CPU nodes that convert raw images into TFRecord shards; the only nodes that write shards."""

    build: ClusterSettings = ClusterSettings("Standard_D4ads_v5", 1)
    """CPU nodes that build images: the registry's own builder cannot reach a private registry."""

    @property
    def by_role(self) -> dict[ClusterRole, ClusterSettings]:
        """The stack's clusters by role."""
        clusters: dict[ClusterRole, ClusterSettings] = {"gpu": self.gpu}
        if self.gpu_dedicated is not None:
            clusters["gpu-dedicated"] = self.gpu_dedicated
        return clusters | {"preparation": self.preparation, "build": self.build}


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

    existing_log_workspace: LogWorkspaceId | None = None
    """Use this Log Analytics workspace instead of declaring one."""

    preempted_nodes: Annotated[int, Bounds(1)] = 1
    """Alert when this many nodes were pre-empted within an hour."""

    idle_minutes: Annotated[int, Bounds(5, 1440)] = 60
    """Alert when a cluster keeps idle nodes for this many minutes."""

    failed_jobs: Annotated[int, Bounds(1)] = 1
    """Alert when this many jobs failed within an hour."""

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


Region = Annotated[str, Pattern(r"[a-z][a-z0-9]+", "a region's short name, such as westeurope")]


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
    clusters: ClustersSettings = field(default_factory=ClustersSettings)
    storage: StorageSettings = field(default_factory=StorageSettings)
    registry: RegistrySettings = field(default_factory=RegistrySettings)
    vault: VaultSettings = field(default_factory=VaultSettings)
    encryption: EncryptionSettings = field(default_factory=EncryptionSettings)
    people: PeopleSettings = field(default_factory=PeopleSettings)
    monitoring: MonitoringSettings = field(default_factory=MonitoringSettings)

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

    def cluster_name(self, role: ClusterRole) -> str:
        """Return the name of one of the stack's clusters: the configured one, or a generated one.

        Raises:
            KeyError: the stack has no cluster in this role.
        """
        cluster = self.clusters.by_role[role]
        return cluster.name or self.names.cluster(role, cluster.size, PRIORITIES[role])

    @property
    def address_plan(self) -> subnets.AddressPlan:
        """The subnets of the declared network; not used with `network.existing`.

        Raises:
            AddressError: the subnets do not fit into the address space.
        """
        nodes = {role: cluster.max_nodes for role, cluster in self.clusters.by_role.items()}
        build = nodes.pop("build")
        return subnets.plan(
            self.network.address_space,
            max(self.network.training_nodes, sum(nodes.values())),
            max(self.network.build_nodes, build),
            jump=self.network.jump_subnet,
        )
