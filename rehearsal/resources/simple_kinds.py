"""Resources to which Azure gives an address or an id when they are made."""

from typing_extensions import override

from rehearsal.control_plane.arm_path import ArmPath
from rehearsal.control_plane.resource_kind import Kind, new_id
from rehearsal.control_plane.store import Document


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


class Key(Kind):
    """A key of a vault; nobody can use it."""

    @override
    def complete(self, path: ArmPath, document: Document, before: Document | None) -> None:
        vault = path.parent.rpartition("/")[2]
        known = {} if before is None else before["properties"]
        address = f"https://{vault}.vault.azure.net/keys/{path.name}"
        document["properties"]["keyUri"] = address
        document["properties"]["keyUriWithVersion"] = (
            known.get("keyUriWithVersion") or f"{address}/{new_id().replace('-', '')}"
        )


KINDS: dict[str, Kind] = {
    "Microsoft.ContainerRegistry/registries": Registry(),
    "Microsoft.KeyVault/vaults/keys": Key(),
    "Microsoft.OperationalInsights/workspaces": Logs(),
}
