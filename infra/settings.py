"""Settings: everything that decides what a stack declares, as plain validated data.

The keys of a stack's configuration are the names of these fields. `Settings` from `load` are
valid: types, bounds, contradictions and what Azure would refuse are checked before anything is
created, and every problem is reported at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from common import fields
from common.fields import Pattern
from infra import subnets
from infra.errors import SettingsError
from infra.groups import (
    BudgetSettings,
    ClustersSettings,
    EncryptionSettings,
    MonitoringSettings,
    NetworkSettings,
    PeopleSettings,
    RegistrySettings,
    StorageSettings,
    SubscriptionSettings,
    VaultSettings,
)
from infra.naming import PRIORITIES, ClusterRole, Names
from infra.outputs import Profile
from infra.validation import contradictions

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


def load(values: Mapping[str, object]) -> Settings:
    """Read the configuration of a stack.

    Args:
        values: nested plain data by the names of the fields, with the stack's name as `stack`.

    Raises:
        SettingsError: with every unknown or missing key, wrong type, value out of bounds,
            contradiction, and name, size, address space or quota that Azure would refuse.
    """
    reading = fields.read(Settings, values)
    found = [*reading.problems, *contradictions(reading)]
    if found:
        raise SettingsError(found)
    return reading.value
