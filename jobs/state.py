"""What an exported state of Pulumi's tells. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

_PROVIDER: Final = "pulumi:providers:"
_CREATING: Final = "creating"


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
