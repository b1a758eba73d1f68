"""Facts for the security rules about the alerts."""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from infra.catalog import resource_ids
from infra.extras.alerts.leaf import AlertSettings
from infra.resources import Resource, entries_at, input_at, of_kind
from infra.rules.expected import ON, canonical, exactly, one_of
from infra.rules.facts import Facts
from infra.rules.own_services import targets
from infra.rules.rule import Faults, Rule, named
from infra.settings import Settings

ACTION_GROUP: Final = "monitor:ActionGroup"
ALERT: Final = "monitor:ScheduledQueryRule"


@dataclass(frozen=True)
class Reviewed:
    """One alert as it was reviewed."""

    query: str
    """First digits of the SHA-256 of its query, without the workspace and the settings in it."""
    dimension: str = "ClusterName"
    threshold: Callable[[AlertSettings], int] = lambda _: 1
    measure: str | None = None
    asks: Callable[[AlertSettings], int] | None = None
    """Minutes or number of runs in its query."""


ALERTS_REVIEWED: Final[Mapping[str, Reviewed]] = {
    "ended": Reviewed("907d356f06780953", "RunId"),
    "waiting": Reviewed("dc7d4cb05fe7fddd", "Run", asks=lambda s: s.waiting_minutes),
    "preempted": Reviewed(
        "541edd3c815fde81", threshold=lambda s: s.preempted_nodes, measure="Preempted"
    ),
    "idle": Reviewed("a9c53a79311904c1", asks=lambda s: s.idle_minutes),
    "failed": Reviewed("a815e4d0cd01a142", "RunId", asks=lambda s: s.failed_jobs),
    "quota": Reviewed("10bc7bd55e1798d6", threshold=lambda s: s.quota_percent, measure="Percent"),
}
"""The alerts of a stack, by the end of their names; `ended` only if the settings ask for it."""

_ASKED: Final = re.compile(r"(?<=ago\()\d+(?=m\))|(?<=array_length\(Runs\) >= )\d+")
_OF: Final = re.compile(r'_ResourceId =~ "([^"]+)"')


def _alerts(resources: Sequence[Resource], settings: Settings) -> Faults:
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
    declared = {
        str(input_at(alert, "ruleName")).rpartition("-alert-")[2]: alert
        for alert in of_kind(resources, ALERT)
    }
    own = settings.of(AlertSettings)
    type_, workspace = dict(targets(resources, settings))["workspace"]
    for name, reviewed in ALERTS_REVIEWED.items():
        alert = declared.get(name)
        if alert is None:
            if name != "ended" or own.ended_runs:
                yield None, f"has no alert {name}"
            continue
        notified = [
            resource_ids.name(str(id_)) for id_ in entries_at(alert, "actions.actionGroups")
        ]
        if not {str(input_at(group, "actionGroupName")) for group in people} & set(notified):
            yield alert, "notifies no action group of the stack"
        criteria = entries_at(alert, "criteria.allOf")
        if not _asks(criteria, reviewed, own):
            yield alert, "does not ask what was reviewed"
        for id_ in _OF.findall(str([criterion.get("query") for criterion in criteria])):
            if not named(id_, type_, workspace):
                yield alert, f"asks about {id_}, which is not the stack's workspace"


def _asks(criteria: Sequence[Mapping[str, Any]], reviewed: Reviewed, own: AlertSettings) -> bool:
    """Check whether an alert has the one criterion that was reviewed, with the set threshold."""
    wanted = {
        "threshold": reviewed.threshold(own),
        "operator": "GreaterThanOrEqual",
        "timeAggregation": "Maximum" if reviewed.measure else "Count",
        "metricMeasureColumn": reviewed.measure,
        "dimensions": [{"name": reviewed.dimension, "operator": "Include", "values": ["*"]}],
    }
    query = str(criteria[0].get("query")) if criteria else ""
    asked = [reviewed.asks(own)] if reviewed.asks else []
    text = _OF.sub('_ResourceId =~ "WORKSPACE"', query, count=1)
    digest = hashlib.sha256(_ASKED.sub("SET", text).encode()).hexdigest()
    return (
        len(criteria) == 1
        and all(
            canonical(criteria[0].get(key)) == canonical(value) for key, value in wanted.items()
        )
        and [int(text) for text in _ASKED.findall(query)] == asked
        and digest.startswith(reviewed.query)
    )


ALERTS = Rule(
    "alerts",
    "Pre-empted nodes, idle nodes, failed jobs, unsupervised runs and a quota that is "
    "nearly used up are reported to the people of the stack's settings.",
    "Restore the alert; to change thresholds or people, change the stack's settings.",
    of_stack=_alerts,
)

ALERTS_ON = Rule(
    "alerts-on",
    "Alert rules are enabled, and run every quarter of an hour.",
    "Restore the input.",
    {
        ALERT: {
            "enabled": ON,
            "severity": one_of(2, 3, 4),
            "evaluationFrequency": exactly("PT15M"),
        },
    },
)

FACTS = Facts(rules=(ALERTS, ALERTS_ON), references={ALERT: {"scopes[]": ("logs",)}})
