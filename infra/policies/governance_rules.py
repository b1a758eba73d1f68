"""Rules on tags, logs, budget and locks."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from infra.alert_rules import alert_rules
from infra.catalog import resource_ids
from infra.policies.data_rules import by_name, log_workspace
from infra.policies.expected import (
    UNSET,
    Expected,
    as_set,
    exactly,
    one_of,
    table_rule,
    violated,
)
from infra.policies.rule import ResourceRule, StackRule, named
from infra.resources import (
    BASTION,
    EXTENSION,
    GROUP,
    IDENTITY,
    INSIGHTS,
    INTERFACE,
    LOGS,
    MACHINE,
    NETWORK,
    REGISTRY,
    SCHEDULE,
    STORAGE,
    VAULT,
    WORKSPACE,
    Resource,
    entries_at,
    input_at,
    of_kind,
)
from infra.settings import Settings
from infra.validation import REQUIRED_TAGS as TAGS

TAGGED = frozenset(
    {
        BASTION,
        EXTENSION,
        GROUP,
        IDENTITY,
        INSIGHTS,
        INTERFACE,
        LOGS,
        MACHINE,
        NETWORK,
        REGISTRY,
        SCHEDULE,
        STORAGE,
        VAULT,
        WORKSPACE,
        "machinelearningservices:Compute",
        "monitor:ActionGroup",
        "monitor:PrivateLinkScope",
        "monitor:ScheduledQueryRule",
        "network:FlowLog",
        "network:NatGateway",
        "network:NetworkSecurityGroup",
        "network:PrivateEndpoint",
        "network:PublicIPAddress",
        "network:ServiceEndpointPolicy",
        "privatedns:PrivateZone",
        "privatedns:VirtualNetworkLink",
    }
)
"""Types whose resources carry tags."""

ALL_LOGS = frozenset({"allLogs"})
WRITES = frozenset({"StorageWrite", "StorageDelete"})
LOGGING = {
    WORKSPACE: ("Microsoft.MachineLearningServices/workspaces", "workspaceName", "", ALL_LOGS),
    VAULT: ("Microsoft.KeyVault/vaults", "vaultName", "", ALL_LOGS),
    REGISTRY: ("Microsoft.ContainerRegistry/registries", "registryName", "", ALL_LOGS),
    STORAGE: ("Microsoft.Storage/storageAccounts", "accountName", "/blobServices/default", WRITES),
    "storage:FileServiceProperties": (
        "Microsoft.Storage/storageAccounts",
        "accountName",
        "/fileServices/default",
        WRITES,
    ),
    LOGS: ("Microsoft.OperationalInsights/workspaces", "workspaceName", "", frozenset({"audit"})),
    NETWORK: ("Microsoft.Network/virtualNetworks", "virtualNetworkName", "", ALL_LOGS),
    "network:NetworkSecurityGroup": (
        "Microsoft.Network/networkSecurityGroups",
        "networkSecurityGroupName",
        "",
        ALL_LOGS,
    ),
    BASTION: ("Microsoft.Network/bastionHosts", "bastionHostName", "", ALL_LOGS),
    "network:PublicIPAddress": (
        "Microsoft.Network/publicIPAddresses",
        "publicIpAddressName",
        "",
        ALL_LOGS,
    ),
}
"""Services that write resource logs: the Azure type, the input with the name, the path of the part
that writes the logs, and the log categories that must be collected."""

ACTION_GROUP = "monitor:ActionGroup"
ALERT = "monitor:ScheduledQueryRule"
BUDGET_KIND = "consumption:Budget"
DIAGNOSTIC = "monitor:DiagnosticSetting"

BUDGET_INPUTS = {
    "amount": as_set(lambda settings: settings.budget.amount),
    "category": exactly("Cost"),
    "timeGrain": exactly("Monthly"),
    "timePeriod.startDate": as_set(lambda s: f"{s.budget.start}T00:00:00Z"),
    "timePeriod.endDate": UNSET,
    "filter": UNSET,
    "scope": Expected(
        lambda s: f"the resource group {s.names.resource_group}",
        lambda given, s: (
            str(given).lower().endswith(f"/resourcegroups/{s.names.resource_group}".lower())
        ),
    ),
}

LOCKS = re.compile(r"authorization:ManagementLock(?!AtResourceLevel)\w*")
WHOLE_GROUP = re.compile(
    r"/subscriptions/[^/]+(/resourceGroups/[^/]+"
    r"(/providers/Microsoft\.Network/virtualNetworks/[^/]+)?)?/?",
    re.IGNORECASE,
)


def _tags(resource: Resource, _settings: Settings) -> Iterator[str]:
    if resource.kind not in TAGGED:
        return
    missing = sorted(set(TAGS) - {key for key, text in _mapping(resource, "tags") if text})
    if missing:
        yield f"has no tag {', '.join(missing)}"


REQUIRED_TAGS = ResourceRule(
    "required-tags",
    "Every resource that can have tags carries the stack's tags, which identify its owner and cost "
    "center.",
    "Pass the stack's tags when the resource is declared.",
    _tags,
)


def _budget(
    resources: Sequence[Resource], settings: Settings
) -> Iterator[tuple[Resource | None, str]]:
    budgets = of_kind(resources, BUDGET_KIND)
    if not budgets:
        yield None, "has no budget"
    planned = {
        *(("Actual", percent) for percent in settings.budget.actual_percent),
        *(("Forecasted", percent) for percent in settings.budget.forecast_percent),
    }
    for budget in budgets:
        for path, expected in BUDGET_INPUTS.items():
            for fault in violated(budget, path, expected, settings):
                yield budget, fault
        reached = {
            (notification.get("thresholdType"), notification.get("threshold"))
            for _, notification in _mapping(budget, "notifications")
            if notification.get("enabled")
            and notification.get("operator") == "GreaterThanOrEqualTo"
            and set(settings.budget.emails) <= set(notification.get("contactEmails") or ())
        }
        for kind, percent in sorted(planned - reached):
            yield budget, f"does not notify everybody at {percent:g} % of {kind.lower()} spending"


BUDGET = StackRule(
    "budget-present",
    "The stack has the budget of its settings, which notifies the people in them of actual and of "
    "forecast spending.",
    "Declare one; to change amount, percentages or people, change the stack's settings.",
    _budget,
)


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
    for rule in alert_rules(settings.monitoring):
        alert = declared.get(settings.names.alert(rule.name))
        if alert is None:
            yield None, f"has no alert {settings.names.alert(rule.name)}"
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
            yield alert, "does not ask for what infra/alert_rules.py states"


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


def _diagnostics(
    resources: Sequence[Resource], _settings: Settings
) -> Iterator[tuple[Resource | None, str]]:
    logs: dict[str, set[str]] = {}
    for setting in of_kind(resources, DIAGNOSTIC):
        enabled = {
            str(log.get("categoryGroup") or log.get("category"))
            for log in entries_at(setting, "logs")
            if log.get("enabled") and input_at(setting, "workspaceId")
        }
        logs.setdefault(str(input_at(setting, "resourceUri")).lower(), set()).update(enabled)
    for service in of_kind(resources, *LOGGING):
        provider, key, part, wanted = LOGGING[service.kind]
        name = f"{input_at(service, key)}{part}"
        sent = [enabled for uri, enabled in logs.items() if named(uri, provider, name)]
        if not any(wanted <= enabled for enabled in sent):
            yield service, f"no diagnostic setting sends its {' and '.join(sorted(wanted))}"


DIAGNOSTICS = StackRule(
    "diagnostics",
    "Workspace, vault, registry, the blob service of every account, the log workspace, Bastion and "
    "the network's security groups send their logs to the log workspace.",
    "Declare a DiagnosticSetting for this service.",
    _diagnostics,
)


def _locks(resource: Resource, _settings: Settings) -> Iterator[str]:
    if not LOCKS.fullmatch(resource.kind):
        return
    scope = str(input_at(resource, "scope") or "")
    if not resource.kind.endswith("ByScope") or WHOLE_GROUP.fullmatch(scope):
        yield f"locks {scope or 'a group or subscription'}"


NO_GROUP_LOCK = ResourceRule(
    "no-group-lock",
    "No resource group, subscription or network is locked: Azure Machine Learning could then "
    "neither scale its clusters nor delete them.",
    "Lock individual resources by scope, or use Pulumi's protect option.",
    _locks,
)

RULES = (REQUIRED_TAGS, BUDGET, ALERTS, ALERTS_ON, DIAGNOSTICS, NO_GROUP_LOCK)


def _mapping(resource: Resource, path: str) -> list[tuple[str, Mapping[str, Any]]]:
    mapping = input_at(resource, path)
    return list(mapping.items()) if isinstance(mapping, Mapping) else []
