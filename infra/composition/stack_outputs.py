"""The output of the stack: `PlatformOutputs`, resolved once Azure has created the resources."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pulumi

from infra import outputs
from infra.catalog import vm_sizes
from infra.components.access import Identities
from infra.components.base import StackContext
from infra.components.compute import ClusterArgs
from infra.components.network import Network
from infra.components.workspace import BlobContainer
from infra.composition.parts import Declared
from infra.composition.services import Services
from infra.naming import (
    DUTY_IDENTITIES,
    PREPARED_CONTAINER,
    RAW_CONTAINER,
    RESULTS_CONTAINER,
)
from infra.settings import Settings


def datastore_containers(context: StackContext, services: Services) -> dict[str, BlobContainer]:
    """Return the containers that the workspace has datastores for, by the datastores' names."""
    accounts = {
        RAW_CONTAINER: services.data_storage,
        PREPARED_CONTAINER: services.data_storage,
        RESULTS_CONTAINER: services.default_storage,
    }
    return {
        context.names.datastore(container): BlobContainer(
            account=account.name,
            name=container,
            subscription=account.subscription,
            group=account.group,
        )
        for container, account in accounts.items()
    }


def export(
    settings: Settings,
    context: StackContext,
    services: Services,
    identities: Identities,
    clusters: Sequence[ClusterArgs],
    workspace: pulumi.Input[str],
    log_workspace: pulumi.Input[str],
    declared: Sequence[Declared],
) -> pulumi.Output[dict[str, Any]]:
    """Return `PlatformOutputs` as plain data.

    Args:
        settings: Settings of the stack.
        context: Context of the stack.
        services: Services of the stack.
        identities: Identities of the stack.
        clusters: Clusters of the stack.
        workspace: Name of the workspace.
        log_workspace: Id of the log workspace.
        declared: Resources of the leaves.
    """
    values: dict[str, pulumi.Input[str]] = {
        "log_workspace": log_workspace,
        "workspace": workspace,
        "login_server": services.registry.address,
        "vault": services.vault.address,
        "data_account": services.data_storage.name,
        "data_endpoint": services.data_storage.address,
        "default_account": services.default_storage.name,
        "default_endpoint": services.default_storage.address,
        **{f"client_{role}": identity.client_id for role, identity in identities.by_role.items()},
    }
    if settings.serving:
        values["serving"] = identities.by_role["serving"].id
    for one in declared:
        values |= one.outputs

    def build(resolved: Mapping[str, str]) -> dict[str, Any]:
        more = {key: field for one in declared for key, field in one.export(resolved).items()}
        return outputs.to_dict(_outputs(settings, context, clusters, resolved, more))

    return pulumi.Output.all(**values).apply(build)


def shared_network(
    settings: Settings, network: Network | None, group_id: pulumi.Input[str]
) -> dict[str, pulumi.Input[str]]:
    """Return the facts with which another stack uses this one's network as its hub: nothing if the
    network belongs to others. `make configure HUB_OF=STACK` reads them.
    """
    if network is None:
        return {}
    plan = settings.address_plan
    found: dict[str, pulumi.Input[str]] = {
        "network": network.network.id,
        "address_space": str(plan.space),
    }
    if settings.network.dns_mode == "own":
        found |= {"zones": group_id, "endpoints_range": str(plan.subnets["endpoints"])}
    return found


def _outputs(
    settings: Settings,
    context: StackContext,
    clusters: Sequence[ClusterArgs],
    values: Mapping[str, str],
    more: Mapping[str, Any],
) -> outputs.PlatformOutputs:
    return outputs.PlatformOutputs(
        tenant_id=context.tenant,
        subscription_id=context.subscription,
        resource_group=context.names.resource_group,
        region=context.region,
        stack=settings.stack,
        workspace=values["workspace"],
        clusters={args.key: _cluster(args, values) for args in clusters},
        datastores=outputs.Datastores(
            raw=_datastore(context, values, "data", RAW_CONTAINER, "none"),
            prepared=_datastore(context, values, "data", PREPARED_CONTAINER, "read"),
            results=_datastore(context, values, "default", RESULTS_CONTAINER, "write"),
        ),
        identities=outputs.Identities(
            workspace=values["client_workspace"],
            training=values.get("client_training"),
            preparation=values.get("client_preparation"),
            build=values.get("client_build"),
        ),
        registry_login_server=values["login_server"],
        vault_uri=values["vault"],
        access=_access(settings),
        serving=(
            outputs.Serving(
                values["serving"], values["log_workspace"], values.get("action_group", "")
            )
            if settings.serving
            else None
        ),
        **more,
    )


def _cluster(args: ClusterArgs, values: Mapping[str, str]) -> outputs.Cluster:
    cluster, size = args.settings, vm_sizes.BY_NAME[args.settings.size]
    return outputs.Cluster(
        name=args.name,
        duty=cluster.duty,
        size=cluster.size,
        gpus_per_node=size.gpus,
        infiniband=size.infiniband,
        priority=cluster.azure_priority,
        max_nodes=cluster.max_nodes,
        identity_client_id=values[f"client_{DUTY_IDENTITIES[cluster.duty]}"],
    )


def _datastore(
    context: StackContext,
    values: Mapping[str, str],
    account: str,
    container: str,
    role: Literal["none", "read", "write"],
) -> outputs.Datastore:
    return outputs.Datastore(
        name=context.names.datastore(container),
        account=values[f"{account}_account"],
        blob_endpoint=values[f"{account}_endpoint"],
        container=container,
        role=role,
    )


def _access(settings: Settings) -> outputs.Access:
    if not settings.public:
        return outputs.Access("private", (), ())
    public: list[Literal["workspace", "default_storage", "data_storage"]] = ["workspace"]
    if settings.storage.existing_default is None:
        public.append("default_storage")
    if settings.storage.existing_data is None:
        public.append("data_storage")
    return outputs.Access("allowlisted", settings.allowed_addresses, tuple(public))
