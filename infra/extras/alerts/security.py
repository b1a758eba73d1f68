"""Facts for the security rules about the alerts."""

import re
from collections.abc import Sequence
from typing import Final

from infra.catalog import resource_ids
from infra.extras.alerts.alert_rules import AlertRule, alert_rules
from infra.extras.alerts.leaf import AlertSettings
from infra.resources import Resource, entries_at, input_at, of_kind
from infra.rules.facts import Facts
from infra.rules.own_services import targets
from infra.rules.rule import Faults, Rule, canonical, named, one_of
from infra.settings import Settings

ACTION_GROUP: Final = "monitor:ActionGroup"
ALERT: Final = "monitor:ScheduledQueryRule"
_OF: Final = re.compile(r'_ResourceId =~ "([^"]+)"')


def _alerts(resources: Sequence[Resource], settings: Settings) -> Faults:
    people = set()
    for group in of_kind(resources, ACTION_GROUP):
        receivers = entries_at(group, "emailReceivers")
        emails = {receiver.get("emailAddress") for receiver in receivers}
        if input_at(group, "enabled") is True and emails == set(settings.budget.emails):
            people.add(str(input_at(group, "actionGroupName")))
        else:
            yield group, "does not notify exactly the people of budget.emails"
    declared = {
        str(input_at(alert, "ruleName")).rpartition("-alert-")[2]: alert
        for alert in of_kind(resources, ALERT)
    }
    workspace = targets(resources, settings)["workspace"]
    for rule in alert_rules(settings.of(AlertSettings)):
        alert = declared.get(rule.name)
        if alert is None:
            yield None, f"has no alert {rule.name}"
            continue
        notified = entries_at(alert, "actions.actionGroups")
        if not people & {resource_ids.name(str(id_)) for id_ in notified}:
            yield alert, "notifies no action group of the stack"
        if not _asks(alert, rule):
            yield alert, "does not ask what its settings say"
        for id_ in _OF.findall(str(input_at(alert, "criteria"))):
            if not named(id_, *workspace):
                yield alert, f"asks about {id_}, which is not the stack's workspace"


def _asks(alert: Resource, rule: AlertRule) -> bool:
    """Check whether an alert has the one criterion of its rule, about one workspace."""
    wanted = {
        "threshold": rule.threshold,
        "operator": "GreaterThanOrEqual",
        "timeAggregation": "Maximum" if rule.measure_column else "Count",
        "metricMeasureColumn": rule.measure_column,
        "dimensions": [{"name": rule.dimension, "operator": "Include", "values": ["*"]}],
    }
    criteria = entries_at(alert, "criteria.allOf")
    if len(criteria) != 1:
        return False
    filtered = re.escape(f"{rule.table}\n| where ") + _OF.pattern + "\n" + re.escape(rule.query)
    given = {key: criteria[0].get(key) for key in wanted}
    asks = re.fullmatch(filtered, str(criteria[0].get("query")))
    return asks is not None and canonical(given) == canonical(wanted)


ALERTS = Rule(
    "alerts",
    "Pre-empted nodes, idle nodes, failed jobs, unsupervised runs and a quota that is "
    "nearly used up are reported to the people of the stack's settings.",
    "Restore the alert; to change thresholds or people, change the stack's settings.",
    of_stack=_alerts,
)

FACTS = Facts(
    rules=(ALERTS,),
    tables={"as-declared": {ALERT: {"severity": one_of(2, 3, 4)}}},
    references={ALERT: {"scopes[]": ("logs",)}},
)
