"""What the security rules know of the copies of the registry."""

from typing import Final

from infra.extras.replicas.leaf import ReplicaSettings
from infra.rules.expected import ON, Expected, among, as_set
from infra.rules.facts import Facts

KIND: Final = "containerregistry:Replication"
REGION: Final[Expected] = among(
    lambda s: s.of(ReplicaSettings).replicas, "a region of registry.replicas"
)

FACTS = Facts(
    tables={
        "no-copies-outside": {KIND: {"location": REGION, "replicationName": REGION}},
        "as-declared": {
            KIND: {
                "regionEndpointEnabled": ON,
                "zoneRedundancy": as_set(
                    lambda s: "Enabled" if s.registry.zone_redundant else "Disabled"
                ),
            }
        },
    },
    abroad=frozenset({KIND}),
    counts=lambda settings: {KIND: len(settings.of(ReplicaSettings).replicas)},
    references={KIND: {"registryName": ("registry",)}},
    tagged=frozenset({KIND}),
)
