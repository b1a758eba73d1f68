"""Facts for the security rules about Azure Monitor's private link."""

from typing import Final

from infra.extras.monitor_link.leaf import SCOPE
from infra.rules.facts import Facts
from infra.settings import MonitoringSettings

SCOPE_KIND: Final = "monitor:PrivateLinkScope"
MEMBER_KIND: Final = "monitor:PrivateLinkScopedResource"


def _members(monitoring: MonitoringSettings) -> int:
    """Return how many resources of the stack are in the scope."""
    return (monitoring.existing_log_workspace is None) + monitoring.application_insights


FACTS = Facts(
    counts=lambda settings: (
        {SCOPE_KIND: 1, MEMBER_KIND: _members(settings.monitoring)}
        if "monitor" in settings.endpoint_kinds
        else {}
    ),
    references={MEMBER_KIND: {"scopeName": ("monitor",), "linkedResourceId": ("insights", "logs")}},
    services=lambda settings: {
        "monitor": ("Microsoft.Insights/privateLinkScopes", SCOPE(settings.names))
    },
)
