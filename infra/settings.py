"""Settings: everything that decides what a stack declares, as plain validated data.

One frozen dataclass a concern of the platform. The fields' names are the keys of a stack's
configuration, and their docstrings say what they decide, in which unit, and what cannot be changed
afterwards. `validation.load` reads them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from common.fields import Bounds, Formerly, Pattern
from infra import subnets
from infra.catalog.network_rules import VaultTag
from infra.naming import PRIORITIES, ClusterRole, Names
from infra.outputs import Profile

Guid = Annotated[str, Pattern(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", "a GUID")]
Email = Annotated[str, Pattern(r"[^@\s]+@[^@\s]+\.[^@\s]+", "an e-mail address")]
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
    """A virtual network of someone else, in the same subscription and region. Nothing of it is
    changed: its security groups, NAT, routes and DNS are its owner's.
    """

    virtual_network: NetworkId
    training_subnet: SubnetId
    """One free address a node; not delegated; both network policies off; a way out to the service
    tags that the platform's own rules name."""
    build_subnet: SubnetId
    """As training's, with a way out to package indexes."""
    endpoints_subnet: SubnetId
    """Takes the private endpoints."""


@dataclass(frozen=True)
class NetworkSettings:
    """The virtual network, and who reaches it."""

    address_space: str = "10.64.0.0/23"
    """Range of the virtual network. No part of 172.17.0.0/16, which nodes use for containers."""

    training_nodes: Annotated[int, Bounds(0, 10_000)] = 128
    """Least number of nodes that the training subnet has room for, whatever the clusters' sizes
    are today: Azure cannot move a subnet that is in use."""

    build_nodes: Annotated[int, Bounds(0, 1000)] = 11
    """Likewise of the build subnet."""

    jump_subnet: bool = False
    """A subnet for a machine to work from (a runner, a Bastion's target). The machine is yours."""

    peer_with: tuple[NetworkId, ...] = ()
    """Virtual networks to peer with, by id. The other side's peering is its owner's to make."""

    peer_address_spaces: tuple[str, ...] = ()
    """Address ranges of those networks, which ours must not overlap."""

    existing: ExistingNetwork | None = None
    """Take this network instead of declaring one."""

    existing_dns_zones: GroupId | None = None
    """Resource group that already holds every private DNS zone, linked to the network; none
    declares the zones and links."""

    certificate_zone: bool = False
    """Declare privatelink.cert.api.azureml.ms too; whether a workspace needs it is undocumented."""

    vault_service_tag: Annotated[VaultTag, Formerly("vault_tag")] = "AzureKeyVault"
    """Spelling of the key vault's service tag in the rule that a high-business-impact workspace
    needs: Azure's documents have both."""


@dataclass(frozen=True)
class ClusterSettings:
    """A compute cluster that grows from no node."""

    size: str
    """Virtual machine size from the catalogue."""

    max_nodes: Annotated[int, Bounds(1, 65_000)]
    """Most nodes at once, which count against the quota whether they run or not. Azure's default
    limit is 100 a cluster; more without RDMA is a matter of support."""

    idle_seconds_before_scale_down: Annotated[int, Bounds(60, 86_400), Formerly("idle_seconds")] = (
        120
    )
    """How long a node stays without a job."""

    name: str | None = None
    """A name of your own; none makes one."""


@dataclass(frozen=True)
class ClustersSettings:
    """The clusters of the workspace."""

    gpu: ClusterSettings = ClusterSettings("Standard_ND40rs_v2", 2)
    """Low-priority GPU nodes, which Azure may pre-empt."""

    gpu_dedicated: ClusterSettings | None = None
    """A twin whose nodes are not pre-empted, in a quota of its own and at a higher price."""

    preparation: ClusterSettings = ClusterSettings("Standard_D16ads_v5", 2)
    """CPU nodes that turn raw images into TFRecord shards; the only ones that write them."""

    build: ClusterSettings = ClusterSettings("Standard_D4ads_v5", 1)
    """CPU nodes that build images: the registry's own builder cannot reach a private one."""

    @property
    def by_role(self) -> dict[ClusterRole, ClusterSettings]:
        """The clusters that the stack has."""
        clusters: dict[ClusterRole, ClusterSettings] = {"gpu": self.gpu}
        if self.gpu_dedicated is not None:
            clusters["gpu-dedicated"] = self.gpu_dedicated
        return clusters | {"preparation": self.preparation, "build": self.build}


