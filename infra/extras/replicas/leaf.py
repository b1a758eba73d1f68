"""Copies of the registry in other regions as a leaf: its settings, and the checks of these."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from infra.catalog import resource_ids
from infra.catalog.dns_zones import ENDPOINTS, Endpoint
from infra.leaf import Check, Leaf, Needed
from infra.setting_types import Region
from infra.settings import Settings

MOST: Final = 4
"""Most copies. Each takes an address of every subnet with an endpoint of the registry (Azure
Container Registry, "Connect privately to a registry"), and of 27 addresses of the subnet of
endpoints the others may take 23."""
KIND: Final = "containerregistry:Replication"
VERSION: Final = "2023-07-01"


@dataclass(frozen=True)
class ReplicaSettings:
    """The regions of the registry."""

    replicas: tuple[Region, ...] = ()
    """Other regions to keep a copy of the declared registry in, at most 4. Stacks there name the
    registry in `existing`, and their nodes pull from the copy. Each costs as much as the
    registry."""

    remote_reason: str = ""
    """Why nodes may pull images from another region: `existing` is there, and has no copy in the
    stack's region. Pulls then take longer, and their traffic between regions is billed."""


def _replicas(settings: Settings) -> Iterator[str]:
    own, existing = settings.of(ReplicaSettings), settings.registry.existing
    if own.replicas and existing is not None:
        yield (
            "registry.replicas: has no effect on registry.existing; set it in the stack that "
            "declares the registry"
        )
    if len(own.replicas) > MOST:
        yield (
            f"registry.replicas: {len(own.replicas)} regions, but the subnet of the private "
            f"endpoints has room for {MOST}; remove some"
        )
    for region, times in Counter(own.replicas).items():
        if times > 1:
            yield f"registry.replicas: contains {region} twice; remove one"
        if region == settings.location:
            yield (
                f"registry.replicas: {region} is the stack's own region, where the registry "
                "itself is; remove it"
            )
    if own.remote_reason and existing is None:
        yield "registry.remote_reason: has no effect without registry.existing; remove it"


def _needs(settings: Settings) -> tuple[Needed, ...]:
    """Return that an existing registry is in the stack's region, or has a copy there."""
    registry = settings.registry.existing
    if registry is None or settings.of(ReplicaSettings).remote_reason:
        return ()
    here = settings.location
    host = f"{resource_ids.name(registry).lower()}.{here}.data.azurecr.io"
    return (
        Needed(
            "services",
            "registry.existing",
            registry,
            VERSION,
            either={"location": (here,), "properties.dataEndpointHostNames": (host,)},
            cure=f"add {here} to registry.replicas of the stack that declares it (for another "
            "registry: az acr replication create), or say in registry.remote_reason why nodes may "
            "pull images from another region",
        ),
    )


def _endpoints(settings: Settings) -> Mapping[str, Endpoint]:
    own, copies = ENDPOINTS["registry"], len(settings.of(ReplicaSettings).replicas)
    return {"registry": replace(own, addresses=own.addresses + copies)}


LEAF: Final = Leaf(
    groups={"registry": ReplicaSettings},
    checks=(Check(("registry", "location"), _replicas),),
    needs=_needs,
    endpoints=_endpoints,
    declare="infra.extras.replicas.component:declare",
    facts="infra.extras.replicas.security:FACTS",
    types={
        KIND: "Microsoft.ContainerRegistry/registries/{registryName}/replications/{replicationName}"
    },
)
