"""Datastores: blob containers by names that jobs know."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
from pulumi_azure_native import machinelearningservices as ml

from infra.components.base import Component, Place

ENDPOINT = "core.windows.net"


@dataclass(frozen=True)
class Container:
    """Where a datastore's blobs are."""

    account: pulumi.Input[str]
    name: str
    subscription: str
    group: str
    """Resource group of the account."""


class Datastores(Component):
    """One datastore a container, without credentials.

    Jobs open them as their cluster's identity. The studio previews them as the workspace's
    identity, which only reads.
    """

    def __init__(
        self,
        place: Place,
        workspace: ml.Workspace,
        containers: Mapping[str, Container],
        after: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("datastores", opts)
        previous: list[pulumi.Resource] = []
        for name, container in containers.items():
            datastore = ml.Datastore(
                f"datastore-{name}",
                name=name,
                workspace_name=workspace.name,
                resource_group_name=place.group,
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
                # One after the other: the workspace answers 409 to two changes at once.
                opts=self.own(
                    after=[*after, *previous],
                    also=pulumi.ResourceOptions(deleted_with=workspace),
                ),
            )
            previous = [datastore]
        self.register_outputs({})