@dataclass(frozen=True)
class SubscriptionSettings:
    """What is known of the subscription and region; each fact that is given is checked against."""

    low_priority_cores: Annotated[int, Bounds(0)] | None = None
    """Azure Machine Learning's low-priority quota in the region, in cores over all sizes."""

    dedicated_cores: Mapping[str, int] = field(default_factory=dict)
    """Its dedicated quota in cores, by series as the catalogue names them."""

    sizes: tuple[str, ...] = ()
    """Sizes on offer: `az ml compute list-sizes --location REGION --query [].name`."""


@dataclass(frozen=True)
class StorageSettings:
    """Both storage accounts."""

    default_redundancy: Literal["LRS", "ZRS"] = "LRS"
    """Of the Standard account of logs, results, checkpoints and snapshots."""

    data_redundancy: Literal["LRS", "ZRS"] = "LRS"
    """Of the Premium account of the training data."""

    soft_delete_retention_days: Annotated[int, Bounds(1, 365), Formerly("deleted_days")] = 7
    """How long deleted blobs and containers can be brought back, and are paid for."""

    snapshot_retention_days: Annotated[int, Bounds(1, 36_500), Formerly("snapshot_days")] = 180
    """After which snapshots and logs of jobs are deleted."""

    cool_after_days: Annotated[int, Bounds(1, 36_500)] = 30
    """After which results move to the cool tier."""

    existing_default: StorageId | None = None
    """Take this account instead of declaring one: Standard, without hierarchical namespace."""

    existing_data: StorageId | None = None
    """Take this account for the training data instead of declaring one."""


@dataclass(frozen=True)
class RegistrySettings:
    """The container registry."""

    untagged_retention_days: Annotated[int, Bounds(0, 365), Formerly("untagged_days")] = 14
    """After which manifests without a tag are deleted."""

    zone_redundant: bool = False
    """Keep copies in several zones; cannot be changed later."""

    existing: RegistryId | None = None
    """Take this Premium registry instead of declaring one."""


@dataclass(frozen=True)
class VaultSettings:
    """The key vault."""

    soft_delete_retention_days: Annotated[int, Bounds(7, 90), Formerly("deleted_days")] = 7
    """How long a deleted vault can be brought back, and its name is taken. Cannot be changed."""

    purge_protection: bool = False
    """Nobody can purge a deleted vault before then. Cannot be switched off again."""

    existing: VaultId | None = None
    """Take this vault instead of declaring one: with roles, not access policies."""


@dataclass(frozen=True)
class EncryptionSettings:
    """Who holds the keys that data at rest are encrypted with."""

    customer_managed_keys: bool = False
    """Encrypt workspace, registry and storage accounts with a key of the vault. Cannot be switched
    off again, and the workspace then keeps paid resources in a second group."""

    key_uri: KeyUri | None = None
    """An existing key of `vault.existing`; none declares one."""


@dataclass(frozen=True)
class PeopleSettings:
    """Entra groups by object id; who is in them is managed there."""

    publishers: Guid | None = None
    """May write training data, beside the identity that prepares them."""

    scientists: Guid | None = None
    """May submit jobs and read their results."""

    operators: Guid | None = None
    """May start, resize and stop computes."""


@dataclass(frozen=True)
class MonitoringSettings:
    """Logs and alerts."""

    retention_days: Annotated[int, Bounds(30, 730)] = 30
    """How long logs are kept."""

    daily_cap_gb: Annotated[float, Bounds(0.023)] = 1.0
    """Logs taken in a day, in GB, at least 0.023; what is over it is dropped."""

    application_insights: Annotated[bool, Formerly("insights")] = False
    """Declare Application Insights for the workspace. Only online endpoints report to it; training
    and its alerts need the log workspace alone."""

    private_link: bool = False
    """Send logs and metrics through a private link scope. It takes over Azure Monitor's names in
    the whole network and whatever shares its DNS."""

    existing_log_workspace: LogWorkspaceId | None = None
    """Take this Log Analytics workspace instead of declaring one."""

    preempted_nodes: Annotated[int, Bounds(1)] = 1
    """Alert when so many nodes were pre-empted within an hour."""

    idle_minutes: Annotated[int, Bounds(5, 1440)] = 60
    """Alert when a cluster kept nodes for so long without a job."""

    failed_jobs: Annotated[int, Bounds(1)] = 1
    """Alert when so many jobs failed within an hour."""

    quota_percent: Annotated[int, Bounds(1, 100)] = 90
    """Alert when so much of the quota is in use."""


