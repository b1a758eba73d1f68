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
from infra.naming import DUTY_SUBNETS, Names, SubnetRole
from infra.network_settings import NetworkSettings
from infra.outputs import Duty, Priority, Profile
from infra.setting_types import (
    BastionId,
    Email,
    GroupId,
    Guid,
    KeyUri,
    LogWorkspaceId,
    PublicKey,
    Region,
    RegistryId,
    RepositoryUrl,
    Revision,
    StorageId,
    SubscriptionGuid,
    TimeOfDay,
    TimeZone,
    VaultId,
)


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
class AccessSettings:
    """A machine inside the network to work from, which Bastion leads to."""

    jump_machine: bool = False
    """Declare the machine, its subnet, and a Bastion unless `existing_bastion` is given. It has no
    public address, and turns itself off at night; Bastion is billed by the hour, day and night."""

    users: Guid | None = None
    """Entra group whose members may sign in to the machine and start it. Required with the
    machine."""

    administrators: Guid | None = None
    """Entra group whose members may also become root on it."""

    public_key: PublicKey | None = None
    """SSH public key that Azure demands of a Linux machine without a password. Required with the
    machine, though nobody signs in with it: cloud-init makes no account for it. Delete the private
    half."""

    repository: RepositoryUrl | None = None
    """Git repository, readable without signing in, that the machine clones to /opt/platform and
    sets up when it is created. None leaves it to its users. A change replaces the machine."""

    revision: Revision = "main"
    """Branch, tag or commit of `repository`."""

    size: Literal["Standard_D2as_v5", "Standard_D4as_v5", "Standard_D2s_v5", "Standard_D4s_v5"] = (
        "Standard_D2as_v5"
    )
    """Virtual machine size: those of series that support trusted launch (Azure Virtual Machines,
    "Trusted launch")."""

    off_at: TimeOfDay = "1900"
    """Time of day at which the machine is turned off, whoever works on it."""

    time_zone: TimeZone = "UTC"
    """Time zone of `off_at`, such as "W. Europe Standard Time"."""

    bastion_allowed_addresses: tuple[str, ...] = ()
    """Public IPv4 addresses or ranges that may open HTTPS to the declared Bastion; empty means the
    whole internet, where an Entra sign-in is all that is in the way."""

    existing_bastion: BastionId | None = None
    """Use this Bastion (Standard or Premium, with native client support) of a peered network
    instead of declaring one. `network.jump_access` lists its subnet's range, and its owner gives
    `users` and `administrators` Reader on it. They also need Reader on this stack's network, which
    the stack does not assign."""


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
    access: AccessSettings = field(default_factory=AccessSettings)
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
            jump=self.network.jump_subnet or self.access.jump_machine,
            bastion=self.access.jump_machine and self.access.existing_bastion is None,
        )
