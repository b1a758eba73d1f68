"""The composition: all components of one stack, in the order in which Azure needs them.

Each step returns what later steps refer to; where Azure needs an order that no reference expresses,
the waiting step gets explicit dependencies. Existing resources are not declared, only referred to:
their endpoints and role assignments belong to the stack and are deleted with it.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pulumi
import pulumi_azure_native as azure_native
from pulumi_azure_native import resources

from infra.catalog import resource_ids
from infra.components.access import (
    Access,
    Identities,
    JobAccess,
    JobScopes,
    Scopes,
    WorkspaceAccess,
)
from infra.components.base import StackContext
from infra.components.compute import ClusterArgs, Clusters
from infra.components.grants import OwnRoles, Scope
from infra.components.monitoring import Monitoring, MonitoringArgs
from infra.components.nodes import NodeNetwork
from infra.components.private_link import PrivateEndpoint
from infra.components.workspace import Datastores, Workspace, WorkspaceArgs
from infra.composition import connectivity, observability, services, stack_outputs
from infra.composition.connectivity import Connectivity
from infra.composition.parts import Declared, Platform
from infra.composition.services import Services
from infra.leaf import load
from infra.naming import (
    DUTY_IDENTITIES,
    PREPARED_CONTAINER,
    RAW_CONTAINER,
    RESULTS_CONTAINER,
    IdentityRole,
)
from infra.resources import (
    ASSIGNMENT,
    LINK,
    LOGS,
    OWN_PROVIDER,
    REGISTRY,
    STORAGE,
    VAULT,
    WORKSPACE,
)
from infra.settings import Settings

KEPT: Final[Mapping[str, str]] = {
    STORAGE: "accountName",
    REGISTRY: "registryName",
    VAULT: "vaultName",
    LOGS: "workspaceName",
    WORKSPACE: "workspaceName",
    ASSIGNMENT: "roleAssignmentName",
    LINK: "virtualNetworkLinkName",
}
"""Names with a hash by kind. A resource that exists keeps its name, and so its data, however names
are formed now; everything else refers to the name that it has."""


def declare(settings: Settings) -> dict[str, pulumi.Input[Any]]:
    """Declare the whole platform.

    Returns:
        The stack's outputs by name: `platform` is `PlatformOutputs` as plain data, `data_account`
        the id of the account of the training data, for another stack's `storage.existing_data`, and
        `registry` that of the registry; `stack_outputs.shared_network` has the others.
    """
    pulumi.runtime.register_stack_transformation(_for_every_resource(settings))
    context, group_id = _context(settings)
    identities = Identities(context, _identity_roles(settings))
    monitoring = Monitoring(context, _monitoring(settings))
    platform_services = services.declare(settings, context, identities)
    connected = connectivity.declare(settings, context, platform_services)
    endpoints = connectivity.service_endpoints(settings, context, connected, platform_services)
    ready = [
        *platform_services.accounts_ready,
        *(resource for endpoint in endpoints.values() for resource in endpoint.ready),
    ]
    # A role that the owner has not assigned yet ends a deployment, so all else comes first.
    before_roles = [] if context.assigns else ready
    scopes = _scopes(platform_services, monitoring, endpoints, before_roles)
    nodes = _nodes(settings, connected)
    access = Access(context, identities, scopes, settings.people, nodes.grants)
    clusters = _clusters(settings, identities, nodes)
    shared = bool(settings.storage.existing_default or settings.vault.existing)
    workspace = Workspace(
        context,
        WorkspaceArgs(
            storage_id=platform_services.default_storage.id,
            vault_id=platform_services.vault.id,
            registry_id=platform_services.registry.id,
            insights_id=monitoring.insights.id if monitoring.insights else None,
            identity_id=identities.by_role["workspace"].id,
            nodes=nodes,
            build_cluster=next(
                (one.name for one in clusters if one.settings.duty == "build"), None
            ),
            public=settings.public,
            shared=shared,
            encryption=platform_services.encryption,
            depends_on=[*access.assignments["workspace"], *ready],
        ),
    ).workspace
    workspace_endpoint = connectivity.endpoint(
        settings, context, connected, "workspace", "workspace", workspace.id
    )
    principal = identities.principal("workspace")
    before_late_roles = [] if context.assigns else list(workspace_endpoint.ready)
    workspace_scope = Scope("workspace", workspace.id, before_late_roles)
    workspace_access = WorkspaceAccess(context, principal, workspace_scope, scopes, settings.people)
    usable = [*workspace_endpoint.ready, *workspace_access.assignments]
    opened = nodes.open(context, workspace, platform_services.data_storage, usable)
    before_clusters = [*usable, *access.job_assignments, *opened]
    created_clusters = Clusters(context, workspace, clusters, before_clusters).clusters
    last_datastore = Datastores(
        context,
        workspace,
        stack_outputs.datastore_containers(context, platform_services),
        [*usable, *platform_services.accounts_ready],
    ).last
    first_job = [*created_clusters, *last_datastore]
    containers = JobScopes.of(scopes.default_storage, workspace, first_job, isolated=shared)
    JobAccess(context, identities, containers)
    trunk = Platform(
        settings, context, group_id, platform_services, connected, monitoring, workspace
    )
    added = (load(leaf.declare)(trunk) for leaf in settings.leaves if leaf.declare is not None)
    declared: list[Declared] = [one for one in added if one is not None]
    observability.declare(trunk, declared, [*opened, *ready])
    return {
        "platform": stack_outputs.export(
            settings,
            context,
            platform_services,
            identities,
            clusters,
            workspace.name,
            monitoring.log_id,
            declared,
        ),
        "data_account": platform_services.data_storage.id,
        "registry": platform_services.registry.id,
        **stack_outputs.shared_network(settings, connected.network, group_id),
        **({} if context.assigns else {"roles": context.roles}),
    }


def _for_every_resource(settings: Settings) -> pulumi.ResourceTransformation:
    """Return the options that all resources have: the provider of the stack's subscription, and the
    inputs that keep the values that they have.
    """
    provider = azure_native.Provider(
        OWN_PROVIDER,
        subscription_id=settings.subscription.id,
        tenant_id=settings.subscription.tenant,
    )

    def transform(
        args: pulumi.ResourceTransformationArgs,
    ) -> pulumi.ResourceTransformationResult | None:
        if not args.type_.startswith("azure-native:"):
            return None
        kind = resource_ids.kind_of(args.type_)
        kept = [KEPT[kind]] if kind in KEPT else []
        if "tags" in args.props:
            kept += [f"tags[{json.dumps(tag)}]" for tag in settings.ignored_tags]
        # Links in a hub's zones have the provider of the hub's subscription.
        own = args.opts.provider or provider
        more = pulumi.ResourceOptions(provider=own, ignore_changes=kept or None)
        return pulumi.ResourceTransformationResult(
            args.props, pulumi.ResourceOptions.merge(args.opts, more)
        )

    return transform


def _context(settings: Settings) -> tuple[StackContext, pulumi.Input[str]]:
    """Declare the resource group, unless it exists; return the context of the stack and the group's
    id.
    """
    names = settings.names
    tags = {**settings.tags, "stack": settings.stack, "managed-by": "pulumi"}
    group: pulumi.Input[str] = names.resource_group
    group_id: pulumi.Input[str] | None = settings.resource_group.existing
    if group_id is None:
        # No lock: it would stop clusters from scaling up and down.
        declared = resources.ResourceGroup(
            "group", resource_group_name=group, location=settings.location, tags=tags
        )
        group, group_id = declared.name, declared.id
    context = StackContext(
        names=names,
        group=group,
        region=settings.location,
        subscription=settings.subscription.id,
        tenant=settings.subscription.tenant,
        tags=tags,
        protected=settings.protect,
        assigns=settings.roles == "declared",
        own_roles=settings.own_roles,
    )
    if context.assigns and context.own_roles:
        OwnRoles(context, group_id)
    return context, group_id


def _identity_roles(settings: Settings) -> list[IdentityRole]:
    # An identity that no cluster uses would keep its roles for any user who attaches it to
    # something.
    duties = {cluster.duty for cluster in settings.clusters.values()}
    needed: list[IdentityRole] = ["workspace"]
    needed += [role for duty, role in DUTY_IDENTITIES.items() if duty in duties]
    needed += ["serving"] if settings.serving else []
    return [*needed, *(settings.data_keys.identities if settings.data_keys else ())]


def _monitoring(settings: Settings) -> MonitoringArgs:
    monitoring, hidden = settings.monitoring, "monitor" in settings.endpoint_kinds
    return MonitoringArgs(
        retention_days=monitoring.retention_days,
        daily_cap_gb=monitoring.daily_cap_gb,
        public_ingestion=not hidden,
        public_query=not hidden or settings.public,
        public_reports=settings.public and not hidden,
        insights=monitoring.application_insights,
        existing=monitoring.existing_log_workspace,
    )


def _scopes(
    platform_services: Services,
    monitoring: Monitoring,
    endpoints: Mapping[str, PrivateEndpoint],
    ready: Sequence[pulumi.Resource],
) -> Scopes:
    default_storage = Scope("default-storage", platform_services.default_storage.id, ready)
    data_storage = Scope("data-storage", platform_services.data_storage.id, ready)
    of_results = platform_services.default_storage.ready
    of_data = platform_services.data_storage.ready
    return Scopes(
        default_storage=default_storage,
        data_storage=data_storage,
        results=default_storage.container("results", RESULTS_CONTAINER, of_results),
        raw=data_storage.container("raw", RAW_CONTAINER, of_data),
        prepared=data_storage.container("prepared", PREPARED_CONTAINER, of_data),
        vault=Scope("vault", platform_services.vault.id, ready),
        registry=Scope("registry", platform_services.registry.id, ready),
        insights=(
            Scope("insights", monitoring.insights.id, ready) if monitoring.insights else None
        ),
        default_endpoints=[
            Scope(f"endpoint-{part}", endpoints[part].endpoint.id, ready)
            for part in ("default-blob", "default-file")
            if part in endpoints
        ],
    )


def _nodes(settings: Settings, connected: Connectivity) -> NodeNetwork:
    elsewhere = settings.nodes
    if elsewhere is None:
        return NodeNetwork(connected.subnets)
    network: NodeNetwork = load(elsewhere.network)(settings)
    return network


def _clusters(settings: Settings, identities: Identities, nodes: NodeNetwork) -> list[ClusterArgs]:
    return [
        ClusterArgs(
            key=key,
            name=settings.cluster_name(key),
            settings=cluster,
            subnet=nodes.subnet(duty),
            identity_id=identities.by_role[identity_role].id,
        )
        for duty, identity_role in DUTY_IDENTITIES.items()
        for key, cluster in settings.clusters.items()
        if cluster.duty == duty
    ]
