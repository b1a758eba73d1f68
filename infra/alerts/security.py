"""What the security rules know of the alerts."""

from collections.abc import Iterator, Sequence
from typing import Final

from infra.alerts.alert_rules import alert_name, alert_rules
from infra.alerts.leaf import AlertSettings
from infra.catalog import resource_ids
from infra.policies.data_rules import by_name, log_workspace
from infra.policies.expected import UNSET, exactly, one_of, table_rule
from infra.policies.facts import Facts
from infra.policies.rule import StackRule
from infra.resources import Resource, entries_at, input_at, of_kind
from infra.settings import Settings

ACTION_GROUP: Final = "monitor:ActionGroup"
ALERT: Final = "monitor:ScheduledQueryRule"


def _alerts(
    resources: Sequence[Resource], settings: Settings
) -> Iterator[tuple[Resource | None, str]]:
    people = [
        group
        for group in of_kind(resources, ACTION_GROUP)
        if input_at(group, "enabled") is True
        and {receiver.get("emailAddress") for receiver in entries_at(group, "emailReceivers")}
        == set(settings.budget.emails)
    ]
    for group in of_kind(resources, ACTION_GROUP):
        if group not in people:
            yield group, "does not notify exactly the people of budget.emails"
    declared = {str(input_at(alert, "ruleName")): alert for alert in of_kind(resources, ALERT)}
    for rule in alert_rules(settings.of(AlertSettings)):
        alert = declared.get(alert_name(settings.names, rule))
        if alert is None:
            yield None, f"has no alert {alert_name(settings.names, rule)}"
            continue
        notified = [
            resource_ids.name(str(id_)) for id_ in entries_at(alert, "actions.actionGroups")
        ]
        if not {str(input_at(group, "actionGroupName")) for group in people} & set(notified):
            yield alert, "notifies no action group of the stack"
        [criterion, *others] = entries_at(alert, "criteria.allOf") or [{}]
        wanted = {
            "threshold": rule.threshold,
            "operator": "GreaterThanOrEqual",
            "timeAggregation": "Maximum" if rule.measure_column else "Count",
            "metricMeasureColumn": rule.measure_column,
        }
        changed = [key for key, value in wanted.items() if criterion.get(key) != value]
        query = str(criterion.get("query"))
        if others or changed or not (query.startswith(rule.table) and query.endswith(rule.query)):
            yield alert, "does not ask for what infra/alerts/alert_rules.py states"


ALERTS = StackRule(
    "alerts",
    "Pre-empted nodes, idle nodes, failed jobs, runs that wait for nobody and a quota that is "
    "nearly used up are reported to the people of the stack's settings.",
    "Restore the alert; to change thresholds or people, change the stack's settings.",
    _alerts,
)

ALERTS_ON = table_rule(
    "alerts-on",
    "Alert rules are enabled, and query the log workspace every quarter of an hour.",
    "Restore the input.",
    {
        ALERT: {
            "enabled": exactly(value=True),
            "severity": one_of(2, 3),
            "evaluationFrequency": exactly("PT15M"),
            "windowSize": exactly("PT1H"),
            "muteActionsDuration": UNSET,
            "scopes[]": by_name(log_workspace),
            "criteria.allOf[].failingPeriods.numberOfEvaluationPeriods": exactly(1),
            "criteria.allOf[].failingPeriods.minFailingPeriodsToAlert": exactly(1),
        },
    },
)

FACTS = Facts(
    rules=(ALERTS, ALERTS_ON),
    reviewed={
        ACTION_GROUP: "actionGroupName emailReceivers enabled groupShortName",
        ALERT: "actions.actionGroups autoMitigate criteria displayName overrideQueryTimeRange "
        "ruleName scopes skipQueryValidation",
    },
    tagged=frozenset({ACTION_GROUP, ALERT}),
)
