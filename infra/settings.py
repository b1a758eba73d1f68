"""Settings: everything that decides what a stack declares, as plain validated data.

One frozen dataclass per concern of the platform. The fields' names are the keys of a stack's
configuration, and their docstrings state effect, unit, and what cannot be changed afterwards.
`validation.load` reads them.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Annotated, ClassVar, Final, Literal, TypeVar

from common.annotations import Bounds, Formerly
from infra import subnets
from infra.catalog import dns_zones
from infra.catalog.dns_zones import ENDPOINTS, Endpoint
from infra.catalog.roles import OwnRole
from infra.leaf import DataKeys, Leaf, Nodes, Subnet
from infra.naming import DUTY_SUBNETS, Names, SubnetRole
from infra.network_settings import NetworkSettings
from infra.outputs import Duty, Priority
from infra.setting_types import (
    Email,
    GroupId,
    Guid,
    LogWorkspaceId,
    Region,
    RegistryId,
    StorageId,
    SubscriptionGuid,
    VaultId,
)

T = TypeVar("T")


@dataclass(frozen=True)
class ClusterSettings:
    """A compute cluster that scales from zero nodes."""

    size: str
    """Virtual machine size, one of the catalogue."""

    max_nodes: Annotated[int, Bounds(1, 65_000)]
    """Maximum number of nodes at once. Each node that runs needs cores of the quota. Azure's
    default limit is 100 per cluster; more, without RDMA, takes a support request."""

    duty: Duty = "train"
    """Its purpose: its jobs act as the identity of this duty. train: nodes that read the
    prepared data; prepare: CPU nodes, which write them; build: CPU nodes that build images, because
    the registry's own builder cannot reach a private registry. A stack has exactly one build
    cluster."""

    priority: Literal["low", "dedicated"] = "dedicated"
    """low: Spot VMs (Azure's tier `low_priority`), with a quota of their own. Azure may pre-empt
    them, and their price moves with demand up to that of dedicated nodes; only jobs that resume
    gain from them."""

    idle_seconds_before_scale_down: Annotated[int, Bounds(60, 3600), Formerly("idle_seconds")] = 120
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
    """Azure Machine Learning's quota of Spot (tier `low_priority`) in the region, in cores
    over all sizes."""

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

    public_access: Literal["disabled", "denied"] = "disabled"
    """Answers of the accounts' public endpoints, with a profile that opens none. disabled: there
    are none. denied: they let only Azure's trusted services in, for when Azure Machine
    Learning cannot reach an account otherwise."""

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
class PeopleSettings:
    """Entra groups by object id; their members are managed in Entra."""

    publishers: Guid | None = None
    """Group that may write training data, besides the identity that prepares them."""

    scientists: Guid | None = None
    """Group that may submit jobs and read their results."""

    operators: Guid | None = None
    """Group that may create, start, resize, stop and delete computes."""

    on_existing_accounts: bool = True
    """Assign the groups' roles on accounts that the stack does not declare, too. false is for
    groups that have these roles already, from their owner or from the stack that declares the
    account: Azure refuses a role that a group has (RoleAssignmentExists)."""


@dataclass(frozen=True)
class MonitoringSettings:
    """Logs."""

    retention_days: Annotated[int, Bounds(30, 730)] = 30
    """Days that logs are kept."""

    daily_cap_gb: Annotated[float, Bounds(0.023)] = 1.0
    """Limit of log ingestion in GB a day, at least 0.023; logs beyond it are dropped."""

    application_insights: Annotated[bool, Formerly("insights")] = True
    """Declare Application Insights, without which Azure refuses to create a workspace ("Missing
    dependent resources in workspace json"). It keeps its data in the log workspace and costs
    nothing while nothing reports to it. false is for a workspace that was created without it."""

    storage_reads: bool = False
    """Log reads of blobs and files too. Training reads every shard in every epoch, and these logs
    can use up `daily_cap_gb` and displace all others."""

    existing_log_workspace: LogWorkspaceId | None = None
    """Use this Log Analytics workspace instead of declaring one."""


@dataclass(frozen=True)
class Contacts:
    """The people whom a stack notifies."""

    emails: tuple[Email, ...]
    """Recipients of all notifications."""


@dataclass(frozen=True)
class Settings:
    """Settings of one stack. `leaves.SETTINGS` adds those of the leaves."""

    leaves: ClassVar[tuple[Leaf, ...]] = ()
    """The leaves of the platform."""

    stack: str
    """Name of the Pulumi stack; comes from the engine and is not a key of the configuration."""

    prefix: str
    """Common beginning of all names: lower-case letters and digits, starting with a letter."""

    location: Region
    """Azure region of all resources."""

    budget: Contacts
    """Recipients of the stack's e-mails: alerts and messages of the budget."""

    subscription: SubscriptionSettings

    resource_group: ResourceGroupSettings = field(default_factory=ResourceGroupSettings)

    roles: Literal["declared", "existing"] = "declared"
    """declared: the stack assigns the roles that its identities and people need. existing: the
    owner of the subscription assigns them, as `make roles` lists them, and a deployment stops where
    one that it needs is missing."""

    name_seed: str = ""
    """Any text; another text gives other names with a hash to resources that do not exist yet. For
    when a name is taken, or still held by a deleted resource. What exists keeps its name, and
    clusters do not depend on it. With `roles: existing`, the names of the roles that the owner has
    assigned do depend on it."""

    profile: str = "private"
    """private: reachable from inside the network only. allowlisted: the workspace has a public
    endpoint with Entra sign-in, and both storage accounts are open to `allowed_addresses`. Leaves
    add others, which people reach as `private`."""

    allowed_addresses: tuple[str, ...] = ()
    """Public IPv4 addresses or ranges of the team's computers, for the allowlisted profile."""

    protect: bool = False
    """Whether the stack is production: Pulumi refuses to delete or replace data, vault and key,
    registry, logs and workspace, and a deleted vault cannot be purged."""

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
    people: PeopleSettings = field(default_factory=PeopleSettings)
    monitoring: MonitoringSettings = field(default_factory=MonitoringSettings)
    serving: bool = False
    """Declare the identity that endpoints of models act as; `python -m jobs deploy` needs it."""

    @cached_property
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
    def public(self) -> bool:
        """Whether people reach the platform from outside its network."""
        return self.profile == "allowlisted"

    @cached_property
    def nodes(self) -> Nodes | None:
        """Where nodes run; None for the subnets of the stack's network."""
        return next(
            (leaf.nodes[self.profile](self) for leaf in self.leaves if self.profile in leaf.nodes),
            None,
        )

    @cached_property
    def data_keys(self) -> DataKeys | None:
        """The keys of the services' data; None for those that Azure manages."""
        return next((keys for leaf in self.leaves if (keys := leaf.encryption(self))), None)

    @cached_property
    def address_plan(self) -> subnets.AddressPlan:
        """The subnets of the declared network; not used with `network.existing`.

        Raises:
            AddressError: the subnets do not fit into the address space.
        """
        addresses = {"endpoints": subnets.ENDPOINT_ADDRESSES}
        if self.nodes is None:
            nodes: Counter[SubnetRole] = Counter()
            for cluster in self.clusters.values():
                nodes[DUTY_SUBNETS[cluster.duty]] += cluster.max_nodes
            addresses = {
                "training": max(self.network.training_nodes, nodes["training"]),
                "build": max(self.network.build_nodes, nodes["build"]),
                **addresses,
            }
        more = self.leaf_subnets.values()
        return subnets.plan(
            self.network.address_space,
            addresses | {one.role: one.addresses for one in more if not one.last},
            {one.role: one.addresses for one in more if one.last},
        )

    @cached_property
    def leaf_subnets(self) -> dict[SubnetRole, Subnet]:
        """The subnets of the leaves in the declared network, by role."""
        return {one.role: one for leaf in self.leaves for one in leaf.subnets(self)}

    @cached_property
    def subnet_names(self) -> dict[SubnetRole, str]:
        """The names of the declared subnets, by role."""
        own = ("training", "build", "endpoints") if self.nodes is None else ("endpoints",)
        more = {role: one.name for role, one in self.leaf_subnets.items()}
        return {
            role: name or self.names.subnet(role)
            for role, name in (dict.fromkeys(own, "") | more).items()
        }

    @cached_property
    def own_roles(self) -> dict[str, OwnRole]:
        """The roles that the stack defines, by the GUID of the one of Azure that each replaces."""
        return {role: one for leaf in self.leaves for role, one in leaf.own_roles(self).items()}

    @cached_property
    def endpoint_kinds(self) -> dict[str, Endpoint]:
        """The kinds of private endpoints that the stack has, of the trunk and of the leaves."""
        more = {kind: one for leaf in self.leaves for kind, one in leaf.endpoints(self).items()}
        return ENDPOINTS | more

    @property
    def endpoint_addresses(self) -> int:
        """The number of addresses that the stack's private endpoints take of their subnet."""
        return dns_zones.addresses(self.endpoint_kinds, self.network.existing_endpoints)

    def of(self, kind: type[T]) -> T:
        """Return the group of settings of a class: how a leaf reads its own settings.

        Raises:
            LookupError: no group has this class.
        """
        for group in self._groups:
            if isinstance(group, kind):
                return group
        raise LookupError(f"the settings have no {kind.__name__}")

    @cached_property
    def _groups(self) -> tuple[object, ...]:
        return tuple(getattr(self, one.name) for one in fields(self))
