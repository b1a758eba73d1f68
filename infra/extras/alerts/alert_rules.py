"""Alert rules as data: the queries of the clusters' logs, and the thresholds of the settings."""

from dataclasses import dataclass

from infra.extras.alerts.leaf import AlertSettings
from infra.naming import Names

PER_CLUSTER = "ClusterName"
PER_RUN = "RunId"
_ATTEMPT = r'@"^(.+)-r\d+$"'
"""Regular expression, as a literal of Azure's query language, of the job names of runs: KEY-rN."""
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
    dimension: str = PER_CLUSTER
    """Column whose values have an alert each. While an alert is open, Azure sends no further notice
    of it (Azure Monitor, "Log search alerts"), so that one for all runs would hide most of them."""
    look_back: str | None = None
    """Time range that the query sees, if not the evaluation window of one hour."""
    severity: int = 2
    """Severity from 0, critical, to 4, verbose."""


def alert_name(names: Names, rule: AlertRule) -> str:
    """Return the name in Azure of the alert of a rule."""
    return f"{names.base}-alert-{rule.name}"


def alert_rules(settings: AlertSettings) -> list[AlertRule]:
    """Return the rules, with the thresholds of the settings."""
    clusters, runs = "AmlComputeClusterEvent", "AmlRunStatusChangedEvent"
    ended = AlertRule(
        "ended",
        "Runs have ended",
        runs,
        '| where Status in~ ("Completed", "Failed", "Canceled")\n'
        f"| where RunId matches regex {_ATTEMPT}\n"
        "| distinct RunId",
        1,
        dimension=PER_RUN,
        severity=4,
    )
    return [
        *([ended] if settings.ended_runs else []),
        # The newest event of a run is that of its newest attempt.
        AlertRule(
            "waiting",
            "Runs ended without completing, and were not submitted again",
            runs,
            f"| extend Run = extract({_ATTEMPT}, 1, RunId)\n"
            "| where isnotempty(Run)\n"
            "| summarize arg_max(TimeGenerated, Status) by Run\n"
            '| where Status in~ ("Failed", "Canceled") and TimeGenerated <'
            f" ago({settings.waiting_minutes}m)",
            1,
            dimension="Run",
            look_back=TWO_DAYS,
            severity=3,
        ),
        AlertRule(
            "preempted",
            "Azure took Spot nodes back",
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
            runs,
            '| where Status =~ "Failed" and (isempty(ParentRunId) or RunId == RootRunId)\n'
            "| summarize Runs = make_set(RunId)\n"
            f"| where array_length(Runs) >= {settings.failed_jobs}\n"
            "| mv-expand RunId = Runs to typeof(string)",
            1,
            dimension=PER_RUN,
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
