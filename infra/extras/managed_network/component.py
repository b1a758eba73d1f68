"""The managed network of a workspace, and its outbound rules."""

from collections.abc import Iterator, Sequence

import pulumi
from pulumi_azure_native import machinelearningservices as ml

from infra.catalog import roles
from infra.components.access import Grant
from infra.components.base import Component, Service, StackContext
from infra.components.grants import Scope, entra_group, grant
from infra.components.nodes import NodeNetwork
from infra.composition.parts import Declared, Platform
from infra.extras.managed_network.leaf import DATA_RULE, ManagedNetworkSettings, rule_name
from infra.outputs import Duty
from infra.settings import Settings

TARGETS = ("default_storage", "data_storage", "vault", "registry")


def nodes(settings: Settings) -> NodeNetwork:
    """Return the network of the nodes of a stack."""
    return ManagedNetwork(settings.of(ManagedNetworkSettings))


def declare(platform: Platform) -> Declared | None:
    """Declare who may push images."""
    group = platform.settings.of(ManagedNetworkSettings).image_publishers
    if group is not None:
        grant(
            platform.context,
            entra_group("image-publishers", group),
            Scope("registry", platform.services.registry.id),
            [roles.ACR_PUSH],
            pulumi.ResourceOptions(),
        )
    return None


class ManagedNetwork(NodeNetwork):
    """Nodes in the network that Azure Machine Learning keeps in a subscription of Microsoft's.

    They reach the destinations that the service needs, those that rules approve, and nothing else.
    The service declares the endpoints of the workspace and of its own services; the identity of the
    workspace approves them, which takes a role on each target.
    """

    grants = tuple(Grant(target, roles.CONNECTION_APPROVER) for target in TARGETS)

    def __init__(self, settings: ManagedNetworkSettings) -> None:
        super().__init__({})
        self._settings = settings

    def of_workspace(self) -> ml.ManagedNetworkSettingsArgs:
        """Return the network that Azure Machine Learning manages for the workspace.

        Rules are not part of it: written here, the second deployment of a workspace fails.
        """
        firewall = self._settings.firewall
        return ml.ManagedNetworkSettingsArgs(
            isolation_mode=ml.IsolationMode.ALLOW_ONLY_APPROVED_OUTBOUND,
            managed_network_kind=ml.ManagedNetworkKind.V1,
            firewall_sku=None if firewall == "none" else ml.FirewallSku(firewall),
        )

    def provision_now(self) -> bool:
        """Return true: made for the first compute, it can take longer than a compute may."""
        return True

    def subnet(self, duty: Duty) -> None:  # noqa: ARG002
        """Return None: Azure refuses a subnet of a customer in this network."""
        return

    def open(
        self,
        context: StackContext,
        workspace: ml.Workspace,
        data: Service,
        depends_on: Sequence[pulumi.Resource],
    ) -> Sequence[pulumi.Resource]:
        """Declare the endpoint of the training data, and the hosts that nodes may reach."""
        return OutboundRules(context, workspace, data, self._settings.hosts, depends_on).rules


class OutboundRules(Component):
    """Destinations of nodes in a managed network, besides those that the service approves
    itself.
    """

    def __init__(
        self,
        context: StackContext,
        workspace: ml.Workspace,
        data: Service,
        hosts: Sequence[str],
        depends_on: Sequence[pulumi.Resource],
    ) -> None:
        super().__init__("outbound-rules")
        self.rules: list[ml.ManagedNetworkSettingsRule] = []
        for name, properties in _rules(data, hosts):
            rule = ml.ManagedNetworkSettingsRule(
                f"outbound-{name}",
                rule_name=name,
                workspace_name=workspace.name,
                resource_group_name=context.group,
                properties=properties,
                # One at a time: a managed network refuses concurrent changes.
                opts=self.child_options(
                    depends_on=[*depends_on, *self.rules],
                    extra=pulumi.ResourceOptions(deleted_with=workspace),
                ),
            )
            self.rules.append(rule)
        self.register_outputs({})


def _rules(
    data: Service, hosts: Sequence[str]
) -> Iterator[tuple[str, ml.PrivateEndpointOutboundRuleArgs | ml.FqdnOutboundRuleArgs]]:
    own = ml.RuleCategory.USER_DEFINED
    endpoint = ml.PrivateEndpointDestinationArgs(
        service_resource_id=data.id, subresource_target="blob", spark_enabled=False
    )
    yield (
        DATA_RULE,
        ml.PrivateEndpointOutboundRuleArgs(
            type="PrivateEndpoint", category=own, destination=endpoint
        ),
    )
    for host in hosts:
        yield (
            rule_name(host),
            ml.FqdnOutboundRuleArgs(type="FQDN", category=own, destination=host),
        )
