"""Where nodes run: the interface, and its default, subnets of the stack's network."""

from collections.abc import Mapping, Sequence

import pulumi
from pulumi_azure_native import machinelearningservices as ml

from infra.components.access import Grant
from infra.components.base import Service, StackContext
from infra.naming import DUTY_SUBNETS, SubnetRole
from infra.outputs import Duty


class NodeNetwork:
    """Nodes in subnets of the stack's network.

    Args:
        subnets: Ids of the subnets by role; empty if nodes run elsewhere.
    """

    grants: Sequence[Grant] = ()
    """Further roles of the workspace's identity, which exist before the workspace."""

    def __init__(self, subnets: Mapping[SubnetRole, pulumi.Input[str]]) -> None:
        self._subnets = subnets

    def of_workspace(self) -> ml.ManagedNetworkSettingsArgs:
        """Return the network that Azure Machine Learning manages for the workspace."""
        return ml.ManagedNetworkSettingsArgs(isolation_mode=ml.IsolationMode.DISABLED)

    def provision_now(self) -> bool | None:
        """Return whether that network is made with the workspace, rather than for its first
        compute.
        """
        return None

    def subnet(self, duty: Duty) -> pulumi.Input[str] | None:
        """Return the id of the subnet of a cluster's nodes, by the cluster's duty."""
        return self._subnets[DUTY_SUBNETS[duty]]

    def open(
        self,
        context: StackContext,  # noqa: ARG002
        workspace: ml.Workspace,  # noqa: ARG002
        data: Service,  # noqa: ARG002
        depends_on: Sequence[pulumi.Resource],  # noqa: ARG002
    ) -> Sequence[pulumi.Resource]:
        """Declare what nodes may reach, if the network of the stack does not say it.

        Args:
            context: Context of the stack.
            workspace: Workspace of the nodes.
            data: Account of the training data, which is not the workspace's own.
            depends_on: Resources that must exist before.

        Returns:
            Resources that must exist before a cluster does.
        """
        return ()
