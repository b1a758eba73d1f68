"""Alerts on what the clusters log: nodes taken back, idle nodes, failed jobs, quota."""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
from pulumi_azure_native import monitor

from infra.components.base import Component, Place

EVERYWHERE = "global"
PER_CLUSTER = "ClusterName"
OFTEN = "PT15M"
HOUR = "PT1H"
TWO_DAYS = "P2D"
"""The longest that a rule may look back."""


@dataclass(frozen=True)
class AlertsArgs:
    """When people are told, and who."""

    log_workspace: pulumi.Input[str]
    workspace_id: pulumi.Input[str]
    """Whose events count; others may share the log workspace."""
    emails: Sequence[str]
    preempted_nodes: int
    idle_minutes: int
    failed_jobs: int
    quota_percent: int


@dataclass(frozen=True)
class Watch:
    """One question to the log workspace, and the answer at which people are told."""

    about: str
    title: str
    table: str
    query: str
    """What follows the table and the choice of the workspace. Columns as in Azure Monitor's
    references of AmlComputeClusterEvent and AmlRunStatusChangedEvent (27 July 2026)."""
    at_least: int
    measure: str | None = None
    """Column whose largest value is compared; none counts rows."""
    by: str | None = PER_CLUSTER
    look_back: str | None = None
    """How much of the log the query sees, if not the hour that it is asked about."""
    severity: int = 2
    """From 0, critical, to 4, verbose."""


def watches(args: AlertsArgs) -> list[Watch]:
    """What is watched."""
    clusters = "AmlComputeClusterEvent"
    return [
        Watch(
            "preempted",
            "Azure took low-priority nodes back",
            clusters,
            "| project TimeGenerated, ClusterName, Preempted = toint(PreemptedNodeCount)",
            args.preempted_nodes,
            measure="Preempted",
            severity=3,
        ),
        # Idle since the last event that saw none idle, or since the first event there is.
        Watch(
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
        Watch(
            "failed",
            "Jobs failed",
            "AmlRunStatusChangedEvent",
            '| where Status =~ "Failed" and (isempty(ParentRunId) or RunId == RootRunId)\n'
            "| distinct RunId",
            args.failed_jobs,
            by=None,
        ),
        Watch(
            "quota",
            "The quota of cores is nearly used up",
            clusters,
            "| extend Percent = 100.0 * todouble(QuotaUtilized) / todouble(QuotaAllocated)\n"
            "| where isfinite(Percent)\n"
            "| project TimeGenerated, ClusterName, Percent",
            args.quota_percent,
            measure="Percent",
            severity=3,
        ),
    ]


class Alerts(Component):
    """Rules over the log workspace, and who gets them."""

    def __init__(
        self, place: Place, args: AlertsArgs, opts: pulumi.ResourceOptions | None = None
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
        for watch in watches(args):
            self._rule(place, args, watch)
        self.register_outputs({})

    def _rule(self, place: Place, args: AlertsArgs, watch: Watch) -> monitor.ScheduledQueryRule:
        return monitor.ScheduledQueryRule(
            f"alert-{watch.about}",
            rule_name=place.names.alert(watch.about),
            display_name=watch.title,
            resource_group_name=place.group,
            location=place.region,
            enabled=True,
            severity=watch.severity,
            scopes=[args.log_workspace],
            evaluation_frequency=OFTEN,
            window_size=HOUR,
            override_query_time_range=watch.look_back,
            auto_mitigate=True,
            # The tables come into being with the first event.
            skip_query_validation=True,
            criteria=monitor.ScheduledQueryRuleCriteriaArgs(
                all_of=[_condition(args.workspace_id, watch)]
            ),
            actions=monitor.ActionsArgs(action_groups=[self.people.id]),
            tags=place.tags,
            opts=self.own(),
        )


def _condition(workspace_id: pulumi.Input[str], watch: Watch) -> monitor.ConditionArgs:
    aggregation = monitor.TimeAggregation
    return monitor.ConditionArgs(
        query=pulumi.Output.format(
            '{0}\n| where _ResourceId =~ "{1}"\n{2}', watch.table, workspace_id, watch.query
        ),
        time_aggregation=aggregation.MAXIMUM if watch.measure else aggregation.COUNT,
        metric_measure_column=watch.measure,
        # The SDK's ConditionOperator belongs to another resource; Azure wants these words here.
        operator=monitor.Operator.GREATER_THAN_OR_EQUAL,
        threshold=watch.at_least,
        dimensions=(
            [
                monitor.DimensionArgs(
                    name=watch.by, operator=monitor.DimensionOperator.INCLUDE, values=["*"]
                )
            ]
            if watch.by
            else None
        ),
        failing_periods=monitor.ConditionFailingPeriodsArgs(
            number_of_evaluation_periods=1, min_failing_periods_to_alert=1
        ),
    )
