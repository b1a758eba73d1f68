"""Names of all resources, derived from prefix, stack and region, within Azure's rules.

Names that must be unique across Azure (`GLOBAL`) end in a short stable hash of prefix, stack,
region, seed and subscription, so that two teams with the same settings do not collide. Names that
must be unique within a subscription or a group end in a hash without the subscription, and those of
clusters, which are unique in their workspace, in one without the seed as well. The hashes have
letters only: Azure Machine Learning rejects computes whose name ends in a hyphen and digits.
Nothing is truncated: a name that is too long is an error.
"""

import hashlib
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Final

from infra.errors import NamingError
from infra.outputs import Duty, Priority

SubnetRole = str
"""Short name of a subnet in the stack: training, build, endpoints, or one of a leaf."""
IdentityRole = str
"""Short name of an identity: workspace, training, preparation, build, serving, or one of a leaf."""
IDENTITIES: Final = ("workspace", "training", "preparation", "build", "serving")
"""Identities of the trunk."""

DUTY_IDENTITIES: Final[Mapping[Duty, IdentityRole]] = {
    "train": "training",
    "prepare": "preparation",
    "build": "build",
}
"""Identity that the jobs of a cluster use, by the cluster's duty."""

DUTY_SUBNETS: Final[Mapping[Duty, SubnetRole]] = {
    "train": "training",
    "prepare": "training",
    "build": "build",
}
"""Subnet of a cluster's nodes, by its duty: only image builds may reach the internet."""

HASH_LETTERS = 6
PREFIX = r"[a-z][a-z0-9]*"
STACK = r"[a-z][a-z0-9]*(-[a-z0-9]+)*"
REGION = r"[a-z][a-z0-9]*"
CLUSTER = r"[a-zA-Z](?![a-zA-Z0-9-]*-\d+$)[a-zA-Z0-9-]{2,23}"
"""Names of Azure Machine Learning computes (ARM schema 2025-12-01)."""
CLUSTER_KEY = r"(?=.{1,17}$)[a-z][a-z0-9]*(_[a-z0-9]+)*"
"""Names of clusters in the settings: with a hyphen and the hash, a compute's name has at most 24
characters."""
GLOBAL = ("default_storage", "data_storage", "registry", "vault")
"""Properties of `Names` with names that no two resources in Azure share."""
RAW_CONTAINER = "raw"
PREPARED_CONTAINER = "prepared"
RESULTS_CONTAINER = "results"


@dataclass(frozen=True)
class Limit:
    """Azure's rule for the names of one kind of resource."""

    pattern: str
    shortest: int
    longest: int

    def allows(self, name: str) -> bool:
        fits = self.shortest <= len(name) <= self.longest
        return fits and re.fullmatch(self.pattern, name) is not None


ANY = Limit(r"[\w().-]*[\w()-]", 1, 260)
"""Names of action groups and of Application Insights."""
IN_NETWORK = Limit(r"[a-zA-Z0-9][\w.-]*\w", 1, 80)
"""Names of most resources of networks."""


LIMITS = {
    "resource_group": Limit(r"[\w().-]*[\w()-]", 1, 90),
    "virtual_network": Limit(r"[a-zA-Z0-9][\w.-]*\w", 2, 64),
    "nat_gateway": IN_NETWORK,
    "nat_address": IN_NETWORK,
    "service_endpoint_policy": IN_NETWORK,
    "log_workspace": Limit(r"[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9]", 4, 63),
    "insights": ANY,
    "default_storage": Limit(r"[a-z0-9]+", 3, 24),
    "data_storage": Limit(r"[a-z0-9]+", 3, 24),
    "registry": Limit(r"[a-zA-Z0-9]+", 5, 50),
    "vault": Limit(r"[a-zA-Z](?!.*--)[a-zA-Z0-9-]*[a-zA-Z0-9]", 3, 24),
    "workspace": Limit(r"[a-zA-Z0-9][\w-]*", 3, 33),
    "build_cluster": Limit(CLUSTER, 3, 24),
}
"""Rules by property of `Names`; from Azure's naming rules and, for vault, registry, storage
accounts and workspace, the ARM schemas of the API versions in use."""

RESERVED: Final = ("microsoft", "windows")
"""Words that no name of a resource with an endpoint contains (Azure Resource Manager, "Resolve
reserved resource name errors")."""
RESERVED_BEGINNINGS: Final = ("login",)
"""Words that no such name begins with (the same page)."""


