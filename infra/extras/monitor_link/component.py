"""Azure Monitor's private link scope, and its endpoint in the network."""

from collections.abc import Sequence

import pulumi
from pulumi_azure_native import monitor

from infra.components.base import Component, StackContext
from infra.composition import connectivity
from infra.composition.parts import Declared, Platform
from infra.extras.monitor_link.leaf import KIND, SCOPE, LinkSettings


def declare(platform: Platform) -> Declared | None:
    """Declare the scope and its endpoint.

    An existing log workspace is left out: its owner decides which scopes it belongs to.
    """
    if not platform.settings.of(LinkSettings).private_link:
        return None
    monitoring = platform.monitoring
    members: list[tuple[str, pulumi.Input[str]]] = []
    if monitoring.insights is not None:
        members.append(("insights", monitoring.insights.id))
    if monitoring.logs is not None:
        members.append(("logs", monitoring.logs.id))
    scope = MonitorScope(platform.context, members)
    connectivity.endpoint(
        platform.settings,
        platform.context,
        platform.connected,
        KIND,
        KIND,
        scope.scope.id,
        depends_on=scope.members,
    )
    return None


class MonitorScope(Component):
    """Azure Monitor's private link scope: logs and metrics through the network.

    It resolves Azure Monitor's names in the whole network, so monitored resources there that are
    not in the scope must still get through: both access modes are open, as Azure Machine Learning
    requires ("Secure an Azure Machine Learning workspace with virtual networks").
    """

    def __init__(
        self, context: StackContext, members: Sequence[tuple[str, pulumi.Input[str]]]
    ) -> None:
        super().__init__("monitor-scope")
        self.scope = monitor.PrivateLinkScope(
            "monitor",
            scope_name=SCOPE(context.names),
            resource_group_name=context.group,
            location="global",
            access_mode_settings=monitor.AccessModeSettingsArgs(
                ingestion_access_mode=monitor.AccessMode.OPEN,
                query_access_mode=monitor.AccessMode.OPEN,
            ),
            tags=context.tags,
            opts=self.child_options(),
        )
        self.members: list[pulumi.Resource] = []
        for label, member in members:
            joined = monitor.PrivateLinkScopedResource(
                f"monitor-{label}",
                name=label,
                scope_name=self.scope.name,
                resource_group_name=context.group,
                linked_resource_id=member,
                # One at a time: a scope refuses a member while another one joins it.
                opts=self.child_options(depends_on=list(self.members)),
            )
            self.members.append(joined)
        self.register_outputs({"scope": self.scope.id})
