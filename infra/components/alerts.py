"""Alerts on the clusters' logs: pre-empted nodes, idle nodes, failed jobs, quota."""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
from pulumi_azure_native import monitor

from infra.components.base import Component, StackContext

EVERYWHERE = "global"
PER_CLUSTER = "ClusterName"
OFTEN = "PT15M"
HOUR = "PT1H"
TWO_DAYS = "P2D"
"""Longest time range that a rule may query."""


@dataclass(frozen=True)
class AlertsArgs:
    """Thresholds of the alerts, and their recipients."""

    log_workspace: pulumi.Input[str]
    workspace_id: pulumi.Input[str]
    """Id of the workspace whose events count; others may share the log workspace."""
    emails: Sequence[str]
    preempted_nodes: int
    idle_minutes: int
    failed_jobs: int
    quota_percent: int


@dataclass(frozen=True)
class AlertRule:
    """A query of the log workspace, and the threshold that triggers the alert."""

    name: str
    title: str
    table: str
    query: str
    """Query after the table and the filter on the workspace. Columns as in Azure Monitor's
    references of AmlComputeClusterEvent and AmlRunStatusChangedEvent (27 July 2026)."""
    threshold: int
    measure_column: str | None = None
    """Column whose largest value is compared; None counts rows."""
    dimension: str | None = PER_CLUSTER
    look_back: str | None = None
    """Time range that the query sees, if not the evaluation window of one hour."""
    severity: int = 2
    """Severity from 0, critical, to 4, verbose."""


def alert_rules(args: AlertsArgs) -> list[AlertRule]:
    """Return the rules, with the thresholds of the settings."""
    clusters = "AmlComputeClusterEvent"
    return [
        AlertRule(
            "preempted",
            "Azure took low-priority nodes back",
            clusters,
            "| project TimeGenerated, ClusterName, Preempted = toint(PreemptedNodeCount)",
            args.preempted_nodes,
            measure_column="Preempted",
            severity=3,
        ),
        # A node is idle since the last event with no idle nodes, or since the first event there is.
        AlertRule(
            "idle",
            "Nodes are idle and do not scale down",
            clusters,
            "| summarize arg_max(TimeGenerated, IdleNodeCount), First = min(TimeGenerated),"
            " Free = maxif(TimeGenerated, IdleNodeCount == 0) by ClusterName\n"
            "| extend Since = iff(isnull(Free), First, Free)\n"
            f"| where IdleNodeCount > 0 and Since < ago({args.idle_minutes}m)",
            1,
            look_back=TWO_DAYS,
        ),
        AlertRule(
            "failed",
            "Jobs failed",
            "AmlRunStatusChangedEvent",
            '| where Status =~ "Failed" and (isempty(ParentRunId) or RunId == RootRunId)\n'
            "| distinct RunId",
            args.failed_jobs,
            dimension=None,
        ),
        AlertRule(
            "quota",
            "The quota of cores is nearly used up",
            clusters,
            "| extend Percent = 100.0 * todouble(QuotaUtilized) / todouble(QuotaAllocated)\n"
            "| where isfinite(Percent)\n"
            "| project TimeGenerated, ClusterName, Percent",
            args.quota_percent,
            measure_column="Percent",
            severity=3,
        ),
    ]


class Alerts(Component):
    """Alert rules over the log workspace, and the action group that they notify."""

    def __init__(
        self, context: StackContext, args: AlertsArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("alerts", opts)
        self.people = monitor.ActionGroup(
            "people",
            action_group_name=context.names.action_group,
            group_short_name=context.names.action_group_short,
            resource_group_name=context.group,
            location=EVERYWHERE,
            enabled=True,
            email_receivers=[
                monitor.MicrosoftCommonEmailReceiverArgs(
                    name=email, email_address=email, use_common_alert_schema=True
                )
                for email in args.emails
            ],
            tags=context.tags,
            opts=self.child_options(),
        )
        for rule in alert_rules(args):
            self._rule(context, args, rule)
        self.register_outputs({})

    def _rule(
        self, context: StackContext, args: AlertsArgs, rule: AlertRule
    ) -> monitor.ScheduledQueryRule:
        return monitor.ScheduledQueryRule(
            f"alert-{rule.name}",
            rule_name=context.names.alert(rule.name),
            display_name=rule.title,
            resource_group_name=context.group,
            location=context.region,
            enabled=True,
            severity=rule.severity,
            scopes=[args.log_workspace],
            evaluation_frequency=OFTEN,
            window_size=HOUR,
            override_query_time_range=rule.look_back,
            auto_mitigate=True,
            # The tables are created with the first event.
            skip_query_validation=True,
            criteria=monitor.ScheduledQueryRuleCriteriaArgs(
                all_of=[_condition(args.workspace_id, rule)]
            ),
            actions=monitor.ActionsArgs(action_groups=[self.people.id]),
            tags=context.tags,
            opts=self.child_options(),
        )


def _condition(workspace_id: pulumi.Input[str], rule: AlertRule) -> monitor.ConditionArgs:
    aggregation = monitor.TimeAggregation
    return monitor.ConditionArgs(
        query=pulumi.Output.format(
            '{0}\n| where _ResourceId =~ "{1}"\n{2}', rule.table, workspace_id, rule.query
        ),
        time_aggregation=aggregation.MAXIMUM if rule.measure_column else aggregation.COUNT,
        metric_measure_column=rule.measure_column,
        # The SDK's ConditionOperator belongs to another resource; Azure accepts these values here.
        operator=monitor.Operator.GREATER_THAN_OR_EQUAL,
        threshold=rule.threshold,
        dimensions=(
            [
                monitor.DimensionArgs(
                    name=rule.dimension, operator=monitor.DimensionOperator.INCLUDE, values=["*"]
                )
            ]
            if rule.dimension
            else None
        ),
        failing_periods=monitor.ConditionFailingPeriodsArgs(
            number_of_evaluation_periods=1, min_failing_periods_to_alert=1
        ),
    )
