"""Alerts on the clusters' logs: pre-empted nodes, idle nodes, failed jobs, quota."""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
from pulumi_azure_native import monitor

from infra.components.base import Component, StackContext
from infra.composition.parts import Declared, Platform
from infra.extras.alerts.alert_rules import AlertRule, alert_name, alert_rules
from infra.extras.alerts.leaf import GROUP, SENDER, AlertSettings

EVERYWHERE = "global"
OFTEN = "PT15M"
HOUR = "PT1H"


@dataclass(frozen=True)
class AlertsArgs:
    """The alerts of one stack, and their recipients."""

    log_workspace: pulumi.Input[str]
    workspace_id: pulumi.Input[str]
    """Id of the workspace whose events count; others may share the log workspace."""
    emails: Sequence[str]
    rules: Sequence[AlertRule]


def declare(platform: Platform) -> Declared:
    """Declare the alerts, and return the action group that they notify."""
    settings = platform.settings
    alerts = Alerts(
        platform.context,
        AlertsArgs(
            log_workspace=platform.monitoring.log_id,
            workspace_id=platform.workspace.id,
            emails=settings.budget.emails,
            rules=alert_rules(settings.of(AlertSettings)),
        ),
    )
    return Declared(outputs={"action_group": alerts.people.id})


class Alerts(Component):
    """Alert rules over the log workspace, and the action group that they notify."""

    def __init__(self, context: StackContext, args: AlertsArgs) -> None:
        super().__init__("alerts")
        self.people = monitor.ActionGroup(
            "people",
            action_group_name=GROUP(context.names),
            group_short_name=SENDER(context.names),
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
        for rule in args.rules:
            self._rule(context, args, rule)
        self.register_outputs({})

    def _rule(
        self, context: StackContext, args: AlertsArgs, rule: AlertRule
    ) -> monitor.ScheduledQueryRule:
        return monitor.ScheduledQueryRule(
            f"alert-{rule.name}",
            rule_name=alert_name(context.names, rule),
            display_name=rule.title,
            resource_group_name=context.group,
            location=context.region,
            enabled=True,
            severity=rule.severity,
            scopes=[args.log_workspace],
            evaluation_frequency=OFTEN,
            window_size=HOUR,
            override_query_time_range=rule.look_back,
            # Until Azure resolves an alert, it notifies of nothing else with the same dimension.
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
        dimensions=[
            monitor.DimensionArgs(
                name=rule.dimension, operator=monitor.DimensionOperator.INCLUDE, values=["*"]
            )
        ],
        failing_periods=monitor.ConditionFailingPeriodsArgs(
            number_of_evaluation_periods=1, min_failing_periods_to_alert=1
        ),
    )
