"""Facts for the security rules about the copies of the registry."""

from typing import Final

from infra.extras.replicas.leaf import ReplicaSettings
from infra.rules.expected import Expected, among
from infra.rules.facts import Facts
from infra.rules.invariants import ZONE_REDUNDANT

KIND: Final = "containerregistry:Replication"
REGION: Final[Expected] = among(
    lambda s: s.of(ReplicaSettings).replicas, "a region of registry.replicas"
)

FACTS = Facts(
    tables={
        "no-copies-outside": {KIND: {"location": REGION, "replicationName": REGION}},
        "as-declared": {KIND: {"zoneRedundancy": ZONE_REDUNDANT}},
    },
    counts=lambda settings: {KIND: len(settings.of(ReplicaSettings).replicas)},
    references={KIND: {"registryName": ("registry",)}},
)
