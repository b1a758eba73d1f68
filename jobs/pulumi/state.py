"""What an exported state of Pulumi's tells. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from infra.outputs import PlatformOutputs

_PROVIDER: Final = "pulumi:providers:"
_CREATING: Final = "creating"
_CLUSTER: Final = "azure-native:machinelearningservices:Compute"
_CLUSTER_PREFIX: Final = "cluster-"
"""Of the program's own names of clusters; what they are for follows."""


@dataclass(frozen=True)
class StackResource:
    """A resource in the state of a stack."""

    urn: str
    kind: str
    id: str
    """Azure's."""
    protected: bool

    @property
    def name(self) -> str:
        """What the program calls it."""
        return name_of(self.urn)


def name_of(urn: str) -> str:
    """What the program calls a resource."""
    return urn.rpartition("::")[2]


def resources(state: Mapping[str, Any]) -> list[StackResource]:
    """The resources of an exported state that stand for something in Azure."""
    exported = (state.get("deployment") or {}).get("resources") or []
    return [
        StackResource(
            urn=str(resource["urn"]),
            kind=str(resource["type"]),
            id=str(resource.get("id") or ""),
            protected=bool(resource.get("protect")),
        )
        for resource in exported
        if resource.get("custom") and not str(resource["type"]).startswith(_PROVIDER)
    ]


def pending_creations(state: Mapping[str, Any]) -> list[str]:
    """Names of what was being made when a deployment was killed.

    Pulumi cannot know whether Azure has made it, and keeps the operation as pending until somebody
    clears it.
    """
    operations = (state.get("deployment") or {}).get("pending_operations") or []
    return [
        name_of(str(operation["resource"]["urn"]))
        for operation in operations
        if operation["type"] == _CREATING
    ]


def clusters(stack_resources: Sequence[StackResource]) -> dict[str, str]:
    """Names of the clusters, by what they are for, such as gpu_dedicated."""
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
    """Names of the clusters that are there and are to be others.

    Args:
        stack_resources: what Pulumi's state holds.
        planned: outputs of the stack, which name what is to be.
    """
    return [
        name
        for role, name in clusters(stack_resources).items()
        if (cluster := getattr(planned.clusters, role, None)) is not None and cluster.name != name
    ]
