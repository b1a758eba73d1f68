"""Private DNS zones by the endpoint that needs them, in the public cloud.

Source: Azure Private Link, "Private DNS zone values"; Azure Machine Learning, "Use your workspace
with a custom DNS server". Sovereign clouds have other names.
"""

from collections.abc import Collection, Mapping
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
    addresses: int = 1
    """Addresses that the endpoint takes of its subnet."""


ENDPOINTS: Final[dict[str, Endpoint]] = {
    "workspace": Endpoint("amlworkspace", (WORKSPACE_API, WORKSPACE_NOTEBOOKS), addresses=3),
    "registry": Endpoint("registry", (REGISTRY,), addresses=2),
    "blob": Endpoint("blob", (BLOB,)),
    "file": Endpoint("file", (FILE,)),
    "vault": Endpoint("vault", (VAULT,)),
}
"""Kinds of private endpoints that every stack has. A further sub-resource also needs its service in
`SERVICES`, its endpoint in `service_endpoints` of `composition/connectivity.py`, and its place in
`GROUPS` of `rules/network.py`."""
SERVICES: Final[Mapping[str, tuple[str, ...]]] = {
    "default_storage": ("blob", "file"),
    "data_storage": ("blob",),
    "registry": ("registry",),
    "vault": ("vault",),
}
"""Kinds of the endpoints of each service that may have endpoints already."""


def addresses(endpoints: Mapping[str, Endpoint], existing: Collection[str] = ()) -> int:
    """Return the number of addresses that the endpoints of a stack take.

    Args:
        endpoints: kinds of private endpoints of the stack.
        existing: services of `SERVICES` that have endpoints elsewhere already.
    """
    of_services = {kind for kinds in SERVICES.values() for kind in kinds}
    declared = [kind for kind in endpoints if kind not in of_services]
    for service, kinds in SERVICES.items():
        declared += [] if service in existing else kinds
    return sum(endpoints[kind].addresses for kind in declared)


def needed(endpoints: Mapping[str, Endpoint]) -> tuple[str, ...]:
    """Return every zone that the network must resolve, each once, in a stable order.

    Args:
        endpoints: kinds of private endpoints of the stack.
    """
    return tuple(dict.fromkeys(zone for one in endpoints.values() for zone in one.zones))
