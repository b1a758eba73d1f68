"""The composition: all components of one stack, in the order in which Azure needs them.

Each step hands on what the next ones refer to; where Azure needs an order that no reference shows,
the step that waits is told what for. What settings take from someone else is not declared, only
referred to: its endpoints and roles are the stack's own and go with it.
"""

from collections.abc import Mapping
from typing import Any

import pulumi
from pulumi_azure_native import authorization, resources

from infra.catalog import vm_sizes
from infra.components.access import Access, Identities, Scope, Scopes, WorkspaceAccess
from infra.components.base import Place
from infra.components.compute import ClusterArgs, Clusters
from infra.components.monitoring import Monitoring, MonitoringArgs
from infra.components.private_link import PrivateEndpoint
from infra.components.workspace import Datastores, Workspace, WorkspaceArgs
from infra.composition import connectivity, observability, services, stack_outputs
from infra.composition.connectivity import Connections
from infra.composition.services import Services
from infra.naming import ClusterRole, IdentityRole, Priority
from infra.settings import Settings

ACTS_AS: dict[ClusterRole, IdentityRole] = {
    "gpu": "training",
    "gpu-dedicated": "training",
    "preparation": "preparation",
    "build": "build",
}
"""The identity of each cluster's jobs."""


def declare(settings: Settings) -> pulumi.Output[dict[str, Any]]:
    """Declare everything.

    Returns:
        `PlatformOutputs` as plain data, to be exported.
    """
    place, group_id = _place(settings)
    identities = Identities(place, _duties(settings))
    monitoring = Monitoring(place, _monitoring(settings))
    used = services.declare(settings, place, identities)
    connected = connectivity.declare(settings, place, used)
    reached = connectivity.services(place, connected, used)
    if settings.monitoring.private_link:
        connectivity.monitor(place, connected, monitoring)
    scopes = _scopes(used, monitoring, reached)
    access = Access(place, identities, scopes, settings.people.publishers)
    clusters = _clusters(settings, place, identities, connected)
    workspace = Workspace(
        place,
        WorkspaceArgs(
            storage_id=used.default_storage.id,
            vault_id=used.vault.id,
            registry_id=used.registry.id,
            insights_id=monitoring.insights.id if monitoring.insights else None,
            identity_id=identities.of["workspace"].id,
            training_subnet=connected.subnets["training"],
            build_cluster=next(args.name for args in clusters if args.role == "build"),
            public=settings.profile == "allowlisted",
            shared=bool(settings.storage.existing_default or settings.vault.existing),
            key=used.key,
            after=[
                *access.given["workspace"],
                *(one for endpoint in reached.values() for one in endpoint.ready),
            ],
        ),
    ).workspace
    entrance = connectivity.endpoint(place, connected, "workspace", "workspace", workspace.id)
    principal = identities.principal("workspace")
    on_workspace = Scope("workspace", workspace.id)
    working = WorkspaceAccess(place, principal, on_workspace, scopes, settings.people)
    usable = [*entrance.ready, *working.given]
    Clusters(place, workspace, clusters, [*usable, *access.of_jobs])
    Datastores(place, workspace, stack_outputs.containers(place, used), [*usable, *used.containers])
    observability.declare(settings, place, group_id, used, connected.network, monitoring, workspace)
    return stack_outputs.export(settings, place, used, identities, clusters)


def _place(settings: Settings) -> tuple[Place, pulumi.Output[str]]:
    """Where everything lives, and the identifier of the resource group that it is."""
    who = authorization.get_client_config()
    names = settings.names
    tags = {**settings.tags, "stack": settings.stack, "managed-by": "pulumi"}
    # No lock: it would stop clusters from growing and shrinking.
    group = resources.ResourceGroup(
        "group", resource_group_name=names.resource_group, location=settings.location, tags=tags
    )
    place = Place(
        names=names,
        group=group.name,
        region=settings.location,
        subscription=who.subscription_id,
        tenant=who.tenant_id,
        tags=tags,
        protected=settings.protect,
    )
    return place, group.id


def _duties(settings: Settings) -> list[IdentityRole]:
    duties: list[IdentityRole] = ["workspace", "training", "preparation", "build"]
    return [*duties, "encryption"] if settings.encryption.customer_managed_keys else duties


def _monitoring(settings: Settings) -> MonitoringArgs:
    wanted = settings.monitoring
    return MonitoringArgs(
        retention_days=wanted.retention_days,
        daily_cap_gb=wanted.daily_cap_gb,
        public_ingestion=not wanted.private_link,
        public_query=not wanted.private_link or settings.profile == "allowlisted",
        insights=wanted.insights,
        existing=wanted.existing_log_workspace,
    )


def _scopes(
    used: Services, monitoring: Monitoring, reached: Mapping[str, PrivateEndpoint]
) -> Scopes:
    return Scopes(
        default_storage=Scope("default-storage", used.default_storage.id),
        data_storage=Scope("data-storage", used.data_storage.id),
        vault=Scope("vault", used.vault.id),
        registry=Scope("registry", used.registry.id),
        insights=Scope("insights", monitoring.insights.id) if monitoring.insights else None,
        default_endpoints=[
            Scope(f"endpoint-{part}", reached[part].endpoint.id)
            for part in ("default-blob", "default-file")
        ],
    )


def _clusters(
    settings: Settings, place: Place, identities: Identities, connected: Connections
) -> list[ClusterArgs]:
    found = []
    for role, wanted in settings.clusters.by_role.items():
        size = vm_sizes.find(wanted.size)
        assert size is not None  # settings are checked against the catalogue
        priority: Priority = "LowPriority" if role == "gpu" else "Dedicated"
        found.append(
            ClusterArgs(
                role=role,
                name=wanted.name or place.names.cluster(role, size.name, priority),
                size=size.name,
                priority=priority,
                max_nodes=wanted.max_nodes,
                idle_seconds=wanted.idle_seconds,
                subnet=connected.subnets[connectivity.SUBNETS[role]],
                acts_as=ACTS_AS[role],
                identity_id=identities.of[ACTS_AS[role]].id,
            )
        )
    return found
