"""Private DNS zones by the endpoint that needs them, in the public cloud.

Source: Azure Private Link, "Private DNS zone values"; Azure Machine Learning, "Use your workspace
with a custom DNS server". Sovereign clouds have other names.
"""

from dataclasses import dataclass
from typing import Final, Literal

EndpointKind = Literal["workspace", "registry", "blob", "file", "vault", "monitor"]

WORKSPACE_API: Final = "privatelink.api.azureml.ms"
"""Also holds the workspace's certificate name, as ID.workspace.REGION.cert (SAP Private Link
service, "Azure Machine Learning"). Some templates add a zone privatelink.cert.api.azureml.ms, but
no document of Azure names a record in it."""
WORKSPACE_NOTEBOOKS: Final = "privatelink.notebooks.azure.net"
BLOB: Final = "privatelink.blob.core.windows.net"
"""Shared by both storage accounts and Azure Monitor's private link scope, so it is declared once
per network."""
FILE: Final = "privatelink.file.core.windows.net"
VAULT: Final = "privatelink.vaultcore.azure.net"
REGISTRY: Final = "privatelink.azurecr.io"
"""Also holds the registry's data endpoint."""
MONITOR: Final = (
    "privatelink.monitor.azure.com",
    "privatelink.oms.opinsights.azure.com",
    "privatelink.ods.opinsights.azure.com",
    "privatelink.agentsvc.azure-automation.net",
)


@dataclass(frozen=True)
class Endpoint:
    """One kind of private endpoint, and the DNS zones that it needs."""

    group: str
    """Sub-resource of the service that the endpoint connects to (`group_ids`)."""
    zones: tuple[str, ...]
    """DNS zones of the endpoint, all in one zone group."""


ENDPOINTS: Final[dict[EndpointKind, Endpoint]] = {
    "workspace": Endpoint("amlworkspace", (WORKSPACE_API, WORKSPACE_NOTEBOOKS)),
    "registry": Endpoint("registry", (REGISTRY,)),
    "blob": Endpoint("blob", (BLOB,)),
    "file": Endpoint("file", (FILE,)),
    "vault": Endpoint("vault", (VAULT,)),
    "monitor": Endpoint("azuremonitor", (*MONITOR, BLOB)),
}


def needed(*, monitor: bool) -> tuple[str, ...]:
    """Return every zone that the network must resolve, each once, in a stable order.

    Args:
        monitor: whether Azure Monitor is reached through a private link scope.
    """
    kinds: tuple[EndpointKind, ...] = ("workspace", "registry", "blob", "file", "vault")
    names = [zone for kind in kinds for zone in ENDPOINTS[kind].zones]
    if monitor:
        names += MONITOR
    return tuple(names)
