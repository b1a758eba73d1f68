"""Private DNS zones by the endpoint that needs them, in the public cloud.

Source: Azure Private Link, "Private DNS zone values"; Azure Machine Learning, "Use your workspace
with a custom DNS server". Sovereign clouds have other names.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

WORKSPACE_API: Final = "privatelink.api.azureml.ms"
"""Also holds the workspace's certificate name, as ID.workspace.REGION.cert (SAP Private Link
service, "Azure Machine Learning"). Some templates add a zone privatelink.cert.api.azureml.ms, but
no document of Azure names a record in it."""
WORKSPACE_NOTEBOOKS: Final = "privatelink.notebooks.azure.net"
BLOB: Final = "privatelink.blob.core.windows.net"
"""Shared by both storage accounts, and by whatever else keeps blobs, so it is declared once per
network."""
FILE: Final = "privatelink.file.core.windows.net"
VAULT: Final = "privatelink.vaultcore.azure.net"
REGISTRY: Final = "privatelink.azurecr.io"
"""Also holds the registry's data endpoint."""


@dataclass(frozen=True)
class Endpoint:
    """One kind of private endpoint, and the DNS zones that it needs."""

    group: str
    """Sub-resource of the service that the endpoint connects to (`group_ids`)."""
    zones: tuple[str, ...]
    """DNS zones of the endpoint, all in one zone group."""
    copies: int = 0
    """Copies of the service in other regions, each of which takes one more address."""


ENDPOINTS: Final[dict[str, Endpoint]] = {
    "workspace": Endpoint("amlworkspace", (WORKSPACE_API, WORKSPACE_NOTEBOOKS)),
    "registry": Endpoint("registry", (REGISTRY,)),
    "blob": Endpoint("blob", (BLOB,)),
    "file": Endpoint("file", (FILE,)),
    "vault": Endpoint("vault", (VAULT,)),
}
"""Kinds of private endpoints that every stack has."""


def needed(endpoints: Mapping[str, Endpoint]) -> tuple[str, ...]:
    """Return every zone that the network must resolve, each once, in a stable order.

    Args:
        endpoints: kinds of private endpoints of the stack.
    """
    return tuple(dict.fromkeys(zone for one in endpoints.values() for zone in one.zones))
