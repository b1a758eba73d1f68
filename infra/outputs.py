"""PlatformOutputs: what training jobs need to know about the platform.

The contract between `infra/`, which exports it as the stack output `platform`, and `jobs/`, which
reads it. Plain, versioned data without secrets. Standard library only.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from common import fields
from common.annotations import Bounds, Pattern
from infra.errors import OutputsError

SCHEMA_VERSION = 2
"""Incremented when a field is removed or changes its meaning."""

RUNS_FOLDER = "runs"
"""Folder of the runs in the container of results: the only one there that runs may change."""
MODELS_FOLDER = "models"
"""Folder of registered models in the container of results, a folder for each version: the only one
there that preparations may read besides `CONTEXTS_FOLDER`, as they also score images."""
CONTEXTS_FOLDER = "environments"
"""Folder of images' build contexts in the container of results: the only one there that builds may
read."""

Profile = Literal["private", "allowlisted"]
Duty = Literal["train", "prepare", "build"]
"""The purpose of a cluster. It decides the identity of its jobs: train reads prepared data and
writes results, prepare reads raw data and registered models and writes prepared data and scores,
build builds images."""
Priority = Literal["LowPriority", "Dedicated"]
"""LowPriority is Azure's name of the tier `low_priority`, which is Spot since 31 March 2026: nodes
whose price moves with demand up to that of dedicated ones, and that may be pre-empted at any
time."""

Guid = Annotated[str, Pattern(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", "a GUID")]
Filled = Annotated[str, Pattern(r".+", "not empty")]
Https = Annotated[str, Pattern(r"https://[^\s?#]+", "an https:// address without a query")]
"""A query could carry a signature that grants access."""


@dataclass(frozen=True)
class Cluster:
    """A compute cluster of the workspace."""

    name: Filled
    """Name in Azure."""
    duty: Duty
    size: Filled
    """Virtual machine size, such as Standard_ND40rs_v2."""
    gpus_per_node: Annotated[int, Bounds(0)]
    infiniband: bool
    priority: Priority
    max_nodes: Annotated[int, Bounds(1)]
    identity_client_id: Guid
    """Client id of the identity that its jobs use."""

    def __str__(self) -> str:
        return f"{self.max_nodes} x {self.size}, {self.priority}"


@dataclass(frozen=True)
class Datastore:
    """A blob container that the workspace knows by name."""

    name: Filled
    account: Filled
    blob_endpoint: Https
    """Blob endpoint as Azure returns it, with a trailing slash."""
    container: Filled
    role: Literal["none", "read", "write"]
    """Access of the training identity."""


@dataclass(frozen=True)
class Datastores:
    """Datastores by their contents."""

    raw: Datastore
    """Images as they were published."""
    prepared: Datastore
    """TFRecord shards."""
    results: Datastore
    """Checkpoints, models and reports."""


@dataclass(frozen=True)
class Identities:
    """Client ids of the user-assigned identities."""

    workspace: Guid
    training: Guid | None = None
    """None if the stack has no cluster of this duty, as of the other two."""
    preparation: Guid | None = None
    build: Guid | None = None


@dataclass(frozen=True)
class Access:
    """How the platform can be reached."""

    profile: Profile
    allowed_addresses: tuple[str, ...]
    """Public ranges that both storage accounts let in; empty in the private profile."""
    public: tuple[Literal["workspace", "default_storage", "data_storage"], ...]
    """Services with a public endpoint; the workspace's requires an Entra sign-in."""


@dataclass(frozen=True)
class Serving:
    """What endpoints of models need; ids of resources."""

    identity: Filled
    """Identity that endpoints act as: it pulls images and reads registered models."""
    log_workspace: Filled
    action_group: Filled
    """Action group that alerts notify."""


@dataclass(frozen=True)
class JumpMachine:
    """A machine inside the network to work from; ids of resources."""

    machine: Filled
    bastion: Filled
    """Bastion that leads to it."""
    off_at: Filled
    """Time of day at which it is turned off, with its time zone."""

    @property
    def name(self) -> str:
        """Name of the machine."""
        return self.machine.rpartition("/")[2]


@dataclass(frozen=True)
class PlatformOutputs:
    """One deployed stack."""

    tenant_id: Guid
    subscription_id: Guid
    resource_group: Filled
    region: Filled
    stack: Filled
    workspace: Filled
    clusters: Mapping[str, Cluster]
    """Clusters by their names in the stack's settings."""
    datastores: Datastores
    identities: Identities
    registry_login_server: Filled
    vault_uri: Https
    access: Access
    serving: Serving | None = None
    """None if the stack is not set up for endpoints of models."""
    jump_machine: JumpMachine | None = None
    """None if the stack declares none."""
    schema_version: int = SCHEMA_VERSION

    @property
    def standing_costs(self) -> tuple[str, ...]:
        """Sentences about the jump machine, which costs money while no node runs; `make costs` has
        the rest of the platform.
        """
        machine = self.jump_machine
        if machine is None:
            return ()
        return (
            f"jump machine {machine.name}: costs money while it runs, off at {machine.off_at}; its "
            "Bastion costs money all the time",
        )


def to_dict(outputs: PlatformOutputs) -> dict[str, Any]:
    """Convert to nested plain data that JSON can hold and `from_dict` reads."""
    return fields.to_dict(outputs)


def from_dict(data: Mapping[str, object]) -> PlatformOutputs:
    """Read the stack's output.

    Raises:
        OutputsError: with every key that is unknown, missing or wrong; or with both versions, if
            another version of the project deployed the stack.
    """
    version = data.get("schema_version")
    if isinstance(version, int | float) and version != SCHEMA_VERSION:
        raise OutputsError(
            [
                f"schema_version: the stack exported version {version}, but this project reads "
                f"version {SCHEMA_VERSION}; use the project version that deployed the stack, or "
                "deploy the stack again with this one"
            ]
        )
    reading = fields.read(PlatformOutputs, data)
    missing = () if "schema_version" in data else ("schema_version: is missing",)
    if missing or reading.problems:
        raise OutputsError([*missing, *reading.problems])
    return reading.value
