"""What the security rules know of Azure Monitor's private link."""

from typing import Final

from infra.extras.monitor_link.leaf import SCOPE
from infra.rules.expected import by_name, exactly, log_workspace
from infra.rules.facts import Facts

SCOPE_KIND: Final = "monitor:PrivateLinkScope"
MEMBER_KIND: Final = "monitor:PrivateLinkScopedResource"

FACTS = Facts(
    tables={
        "own-network": {
            SCOPE_KIND: {
                "accessModeSettings.ingestionAccessMode": exactly("Open"),
                "accessModeSettings.queryAccessMode": exactly("Open"),
            },
        },
        "no-copies-outside": {
            MEMBER_KIND: {"linkedResourceId": by_name(log_workspace, lambda s: s.names.insights)}
        },
    },
    reviewed={SCOPE_KIND: "scopeName", MEMBER_KIND: "name"},
    counts=lambda settings: (
        {SCOPE_KIND: 1, MEMBER_KIND: 1 + settings.monitoring.application_insights}
        if "monitor" in settings.endpoint_kinds
        else {}
    ),
    references={MEMBER_KIND: {"scopeName": ("monitor",)}},
    zones={
        "azuremonitor": frozenset(
            {
                "privatelink.monitor.azure.com",
                "privatelink.oms.opinsights.azure.com",
                "privatelink.ods.opinsights.azure.com",
                "privatelink.agentsvc.azure-automation.net",
                "privatelink.blob.core.windows.net",
            }
        )
    },
    tagged=frozenset({SCOPE_KIND}),
    services=lambda settings: {
        "monitor": ("Microsoft.Insights/privateLinkScopes", SCOPE(settings.names))
    },
    endpoints={"monitor": (SCOPE_KIND, "scopeName", ("azuremonitor",))},
)
