"""Compute clusters: nodes that exist only while a job runs."""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
from pulumi_azure_native import machinelearningservices as ml

from infra.components.base import Component, StackContext
from infra.settings import ClusterSettings

KEPT_BY_AZURE = (
    "identity.type",
    "location",
    "properties.disableLocalAuth",
    "properties.properties.enableNodePublicIp",
    "properties.properties.osType",
    "properties.properties.remoteLoginPortPublicAccess",
    "properties.properties.subnet",
    "properties.properties.vmPriority",
    "properties.properties.vmSize",
)
"""Inputs that Azure silently keeps on an update; a change replaces the cluster."""


@dataclass(frozen=True)
class ClusterArgs:
    """One cluster."""

    key: str
    """Name in the stack's settings."""
    name: str
    """Name in Azure."""
    settings: ClusterSettings
    subnet: pulumi.Input[str] | None
    """Id of the subnet of its nodes; None if they are in no subnet of the stack."""
    identity_id: pulumi.Input[str]
    """Id of its duty's identity: jobs pull images and open datastores with it."""


class Clusters(Component):
    """The clusters of the workspace: they scale to zero, without public addresses and without SSH.

    A cluster is deleted with the workspace: the provider's request to delete it alone lacks the
    action for its nodes, so Azure may refuse it. Changing size, priority or subnet replaces a
    cluster, the old one first, because both would need the quota.
    """

    def __init__(
        self,
        context: StackContext,
        workspace: ml.Workspace,
        clusters: Sequence[ClusterArgs],
        depends_on: Sequence[pulumi.Resource],
    ) -> None:
        super().__init__("clusters")
        self.clusters: list[pulumi.Resource] = []
        for args in clusters:
            cluster = ml.Compute(
                f"cluster-{args.key.replace('_', '-')}",
                compute_name=args.name,
                workspace_name=workspace.name,
                resource_group_name=context.group,
                location=context.region,
                identity=ml.ManagedServiceIdentityArgs(
                    type=ml.ManagedServiceIdentityType.USER_ASSIGNED,
                    user_assigned_identities=[args.identity_id],
                ),
                properties=ml.AmlComputeArgs(
                    compute_type="AmlCompute",
                    compute_location=context.region,
                    disable_local_auth=True,
                    properties=_nodes(args),
                ),
                tags=context.tags,
                # Side by side, as in other providers of Azure ML: a workspace that answers 409 to
                # some of them is asked again (`jobs.pulumi.refusals`).
                opts=self.child_options(
                    depends_on=depends_on,
                    extra=pulumi.ResourceOptions(
                        deleted_with=workspace,
                        delete_before_replace=True,
                        replace_on_changes=list(KEPT_BY_AZURE),
                    ),
                ),
            )
            self.clusters.append(cluster)
        self.register_outputs({"clusters": [args.name for args in clusters]})


def _nodes(args: ClusterArgs) -> ml.AmlComputePropertiesArgs:
    settings = args.settings
    return ml.AmlComputePropertiesArgs(
        vm_size=settings.size,
        vm_priority=ml.VmPriority(settings.azure_priority),
        os_type=ml.OsType.LINUX,
        scale_settings=ml.ScaleSettingsArgs(
            min_node_count=0,
            max_node_count=settings.max_nodes,
            node_idle_time_before_scale_down=f"PT{settings.idle_seconds_before_scale_down}S",
        ),
        subnet=None if args.subnet is None else ml.ResourceIdArgs(id=args.subnet),
        enable_node_public_ip=False,
        remote_login_port_public_access=ml.RemoteLoginPortPublicAccess.DISABLED,
        isolated_network=False,
    )
