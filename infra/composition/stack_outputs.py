"""What the stack exports: `PlatformOutputs`, as soon as Azure has said what it is made of."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pulumi

from infra import outputs
from infra.catalog import vm_sizes
from infra.components.access import Identities
from infra.components.base import Place
from infra.components.compute import ClusterArgs
from infra.components.workspace import Container
from infra.composition.services import Services
from infra.naming import PREPARED_CONTAINER, RAW_CONTAINER, RESULTS_CONTAINER
from infra.settings import Settings


def containers(place: Place, used: Services) -> dict[str, Container]:
    """The containers that the workspace knows as datastores, by the datastores' names."""
    holders = {
        RAW_CONTAINER: used.data_storage,
        PREPARED_CONTAINER: used.data_storage,
        RESULTS_CONTAINER: used.default_storage,
    }
    return {
        place.names.datastore(container): Container(
            account=holder.name,
            name=container,
            subscription=holder.subscription,
            group=holder.group,
        )
        for container, holder in holders.items()
    }


def export(
    settings: Settings,
    place: Place,
    used: Services,
    identities: Identities,
    clusters: Sequence[ClusterArgs],
) -> pulumi.Output[dict[str, Any]]:
    """`PlatformOutputs` as plain data."""
    values: dict[str, pulumi.Input[str]] = {
        "workspace": place.names.workspace,
        "login_server": used.registry.address,
        "vault": used.vault.address,
        "data_account": used.data_storage.name,
        "data_endpoint": used.data_storage.address,
        "default_account": used.default_storage.name,
        "default_endpoint": used.default_storage.address,
        **{f"client_{duty}": one.client_id for duty, one in identities.of.items()},
    }

    def build(found: Mapping[str, str]) -> dict[str, Any]:
        return outputs.to_dict(_outputs(settings, place, clusters, found))

    return pulumi.Output.all(**values).apply(build)


def _outputs(
    settings: Settings, place: Place, clusters: Sequence[ClusterArgs], found: Mapping[str, str]
) -> outputs.PlatformOutputs:
    by_role = {args.role: _cluster(args, found) for args in clusters}
    return outputs.PlatformOutputs(
        tenant_id=place.tenant,
        subscription_id=place.subscription,
        resource_group=place.names.resource_group,
        region=place.region,
        stack=settings.stack,
        workspace=found["workspace"],
        clusters=outputs.Clusters(
            gpu=by_role["gpu"],
            preparation=by_role["preparation"],
            build=by_role["build"],
            gpu_dedicated=by_role.get("gpu-dedicated"),
        ),
        datastores=outputs.Datastores(
            raw=_datastore(place, found, "data", RAW_CONTAINER, "read"),
            prepared=_datastore(place, found, "data", PREPARED_CONTAINER, "read"),
            results=_datastore(place, found, "default", RESULTS_CONTAINER, "write"),
        ),
        identities=outputs.Identities(
            workspace=found["client_workspace"],
            training=found["client_training"],
            preparation=found["client_preparation"],
            build=found["client_build"],
        ),
        registry_login_server=found["login_server"],
        vault_uri=found["vault"],
        access=_access(settings),
    )


def _cluster(args: ClusterArgs, found: Mapping[str, str]) -> outputs.Cluster:
    size = vm_sizes.BY_NAME[args.size]
    return outputs.Cluster(
        name=args.name,
        size=args.size,
        gpus_per_node=size.gpus,
        infiniband=size.infiniband,
        priority=args.priority,
        max_nodes=args.max_nodes,
        identity_client_id=found[f"client_{args.acts_as}"],
    )


def _datastore(
    place: Place,
    found: Mapping[str, str],
    account: str,
    container: str,
    role: Literal["read", "write"],
) -> outputs.Datastore:
    return outputs.Datastore(
        name=place.names.datastore(container),
        account=found[f"{account}_account"],
        blob_endpoint=found[f"{account}_endpoint"],
        container=container,
        role=role,
    )


def _access(settings: Settings) -> outputs.Access:
    if settings.profile == "private":
        return outputs.Access("private", (), ())
    public: list[Literal["workspace", "default_storage", "data_storage"]] = ["workspace"]
    if settings.storage.existing_default is None:
        public.append("default_storage")
    if settings.storage.existing_data is None:
        public.append("data_storage")
    return outputs.Access("allowlisted", settings.allowed_addresses, tuple(public))
