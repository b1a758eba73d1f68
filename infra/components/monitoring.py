"""Monitoring: the log workspace and its cap, which logs are collected, and how they get there."""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
from pulumi_azure_native import applicationinsights, monitor, operationalinsights

from infra.components.base import Component, StackContext


@dataclass(frozen=True)
class MonitoringArgs:
    """Monitoring of one stack."""

    retention_days: int
    daily_cap_gb: float
    public_ingestion: bool
    """Whether logs may be sent to Azure's public endpoints. Entra ID authenticates the sender in
    either case."""
    public_query: bool
    """Whether logs may be queried from outside the network, after an Entra sign-in."""
    public_reports: bool
    """Whether programs may report to Application Insights over Azure's public endpoints."""
    insights: bool
    """Whether to declare Application Insights."""
    existing: str | None = None
    """Id of an existing log workspace to use instead."""


class Monitoring(Component):
    """A log workspace with a daily cap, and Application Insights, which a workspace must name.

    Both accept Entra ID only, no keys. Application Insights stores its data in the log workspace,
    as private link requires. Nothing of the platform reports to it, so that it takes reports over
    public endpoints only where the whole platform has some.
    """

    def __init__(self, context: StackContext, args: MonitoringArgs) -> None:
        super().__init__("monitoring")
        self.logs: operationalinsights.Workspace | None = None
        self.log_id: pulumi.Input[str]
        if args.existing is None:
            self.logs = self._log_workspace(context, args)
            self.log_id = self.logs.id
        else:
            self.log_id = args.existing
        self.insights = self._insights(context, args) if args.insights else None
        self.register_outputs({"logs": self.log_id})

    def _log_workspace(
        self, context: StackContext, args: MonitoringArgs
    ) -> operationalinsights.Workspace:
        access = operationalinsights.PublicNetworkAccessType
        return operationalinsights.Workspace(
            "logs",
            workspace_name=context.names.log_workspace,
            resource_group_name=context.group,
            location=context.region,
            sku=operationalinsights.WorkspaceSkuArgs(
                name=operationalinsights.WorkspaceSkuNameEnum.PER_GB2018
            ),
            retention_in_days=args.retention_days,
            workspace_capping=operationalinsights.WorkspaceCappingArgs(
                daily_quota_gb=args.daily_cap_gb
            ),
            features=operationalinsights.WorkspaceFeaturesArgs(
                disable_local_auth=True, enable_log_access_using_only_resource_permissions=True
            ),
            public_network_access_for_ingestion=(
                access.ENABLED if args.public_ingestion else access.DISABLED
            ),
            public_network_access_for_query=(
                access.ENABLED if args.public_query else access.DISABLED
            ),
            tags=context.tags,
            opts=self.child_options(protect=context.protected),
        )

    def _insights(
        self, context: StackContext, args: MonitoringArgs
    ) -> applicationinsights.Component:
        access = applicationinsights.PublicNetworkAccessType
        return applicationinsights.Component(
            "insights",
            resource_name_=context.names.insights,
            resource_group_name=context.group,
            location=context.region,
            kind="web",
            application_type=applicationinsights.ApplicationType.WEB,
            workspace_resource_id=self.log_id,
            ingestion_mode=applicationinsights.IngestionMode.LOG_ANALYTICS,
            disable_local_auth=True,
            public_network_access_for_ingestion=(
                access.ENABLED if args.public_reports else access.DISABLED
            ),
            public_network_access_for_query=(
                access.ENABLED if args.public_query else access.DISABLED
            ),
            tags=context.tags,
            opts=self.child_options(),
        )


ALL = "allLogs"
AUDIT = "audit"
WRITES = ("StorageWrite", "StorageDelete")
"""Log categories of a storage service, without `READS`: training reads every shard many times, and
those logs would use up the workspace's daily cap and displace all other logs."""
READS = ("StorageRead",)


@dataclass(frozen=True)
class LogSource:
    """A service that logs."""

    label: str
    id: pulumi.Input[str]
    groups: tuple[str, ...] = ()
    """Category groups."""
    categories: tuple[str, ...] = ()
    """Individual categories, where no group fits."""
    metrics: tuple[str, ...] = ("AllMetrics",)
    exclusive: bool = False
    """Whether it refuses a setting during another operation, as a storage account does."""


class Diagnostics(Component):
    """The diagnostic settings of all services."""

    def __init__(
        self,
        context: StackContext,
        sources: list[LogSource],
        log_workspace: pulumi.Input[str],
        depends_on: Sequence[pulumi.Resource],
    ) -> None:
        """Declare a diagnostic setting for each source.

        Args:
            context: Context of the stack.
            sources: Services that log.
            log_workspace: Id of the workspace that keeps the logs.
            depends_on: Resources whose creation changes the exclusive sources.
        """
        super().__init__("diagnostics")
        previous = depends_on
        for source in sources:
            setting = monitor.DiagnosticSetting(
                f"diagnostics-{source.label}",
                name=context.names.diagnostics(source.label),
                resource_uri=source.id,
                workspace_id=log_workspace,
                logs=[
                    *(
                        monitor.DiagnosticsLogSettingsArgs(category_group=group, enabled=True)
                        for group in source.groups
                    ),
                    *(
                        monitor.DiagnosticsLogSettingsArgs(category=category, enabled=True)
                        for category in source.categories
                    ),
                ],
                metrics=[
                    monitor.DiagnosticsMetricSettingsArgs(category=category, enabled=True)
                    for category in source.metrics
                ],
                opts=self.child_options(depends_on=previous if source.exclusive else ()),
            )
            if source.exclusive:
                previous = [setting]
        self.register_outputs({})
