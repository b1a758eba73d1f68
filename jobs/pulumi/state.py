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
class Declared:
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


def resources(state: Mapping[str, Any]) -> list[Declared]:
    """The resources of an exported state that stand for something in Azure."""
    found = (state.get("deployment") or {}).get("resources") or []
    return [
        Declared(
            urn=str(one["urn"]),
            kind=str(one["type"]),
            id=str(one.get("id") or ""),
            protected=bool(one.get("protect")),
        )
        for one in found
        if one.get("custom") and not str(one["type"]).startswith(_PROVIDER)
    ]


def half_made(state: Mapping[str, Any]) -> list[str]:
    """Names of what was being made when a deployment was killed.

    Pulumi cannot know whether Azure has made it, and keeps the question until somebody answers it.
    """
    found = (state.get("deployment") or {}).get("pending_operations") or []
    return [name_of(str(one["resource"]["urn"])) for one in found if one["type"] == _CREATING]


def clusters(declared: Sequence[Declared]) -> dict[str, str]:
    """Names of the clusters, by what they are for, such as gpu_dedicated."""
    return {
        one.name.removeprefix(_CLUSTER_PREFIX).replace("-", "_"): one.id.rpartition("/")[2]
        for one in declared
        if one.kind == _CLUSTER
    }


def replaced(declared: Sequence[Declared], planned: PlatformOutputs) -> list[str]:
    """Clusters that are there and are to be others.

    Args:
        declared: what Pulumi's state holds.
        planned: outputs of the stack, which name what is to be.
    """
    return [
        name
        for role, name in clusters(declared).items()
        if (cluster := getattr(planned.clusters, role, None)) is not None and cluster.name != name
    ]
