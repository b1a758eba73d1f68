"""Alert rules as data: the queries of the clusters' logs, and the thresholds of the settings."""

from dataclasses import dataclass

from infra.settings import MonitoringSettings

PER_CLUSTER = "ClusterName"
TWO_DAYS = "P2D"
"""Longest time range that a rule may query."""


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


def alert_rules(settings: MonitoringSettings) -> list[AlertRule]:
    """Return the rules, with the thresholds of the settings."""
    clusters = "AmlComputeClusterEvent"
    return [
        AlertRule(
            "preempted",
            "Azure took low-priority nodes back",
            clusters,
            "| project TimeGenerated, ClusterName, Preempted = toint(PreemptedNodeCount)",
            settings.preempted_nodes,
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
            f"| where IdleNodeCount > 0 and Since < ago({settings.idle_minutes}m)",
            1,
            look_back=TWO_DAYS,
        ),
        AlertRule(
            "failed",
            "Jobs failed",
            "AmlRunStatusChangedEvent",
            '| where Status =~ "Failed" and (isempty(ParentRunId) or RunId == RootRunId)\n'
            "| distinct RunId",
            settings.failed_jobs,
            dimension=None,
        ),
        AlertRule(
            "quota",
            "The quota of cores is nearly used up",
            clusters,
            "| extend Percent = 100.0 * todouble(QuotaUtilized) / todouble(QuotaAllocated)\n"
            "| where isfinite(Percent)\n"
            "| project TimeGenerated, ClusterName, Percent",
            settings.quota_percent,
            measure_column="Percent",
            severity=3,
        ),
    ]