@dataclass(frozen=True)
class Names:
    """Every name of one stack.

    Args:
        prefix: the team's or project's name: lower-case letters and digits, starting with a letter.
        stack: the Pulumi stack, one per environment.
        region: Azure's short name of the region, such as `westeurope`.
        seed: any text; changing it changes the hashes, except those of clusters. For when a name
            is taken by someone else, or still held by a vault or workspace that was deleted but not
            purged. What exists keeps its name (`composition.platform.KEPT`).
        subscription: id of the subscription, which only the globally unique names depend on.
        group: name of an existing resource group; empty for a group with a generated name.

    Raises:
        NamingError: with every malformed part and every name that Azure would reject.
    """

    prefix: str
    stack: str
    region: str
    seed: str = ""
    _: KW_ONLY
    subscription: str
    group: str = ""

    def __post_init__(self) -> None:
        problems = self._problems()
        if problems:
            raise NamingError(problems)

    def _problems(self) -> list[str]:
        forms = {"prefix": PREFIX, "stack": STACK, "region": REGION}
        descriptions = {
            "prefix": "lower-case letters and digits, starting with a letter",
            "stack": "lower-case letters, digits and single hyphens, starting with a letter",
            "region": "a region's short name, such as westeurope",
        }
        problems = [
            f"{part}: {getattr(self, part)!r} must be {descriptions[part]}"
            for part, form in forms.items()
            if not re.fullmatch(form, getattr(self, part))
        ]
        problems += self._reserved()
        if problems:
            return problems
        return self.too_long({kind: (getattr(self, kind), LIMITS[kind]) for kind in LIMITS})

    def _reserved(self) -> list[str]:
        base = f"{self.prefix}{self.stack}".replace("-", "")
        return [
            f"{'stack' if word in self.stack.replace('-', '') else 'prefix'}: with {self.prefix!r}"
            f" and {self.stack!r}, names of resources contain {word!r}, which Azure reserves;"
            " choose another"
            for word in RESERVED
            if word in base
        ] + [
            f"prefix: {self.prefix!r} begins with {word!r}, which Azure reserves; choose another"
            for word in RESERVED_BEGINNINGS
            if base.startswith(word)
        ]

    def too_long(self, limited: Mapping[str, tuple[str, Limit]]) -> list[str]:
        """Return the problem of the name that is most over its limit; empty if none is.

        Args:
            limited: names with their limits, by kind of resource.
        """
        names = {kind: name for kind, (name, _) in limited.items()}
        over = {
            kind: len(names[kind]) - limit.longest
            for kind, (_, limit) in limited.items()
            if not limit.allows(names[kind])
        }
        if not over:
            return []
        worst = max(over, key=lambda kind: over[kind])
        room = len(self.prefix) - over[worst]
        cure = (
            f"use a prefix of at most {room} characters" if room > 1 else "use a shorter stack name"
        )
        return [
            f"prefix: {self.prefix!r} with stack {self.stack!r} makes the {worst} name "
            f"{names[worst]!r} {len(names[worst])} characters long, but Azure allows "
            f"{limited[worst][1].longest}; {cure}"
        ]

    def hash(self, *more: str) -> str:
        """Return six letters that are stable for the same parts."""
        digest = hashlib.sha256("\n".join([*self._parts, *more]).encode()).digest()
        return "".join(chr(ord("a") + byte % 26) for byte in digest[:HASH_LETTERS])

    @property
    def _parts(self) -> tuple[str, ...]:
        return self.prefix, self.stack, self.region, self.seed

    @property
    def _unseeded(self) -> "Names":
        return replace(self, seed="") if self.seed else self

    @property
    def _global_hash(self) -> str:
        return self.hash(self.subscription.lower())

    @property
    def base(self) -> str:
        """Common beginning of the stack's names."""
        return f"{self.prefix}-{self.stack}"

    @property
    def resource_group(self) -> str:
        return self.group or f"{self.base}-rg"

    @property
    def virtual_network(self) -> str:
        return f"{self.base}-vnet"

    def subnet(self, role: SubnetRole) -> str:
        return f"snet-{role}"

    def network_security_group(self, role: SubnetRole) -> str:
        return f"{self.base}-nsg-{role}"

    @property
    def nat_gateway(self) -> str:
        return f"{self.base}-nat"

    @property
    def flow_log(self) -> str:
        return f"{self.base}-flow-log"

    @property
    def nat_address(self) -> str:
        return f"{self.base}-nat-ip"

    @property
    def service_endpoint_policy(self) -> str:
        return f"{self.base}-sep"

    def private_endpoint(self, service: str) -> str:
        """Return the name of the private endpoint of a service, such as `vault` or `data-blob`."""
        return f"{self.base}-pe-{service}"

    def network_interface(self, service: str) -> str:
        """Return the name of the network interface of a service's private endpoint."""
        return f"{self.base}-nic-{service}"

    @property
    def dns_link(self) -> str:
        """Name of the link from a private DNS zone to the network; the same in every zone."""
        return f"{self.base}-link"

    def identity(self, role: IdentityRole) -> str:
        return f"{self.base}-id-{role}"

    @property
    def log_workspace(self) -> str:
        return f"{self.base}-log-{self.hash()}"

    @property
    def insights(self) -> str:
        return f"{self.base}-appi"

    def diagnostics(self, service: str) -> str:
        return f"{self.base}-diag-{service}"

    @property
    def default_storage(self) -> str:
        """The workspace's default account: logs, results, snapshots, checkpoints."""
        return f"{self._plain}std{self._global_hash}"

    @property
    def data_storage(self) -> str:
        """The account of the training data."""
        return f"{self._plain}data{self._global_hash}"

    @property
    def registry(self) -> str:
        return f"{self._plain}acr{self._global_hash}"

    @property
    def vault(self) -> str:
        return f"{self.base}-kv-{self._global_hash}"

    @property
    def workspace(self) -> str:
        return f"{self.base}-ml-{self.hash()}"

    def cluster(self, key: str, duty: Duty, size: str, priority: Priority) -> str:
        """Return the name in Azure of the cluster that the settings call `key`.

        Azure keeps the old size when a cluster of the same name is recreated, so size and priority
        are in the hash: another size makes a new cluster. The build cluster's name is constant,
        because the workspace refers to it.
        """
        if duty == "build":
            return self.build_cluster
        key = key.replace("_", "-")
        short = {"gpu-dedicated": "gpu-ded", "preparation": "prep"}.get(key, key)
        return f"{short}-{self._unseeded.hash(key, size, priority)}"

    @property
    def build_cluster(self) -> str:
        """Name of the cluster that builds images: `image_build_compute` of the workspace."""
        return f"build-{self._unseeded.hash('build')}"

    def datastore(self, container: str) -> str:
        """Return the datastore's name of a container; only letters, digits and underscores."""
        return f"training_data_{container}"

    def role_assignment(self, scope: str, principal: str, role: str) -> str:
        """Return a GUID that is stable for the same scope, principal and role.

        Args:
            scope: Resource that the role is assigned on, as a name or id that is known before
                deployment.
            principal: Principal that gets the role, likewise.
            role: GUID of the role definition.
        """
        parts = [*self._parts, scope, principal, role]
        return str(uuid.uuid5(uuid.NAMESPACE_URL, "/".join(parts)))

    def role_definition(self, label: str) -> str:
        """Return the GUID of a role that the stack defines, by its short name."""
        return self.role_assignment(self.subscription.lower(), "definition", label)

    @property
    def _plain(self) -> str:
        return f"{self.prefix}{self.stack.replace('-', '')}"


@dataclass(frozen=True)
class Name:
    """The name of a leaf's resource; called with the names of a stack, it returns that name."""

    kind: str
    form: Callable[[Names], str]
    limit: Limit

    def __call__(self, names: Names) -> str:
        return self.form(names)


def problems(
    prefix: str, stack: str, region: str, seed: str = "", more: Sequence[Name] = ()
) -> tuple[str, ...]:
    """Return why these parts give no valid names; empty if they do.

    Args:
        prefix: as for `Names`, like the next three.
        stack: the Pulumi stack.
        region: Azure's short name of the region.
        seed: any text.
        more: names of the leaves' resources.
    """
    try:
        # The subscription changes letters of names, and never their form or length.
        names = Names(prefix, stack, region, seed, subscription="")
    except NamingError as error:
        return error.problems
    return tuple(names.too_long({one.kind: (one(names), one.limit) for one in more}))
