"""The copies of a registry."""

from pulumi_azure_native import containerregistry as registry

from infra.components.base import Component
from infra.composition.parts import Declared, Platform
from infra.extras.replicas.leaf import ReplicaSettings


def declare(platform: Platform) -> Declared | None:
    """Declare a copy in each region of the settings."""
    if platform.settings.of(ReplicaSettings).replicas:
        Replicas(platform)
    return None


class Replicas(Component):
    """The copies of the registry: as reachable and as redundant as the registry itself.

    Azure adds an address for each to every endpoint of the registry, and the zone groups record its
    name. So the endpoint exists first: the workspace waits for it.
    """

    def __init__(self, platform: Platform) -> None:
        super().__init__("replicas")
        context, settings = platform.context, platform.settings
        zones = registry.ZoneRedundancy
        declared: list[registry.Replication] = []
        for region in settings.of(ReplicaSettings).replicas:
            declared.append(
                registry.Replication(
                    f"replica-{region}",
                    replication_name=region,
                    registry_name=platform.services.registry.name,
                    resource_group_name=context.group,
                    location=region,
                    region_endpoint_enabled=True,
                    zone_redundancy=(
                        zones.ENABLED if settings.registry.zone_redundant else zones.DISABLED
                    ),
                    tags=context.tags,
                    # One at a time: each changes the endpoints of the registry.
                    opts=self.child_options(depends_on=[platform.workspace, *declared[-1:]]),
                )
            )
        self.register_outputs({})
