"""Azure Monitor's private link as a leaf: its setting, its name and the zones of its endpoint."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from infra.catalog.dns_zones import BLOB, Endpoint
from infra.leaf import Leaf
from infra.naming import Limit, Name
from infra.settings import Settings

ZONES: Final = (
    "privatelink.monitor.azure.com",
    "privatelink.oms.opinsights.azure.com",
    "privatelink.ods.opinsights.azure.com",
    "privatelink.agentsvc.azure-automation.net",
)
KIND: Final = "monitor"
"""Kind of its private endpoint; with it, logs are neither sent nor read over public endpoints."""
ADDRESSES: Final = 13
"""Up to 11 for the first log workspace of a scope, and 2 for Application Insights
(MicrosoftDocs/azure-docs, issue 121651)."""
SCOPE: Final = Name(
    "monitor scope",
    lambda names: f"{names.base}-ampls",
    Limit(r"[a-zA-Z0-9][\w.-]*\w", 1, 80),
)


@dataclass(frozen=True)
class LinkSettings:
    """How logs reach Azure Monitor."""

    private_link: bool = False
    """Send logs and metrics through a private link scope. It overrides Azure Monitor's names in the
    whole network and in every network that shares its DNS."""


def _endpoints(settings: Settings) -> Mapping[str, Endpoint]:
    if not settings.of(LinkSettings).private_link:
        return {}
    return {KIND: Endpoint("azuremonitor", (*ZONES, BLOB), ADDRESSES)}


LEAF: Final = Leaf(
    groups={"monitoring": LinkSettings},
    names=(SCOPE,),
    endpoints=_endpoints,
    declare="infra.extras.monitor_link.component:declare",
    facts="infra.extras.monitor_link.security:FACTS",
    types={
        "monitor:PrivateLinkScope": "Microsoft.Insights/privateLinkScopes/{scopeName}",
        "monitor:PrivateLinkScopedResource": (
            "Microsoft.Insights/privateLinkScopes/{scopeName}/scopedResources/{name}"
        ),
    },
)
