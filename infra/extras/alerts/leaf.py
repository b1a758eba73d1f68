"""The alerts as a leaf: their thresholds, and the names of their resources."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Final

from common.annotations import Bounds
from infra.leaf import Check, Leaf
from infra.naming import ANY, Limit, Name
from infra.settings import Settings

GROUP: Final = Name("action group", lambda names: f"{names.base}-alerts", ANY)
SENDER: Final = Name(
    "action group's short name", lambda names: names.prefix, Limit(r"[a-zA-Z0-9-]+", 1, 12)
)
"""Sender of text messages and subject of e-mails."""


@dataclass(frozen=True)
class AlertSettings:
    """Thresholds of the alerts."""

    preempted_nodes: Annotated[int, Bounds(1)] = 1
    """Alert when this many nodes were pre-empted within an hour."""

    idle_minutes: Annotated[int, Bounds(5, 1440)] = 60
    """Alert when a cluster keeps idle nodes for this many minutes."""

    failed_jobs: Annotated[int, Bounds(1)] = 1
    """Alert of each failed job once this many failed within an hour."""

    waiting_minutes: Annotated[int, Bounds(15, 1440)] = 60
    """Alert when a run has failed or was cancelled, and was not submitted again for this many
    minutes; a supervisor submits a run again sooner."""

    ended_runs: bool = False
    """Alert of every run that ends, for teams without a webhook."""

    quota_percent: Annotated[int, Bounds(1, 100)] = 90
    """Alert when this percentage of the quota is in use."""


def _emails(settings: Settings) -> Iterator[str]:
    emails = settings.budget.emails
    if not emails:
        yield "budget.emails: is empty; give at least one e-mail address to notify"
    times = Counter(one.lower() for one in emails)
    for email in (one for one, count in times.items() if count > 1):
        yield f"budget.emails: contains {email} twice; Azure refuses two receivers of one address"


LEAF: Final = Leaf(
    groups={"monitoring": AlertSettings},
    checks=(Check(("budget.emails",), _emails),),
    names=(GROUP, SENDER),
    declare="infra.extras.alerts.component:declare",
    facts="infra.extras.alerts.security:FACTS",
    types={
        "monitor:ActionGroup": "Microsoft.Insights/actionGroups/{actionGroupName}",
        "monitor:ScheduledQueryRule": "Microsoft.Insights/scheduledQueryRules/{ruleName}",
    },
)
