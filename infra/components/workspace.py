"""The Azure Machine Learning workspace, and its datastores: the containers' names in jobs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
from pulumi_azure_native import machinelearningservices as ml

from infra.components.base import Component, StackContext
from infra.components.encryption import Encryption
from infra.components.immutable import ImmutableProperty, refuse_changes
from infra.components.nodes import NodeNetwork

ANOTHER = "it can only be set at creation; declare a workspace with another name"
IMMUTABLE = (
    ImmutableProperty("hbiWorkspace", ANOTHER),
    ImmutableProperty("storageAccount", ANOTHER),
    ImmutableProperty("keyVault", ANOTHER),
    ImmutableProperty("enableDataIsolation", ANOTHER),
    ImmutableProperty("encryption.status", ANOTHER),
    ImmutableProperty("enableServiceSideCMKEncryption", ANOTHER),
    ImmutableProperty(
        "managedNetwork.isolationMode",
        "Azure never takes it back, and not while there are computes; deploy another stack",
    ),
)


@dataclass(frozen=True)
class WorkspaceArgs:
    """The workspace of one stack, and the resources that it uses."""

    storage_id: pulumi.Input[str]
    """Id of the Standard account for logs, results and snapshots; a Premium one is not allowed
    here."""
    vault_id: pulumi.Input[str]
    registry_id: pulumi.Input[str]
    insights_id: pulumi.Input[str] | None
    identity_id: pulumi.Input[str]
    nodes: NodeNetwork
    build_cluster: str | None
    """Name of the cluster that builds images, which is declared after the workspace; None if images
    are pushed."""
    public: bool
    """Whether it can be reached from outside the network, after an Entra sign-in."""
    shared: bool
    """Whether other workspaces may use the same account and vault; their data are then kept
    apart."""
    encryption: Encryption
    depends_on: Sequence[pulumi.Resource]
    """Role assignments of its identity, and the private endpoints of the resources it uses."""


class Workspace(Component):
    """A high-business-impact workspace without keys.

    High business impact encrypts and wipes the nodes' scratch disks, passes credentials to nodes
    through the vault, and can only be chosen when a workspace is created. Its identity is
    user-assigned, so that the roles it needs exist before it. Stray serverless jobs run where those
    of the clusters that train do.
    """

    def __init__(self, context: StackContext, args: WorkspaceArgs) -> None:
        super().__init__("workspace")
        access = ml.PublicNetworkAccessType
        self.workspace = ml.Workspace(
            "workspace",
            workspace_name=context.names.workspace,
            resource_group_name=context.group,
            location=context.region,
            kind="Default",
            sku=ml.SkuArgs(name="Basic", tier=ml.SkuTier.BASIC),
            friendly_name=context.names.base,
            storage_account=args.storage_id,
            key_vault=args.vault_id,
            container_registry=args.registry_id,
            application_insights=args.insights_id,
            identity=ml.ManagedServiceIdentityArgs(
                type=ml.ManagedServiceIdentityType.USER_ASSIGNED,
                user_assigned_identities=[args.identity_id],
            ),
            primary_user_assigned_identity=args.identity_id,
            hbi_workspace=True,
            public_network_access=access.ENABLED if args.public else access.DISABLED,
            v1_legacy_mode=False,
            system_datastores_auth_mode=ml.SystemDatastoresAuthMode.IDENTITY,
            image_build_compute=args.build_cluster,
            enable_data_isolation=args.shared,
            managed_network=args.nodes.of_workspace(),
            provision_network_now=args.nodes.provision_now(),
            serverless_compute_settings=ml.ServerlessComputeSettingsArgs(
                serverless_compute_custom_subnet=args.nodes.subnet("train"),
                serverless_compute_no_public_ip=True,
            ),
            encryption=args.encryption.workspace(),
            enable_service_side_cmk_encryption=args.encryption.service_side,
            tags=context.tags,
            opts=self.child_options(
                depends_on=args.depends_on,
                protect=context.protected,
                extra=refuse_changes("workspace", IMMUTABLE),
            ),
        )
        self.register_outputs({"workspace": self.workspace.id})


ENDPOINT = "core.windows.net"


@dataclass(frozen=True)
class BlobContainer:
    """Location of a datastore's blobs."""

    account: pulumi.Input[str]
    name: str
    subscription: str
    group: str
    """Resource group of the account."""


class Datastores(Component):
    """One datastore per container, without credentials.

    Jobs open them with their cluster's identity. The studio previews them with the workspace's
    identity, which has read access only.
    """

    def __init__(
        self,
        context: StackContext,
        workspace: ml.Workspace,
        containers: Mapping[str, BlobContainer],
        depends_on: Sequence[pulumi.Resource],
    ) -> None:
        super().__init__("datastores")
        self.last: list[pulumi.Resource] = []
        """The last datastore, which exists when all others do."""
        for name, container in containers.items():
            datastore = ml.Datastore(
                f"datastore-{name}",
                name=name,
                workspace_name=workspace.name,
                resource_group_name=context.group,
                properties=ml.AzureBlobDatastoreArgs(
                    datastore_type="AzureBlob",
                    account_name=container.account,
                    container_name=container.name,
                    endpoint=ENDPOINT,
                    protocol="https",
                    subscription_id=container.subscription,
                    resource_group=container.group,
                    credentials=ml.NoneDatastoreCredentialsArgs(credentials_type="None"),
                    service_data_access_auth_identity=(
                        ml.ServiceDataAccessAuthIdentity.WORKSPACE_USER_ASSIGNED_IDENTITY
                    ),
                ),
                # One at a time: the workspace answers 409 to concurrent changes.
                opts=self.child_options(
                    depends_on=[*depends_on, *self.last],
                    extra=pulumi.ResourceOptions(deleted_with=workspace),
                ),
            )
            self.last = [datastore]
        self.register_outputs({})
