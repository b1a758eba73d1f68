"""Read an exported Pulumi state. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from infra.outputs import PlatformOutputs

_PROVIDER: Final = "pulumi:providers:"
_CREATING: Final = "creating"
_CLUSTER: Final = "azure-native:machinelearningservices:Compute"
_CLUSTER_PREFIX: Final = "cluster-"
"""Prefix of the clusters' names in the Pulumi program; the name in the settings follows."""


@dataclass(frozen=True)
class StackResource:
    """A resource in the state of a stack."""

    urn: str
    kind: str
    """Type in Pulumi, without a version of Azure's API."""
    id: str
    """Azure resource id."""
    protected: bool

    @property
    def name(self) -> str:
        """Name of the resource in the Pulumi program."""
        return name_of(self.urn)


def unversioned(type_: str) -> str:
    """Return a type such as `azure-native:keyvault/v20260201:Vault` without the version."""
    return re.sub(r"/v\w+:", ":", type_)


def name_of(urn: str) -> str:
    """Return the name of a resource in the Pulumi program."""
    return urn.rpartition("::")[2]


def resources(state: Mapping[str, Any]) -> list[StackResource]:
    """Return the resources of an exported state that exist in Azure (no components, providers)."""
    exported = (state.get("deployment") or {}).get("resources") or []
    return [
        StackResource(
            urn=str(resource["urn"]),
            kind=unversioned(str(resource["type"])),
            id=str(resource.get("id") or ""),
            protected=bool(resource.get("protect")),
        )
        for resource in exported
        if resource.get("custom") and not str(resource["type"]).startswith(_PROVIDER)
    ]


def pending_creations(state: Mapping[str, Any]) -> list[str]:
    """Return the names of resources whose creation is pending, as after a killed deployment.

    Pulumi cannot know whether Azure has created them, and keeps each operation as pending until it
    is cleared.
    """
    operations = (state.get("deployment") or {}).get("pending_operations") or []
    return [
        name_of(str(operation["resource"]["urn"]))
        for operation in operations
        if operation["type"] == _CREATING
    ]


def clusters(stack_resources: Sequence[StackResource]) -> dict[str, str]:
    """Return the names of the clusters in Azure by those in the stack's settings."""
    return {
        resource.name.removeprefix(_CLUSTER_PREFIX).replace("-", "_"): resource.id.rpartition("/")[
            2
        ]
        for resource in stack_resources
        if resource.kind == _CLUSTER
    }


def replaced_clusters(
    stack_resources: Sequence[StackResource], planned: PlatformOutputs
) -> list[str]:
    """Return the names of existing clusters that the stack is to replace or delete."""
    return [
        name
        for key, name in clusters(stack_resources).items()
        if (cluster := planned.clusters.get(key)) is None or cluster.name != name
    ]
