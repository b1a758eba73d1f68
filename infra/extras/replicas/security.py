"""Facts for the security rules about the copies of the registry."""

from typing import Final

from infra.extras.replicas.leaf import ReplicaSettings
from infra.rules.facts import Facts
from infra.rules.invariants import zone_redundancy
from infra.rules.rule import Expected, one_of
from infra.settings import Settings

KIND: Final = "containerregistry:Replication"


def _region(settings: Settings) -> Expected:
    return one_of(*settings.of(ReplicaSettings).replicas, text="a region of registry.replicas")


FACTS = Facts(
    tables={
        "no-copies-outside": {KIND: {"location": _region, "replicationName": _region}},
        "as-declared": {KIND: {"zoneRedundancy": zone_redundancy}},
    },
    counts=lambda settings: {KIND: len(settings.of(ReplicaSettings).replicas)},
    references={KIND: {"registryName": ("registry",)}},
)
