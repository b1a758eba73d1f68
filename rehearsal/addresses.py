"""Resources that Azure gives an address, a key or an interface when they are made."""

import uuid

from typing_extensions import override

from rehearsal.kind import Kind, new_id
from rehearsal.paths import ArmPath
from rehearsal.store import Document

REGISTRY = "Microsoft.ContainerRegistry/registries"
LOGS = "Microsoft.OperationalInsights/workspaces"
ENDPOINT = "Microsoft.Network/privateEndpoints"


class Registry(Kind):
    """A container registry."""

    @override
    def complete(self, path: ArmPath, document: Document, before: Document | None) -> None:
        document["properties"]["loginServer"] = f"{path.name.lower()}.azurecr.io"


class Logs(Kind):
    """A workspace of logs."""

    @override
    def complete(self, path: ArmPath, document: Document, before: Document | None) -> None:
        known = {} if before is None else before["properties"]
        document["properties"]["customerId"] = known.get("customerId") or new_id()


class Endpoint(Kind):
    """A private endpoint."""

    @override
    def complete(self, path: ArmPath, document: Document, before: Document | None) -> None:
        properties = document["properties"]
        given = properties.get("customNetworkInterfaceName")
        name = given or f"{path.name}.nic.{uuid.uuid5(uuid.NAMESPACE_URL, path.id.lower())}"
        group = path.parent
        identifier = f"{group}/providers/Microsoft.Network/networkInterfaces/{name}"
        properties["networkInterfaces"] = [{"id": identifier}]
        for connection in properties.get("privateLinkServiceConnections") or []:
            connection.setdefault("properties", {})["privateLinkServiceConnectionState"] = {
                "status": "Approved",
                "description": "Auto-Approved",
                "actionsRequired": "None",
            }


KINDS: dict[str, Kind] = {REGISTRY: Registry(), LOGS: Logs(), ENDPOINT: Endpoint()}
