"""Alerts on what the workspace measures: nodes taken back, idle nodes, failed jobs, quota."""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
from pulumi_azure_native import monitor

from infra.components.base import Component, Place

WINDOWS = (5, 15, 30, 60, 360, 720, 1440)
"""Minutes that Azure looks back over for a metric alert; it takes no others from five up."""
PER_CLUSTER = "ClusterName"
NAMESPACE = "Microsoft.MachineLearningServices/workspaces"
EVERYWHERE = "global"


@dataclass(frozen=True)
class AlertsArgs:
    """When people are told."""

    emails: Sequence[str]
    preempted_nodes: int
    idle_minutes: int
    failed_jobs: int
    quota_percent: int


@dataclass(frozen=True)
class Threshold:
    """One metric and where it is too high."""

    about: str
    description: str
    metric: str
    """REST name from Azure Monitor's list of the workspace's metrics."""
    aggregation: monitor.AggregationTypeEnum
    at_least: float
    minutes: int
    by: str | None = PER_CLUSTER
    severity: int = 2
    """From 0, critical, to 4, verbose."""


def window(minutes: int) -> int:
    """The shortest window that Azure offers and that is no shorter than asked for."""
    return next(offered for offered in WINDOWS if offered >= minutes)


def thresholds(args: AlertsArgs) -> list[Threshold]:
    """What is watched."""
    kind = monitor.AggregationTypeEnum
    return [
        Threshold(
            "preempted",
            "Azure took low-priority nodes back; their jobs start again from a checkpoint",
            "Preempted Nodes",
            kind.MAXIMUM,
            args.preempted_nodes,
            60,
            severity=3,
        ),
        Threshold(
            "idle",
            "Nodes are idle and do not scale down, and cost money for nothing",
            "Idle Nodes",
            kind.MINIMUM,
            1,
            window(args.idle_minutes),
        ),
        Threshold(
            "failed", "Jobs failed", "Failed Runs", kind.TOTAL, args.failed_jobs, 60, by=None
        ),
        Threshold(
            "quota",
            "The quota of cores is nearly used up; further nodes will not start",
            "Quota Utilization Percentage",
            kind.MAXIMUM,
            args.quota_percent,
            60,
            by=None,
            severity=3,
        ),
    ]


class Alerts(Component):
    """Metric alerts of the workspace, and who gets them.

    Metrics and not logs: they come whether or not the log workspace's daily cap is reached.
    """

    def __init__(
        self,
        place: Place,
        workspace_id: pulumi.Input[str],
        args: AlertsArgs,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("alerts", opts)
        self.people = monitor.ActionGroup(
            "people",
            action_group_name=place.names.action_group,
            group_short_name=place.names.action_group_short,
            resource_group_name=place.group,
            location=EVERYWHERE,
            enabled=True,
            email_receivers=[
                monitor.MicrosoftCommonEmailReceiverArgs(
                    name=email, email_address=email, use_common_alert_schema=True
                )
                for email in args.emails
            ],
            tags=place.tags,
            opts=self.own(),
        )
        for threshold in thresholds(args):
            self._alert(place, workspace_id, threshold)
        self.register_outputs({})

    def _alert(
        self, place: Place, workspace_id: pulumi.Input[str], threshold: Threshold
    ) -> monitor.MetricAlert:
        dimensions = (
            [monitor.MetricDimensionArgs(name=threshold.by, operator="Include", values=["*"])]
            if threshold.by
            else None
        )
        types = monitor.Odatatype
        return monitor.MetricAlert(
            f"alert-{threshold.about}",
            rule_name=place.names.alert(threshold.about),
            resource_group_name=place.group,
            location=EVERYWHERE,
            description=threshold.description,
            severity=threshold.severity,
            enabled=True,
            auto_mitigate=True,
            scopes=[workspace_id],
            evaluation_frequency="PT5M",
            window_size=f"PT{threshold.minutes}M" if threshold.minutes < 1440 else "P1D",
            criteria=monitor.MetricAlertSingleResourceMultipleMetricCriteriaArgs(
                odata_type=types.MICROSOFT_AZURE_MONITOR_SINGLE_RESOURCE_MULTIPLE_METRIC_CRITERIA,
                all_of=[
                    monitor.MetricCriteriaArgs(
                        criterion_type=monitor.CriterionType.STATIC_THRESHOLD_CRITERION,
                        name=threshold.about,
                        metric_namespace=NAMESPACE,
                        metric_name=threshold.metric,
                        operator=monitor.Operator.GREATER_THAN_OR_EQUAL,
                        threshold=threshold.at_least,
                        time_aggregation=threshold.aggregation,
                        dimensions=dimensions,
                    )
                ],
            ),
            actions=[monitor.MetricAlertActionArgs(action_group_id=self.people.id)],
            tags=place.tags,
            opts=self.own(),
        )
