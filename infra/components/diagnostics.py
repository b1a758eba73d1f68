"""Diagnostic settings: which of a service's logs and metrics reach the log workspace."""

from dataclasses import dataclass

import pulumi
from pulumi_azure_native import monitor

from infra.components.base import Component, Place

ALL = "allLogs"
AUDIT = "audit"
WRITES = ("StorageWrite", "StorageDelete")
"""Of a storage service. Reads are left out: a training reads every shard many times, and what that
logs would use up the workspace's daily cap and with it every other log."""


@dataclass(frozen=True)
class Source:
    """A service that logs."""

    label: str
    id: pulumi.Input[str]
    groups: tuple[str, ...] = ()
    """Groups of categories."""
    categories: tuple[str, ...] = ()
    """Single categories, where no group is right."""
    metrics: tuple[str, ...] = ("AllMetrics",)


class Diagnostics(Component):
    """The diagnostic settings of all services."""

    def __init__(
        self,
        place: Place,
        sources: list[Source],
        log_workspace: pulumi.Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("diagnostics", opts)
        for source in sources:
            monitor.DiagnosticSetting(
                f"diagnostics-{source.label}",
                name=place.names.diagnostics(source.label),
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
                opts=self.own(),
            )
        self.register_outputs({})
