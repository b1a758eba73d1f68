"""What belongs to a deployment in Azure Monitor: scaling, logs and alerts, as bodies. Pure.

Metrics and log categories as in Azure Monitor's references of
Microsoft.MachineLearningServices/workspaces/onlineEndpoints and its deployments.
"""

from collections.abc import Mapping
from typing import Any, Final

from infra.outputs import PlatformOutputs
from jobs.extras.serving.bodies import serving_of

AUTOSCALE: Final = "2022-10-01"
DIAGNOSTICS: Final = "2021-05-01-preview"
ALERTS: Final = "2018-03-01"
LOGS: Final = (
    "AmlOnlineEndpointTrafficLog",
    "AmlOnlineEndpointConsoleLog",
    "AmlOnlineEndpointEventLog",
)
BUSY_PERCENT: Final = 70
"""Processor load above which an instance is added."""
IDLE_PERCENT: Final = 25
"""Load below which one is removed: after that, half as many instances stay below `BUSY_PERCENT`."""
_METRICS: Final = "Microsoft.MachineLearningServices/workspaces/onlineEndpoints"
_INSIGHTS: Final = "providers/Microsoft.Insights"


def autoscale_path(group_id: str, endpoint: str, deployment: str) -> str:
    """Return the id of a deployment's scaling rules."""
    return f"{group_id}/{_INSIGHTS}/autoscaleSettings/{endpoint}-{deployment}"


def autoscale_body(
    outputs: PlatformOutputs, target: str, name: str, least: int, most: int
) -> dict[str, Any]:
    """Build scaling rules: by processor load, one instance at a time."""
    rules = [
        {
            "metricTrigger": {
                "metricName": "CpuUtilizationPercentage",
                "metricResourceUri": target,
                "timeGrain": "PT1M",
                "statistic": "Average",
                "timeWindow": window,
                "timeAggregation": "Average",
                "operator": operator,
                "threshold": threshold,
            },
            "scaleAction": {
                "direction": direction,
                "type": "ChangeCount",
                "value": "1",
                "cooldown": "PT10M",
            },
        }
        for window, operator, threshold, direction in (
            ("PT5M", "GreaterThan", BUSY_PERCENT, "Increase"),
            ("PT15M", "LessThan", IDLE_PERCENT, "Decrease"),
        )
    ]
    capacity = {"minimum": str(least), "maximum": str(most), "default": str(least)}
    return {
        "location": outputs.region,
        "tags": {"stack": outputs.stack, "managed-by": "jobs"},
        "properties": {
            "name": name,
            "enabled": True,
            "targetResourceUri": target,
            "profiles": [{"name": "load", "capacity": capacity, "rules": rules}],
        },
    }


def diagnostics_path(endpoint_id: str) -> str:
    """Return the id of the setting that keeps an endpoint's logs."""
    return f"{endpoint_id}/{_INSIGHTS}/diagnosticSettings/logs"


def diagnostics_body(outputs: PlatformOutputs) -> dict[str, Any]:
    """Build the setting that sends logs and metrics to the stack's log workspace."""
    return {
        "properties": {
            "workspaceId": serving_of(outputs).log_workspace,
            "logAnalyticsDestinationType": "Dedicated",
            "logs": [{"category": name, "enabled": True} for name in LOGS],
            "metrics": [{"category": "AllMetrics", "enabled": True}],
        }
    }


def alert_paths(group_id: str, endpoint: str) -> dict[str, str]:
    """Return the ids of an endpoint's alerts, by their subject."""
    return {
        kind: f"{group_id}/{_INSIGHTS}/metricAlerts/{endpoint}-{kind}"
        for kind in ("failures", "latency")
    }


def alert_bodies(
    outputs: PlatformOutputs, endpoint_id: str, latency_ms: int
) -> dict[str, dict[str, Any]]:
    """Build the alerts: requests that the service failed to answer, and slow answers.

    Args:
        outputs: Outputs of the stack.
        endpoint_id: Resource id of the endpoint.
        latency_ms: 99th percentile of the time to an answer that is reported, in milliseconds.
    """
    name = endpoint_id.rpartition("/")[2]
    return {
        "failures": _alert(
            outputs,
            endpoint_id,
            f"Endpoint {name} fails to answer requests (status 5xx)",
            {
                "metricName": "RequestsPerMinute",
                "threshold": 0,
                "dimensions": [
                    {"name": "statusCodeClass", "operator": "Include", "values": ["5xx"]}
                ],
            },
        ),
        "latency": _alert(
            outputs,
            endpoint_id,
            f"One request in a hundred to endpoint {name} takes more than {latency_ms} ms",
            {"metricName": "RequestLatency_P99", "threshold": latency_ms, "dimensions": []},
        ),
    }


def _alert(
    outputs: PlatformOutputs, endpoint_id: str, text: str, criterion: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "location": "global",
        "tags": {"stack": outputs.stack, "managed-by": "jobs"},
        "properties": {
            "description": text,
            "severity": 2,
            "enabled": True,
            "autoMitigate": True,
            "scopes": [endpoint_id],
            "evaluationFrequency": "PT5M",
            "windowSize": "PT15M",
            "criteria": {
                "odata.type": "Microsoft.Azure.Monitor.SingleResourceMultipleMetricCriteria",
                "allOf": [
                    {
                        "name": "criterion",
                        "criterionType": "StaticThresholdCriterion",
                        "metricNamespace": _METRICS,
                        "operator": "GreaterThan",
                        "timeAggregation": "Average",
                        **criterion,
                    }
                ],
            },
            "actions": [{"actionGroupId": serving_of(outputs).action_group}],
        },
    }