@dataclass(frozen=True)
class BudgetSettings:
    """A monthly budget. It tells people; it stops nothing."""

    amount: Annotated[float, Bounds(1)]
    """In the currency of the subscription's bill."""

    start: Annotated[
        str, Pattern(r"20\d\d-(0[1-9]|1[0-2])-01", "the first day of a month, such as 2026-12-01")
    ]
    """Azure takes a start in the current month or up to 12 months ahead, and none in the past, so
    it is written down once and then left alone."""

    emails: tuple[Email, ...]
    """Who is told, of the budget and of alerts."""

    actual_percent: tuple[Annotated[float, Bounds(0.01, 1000)], ...] = (80.0, 100.0)
    """Shares of the amount at which people are told what was spent."""

    forecast_percent: tuple[Annotated[float, Bounds(0.01, 1000)], ...] = (100.0,)
    """Shares at which they are told what the month will come to."""


Region = Annotated[str, Pattern(r"[a-z][a-z0-9]+", "a region's short name, such as westeurope")]


@dataclass(frozen=True)
class Settings:
    """One stack."""

    stack: str
    """Name of the Pulumi stack; comes from the engine and is no key of the configuration."""

    prefix: str
    """What all names begin with: lower-case letters and digits."""

    location: Region
    """Azure's region for everything."""

    budget: BudgetSettings

    name_seed: str = ""
    """Another text gives other names where names are unique on all of Azure: for when one is taken,
    or still held by something deleted."""

    profile: Profile = "private"
    """private: reachable from inside the network only. allowlisted: the workspace answers publicly
    after an Entra sign-in, and both storage accounts let `allowed_addresses` in."""

    allowed_addresses: tuple[str, ...] = ()
    """Public IPv4 addresses or ranges of the team's desks, for the allowlisted profile."""

    protect: bool = False
    """Refuse to delete or replace data, vault, registry and workspace, as in production."""

    tags: Mapping[str, str] = field(default_factory=dict)
    """On every resource that takes tags; `owner` and `cost-center` are required."""

    network: NetworkSettings = field(default_factory=NetworkSettings)
    clusters: ClustersSettings = field(default_factory=ClustersSettings)
    subscription: SubscriptionSettings = field(default_factory=SubscriptionSettings)
    storage: StorageSettings = field(default_factory=StorageSettings)
    registry: RegistrySettings = field(default_factory=RegistrySettings)
    vault: VaultSettings = field(default_factory=VaultSettings)
    encryption: EncryptionSettings = field(default_factory=EncryptionSettings)
    people: PeopleSettings = field(default_factory=PeopleSettings)
    monitoring: MonitoringSettings = field(default_factory=MonitoringSettings)

    @property
    def names(self) -> Names:
        """Every name of the stack."""
        return Names(self.prefix, self.stack, self.location, self.name_seed)

    def cluster_name(self, role: ClusterRole) -> str:
        """The name of one of the stack's clusters: its own, or one that is made.

        Raises:
            KeyError: the stack has no cluster in this role.
        """
        cluster = self.clusters.by_role[role]
        return cluster.name or self.names.cluster(role, cluster.size, PRIORITIES[role])

    @property
    def address_plan(self) -> subnets.AddressPlan:
        """The subnets of the declared network; `network.existing` has its own.

        Raises:
            AddressError: they do not fit into the address space.
        """
        nodes = {role: cluster.max_nodes for role, cluster in self.clusters.by_role.items()}
        build = nodes.pop("build")
        return subnets.plan(
            self.network.address_space,
            max(self.network.training_nodes, sum(nodes.values())),
            max(self.network.build_nodes, build),
            jump=self.network.jump_subnet,
        )
