"""Virtual machines: each needs its network interfaces, and gets an identity."""

from typing import Any

from typing_extensions import override

from rehearsal.control_plane.arm_path import ArmPath
from rehearsal.control_plane.azure_formats import new_id
from rehearsal.control_plane.resource_kind import ResourceKind
from rehearsal.control_plane.resource_manager import ResourceManager
from rehearsal.control_plane.store import Document
from rehearsal.errors import AzureError

MACHINE = "Microsoft.Compute/virtualMachines"
SCHEDULE = "Microsoft.DevTestLab/schedules"


class VirtualMachine(ResourceKind):
    """A machine. Nothing runs in it."""

    def __init__(self, resources: ResourceManager) -> None:
        """Apply the rules to these resources."""
        self._resources = resources

    @override
    def check(self, path: ArmPath, body: Document, before: Document | None) -> None:
        properties = body.get("properties") or {}
        for interface in (properties.get("networkProfile") or {}).get("networkInterfaces") or []:
            _must_exist(self._resources, str(interface["id"]), path)
        profile = properties.get("osProfile") or {}
        linux = profile.get("linuxConfiguration") or {}
        keys = (linux.get("ssh") or {}).get("publicKeys")
        if linux.get("disablePasswordAuthentication") and not keys:
            raise AzureError(
                400,
                "InvalidParameter",
                "Authentication using either SSH or by user name and password must be enabled in"
                " Linux profile.",
            )
        if before is not None and profile != before["properties"].get("osProfile"):
            raise AzureError(
                409,
                "PropertyChangeNotAllowed",
                "Changing property 'osProfile' is not allowed.",
            )

    @override
    def complete(self, path: ArmPath, document: Document, before: Document | None) -> None:
        known: dict[str, Any] = before or {}
        document["properties"]["vmId"] = known.get("properties", {}).get("vmId") or new_id()
        identity = document.get("identity")
        if identity:
            principal = (known.get("identity") or {}).get("principalId")
            identity["principalId"] = principal or new_id()


class Schedule(ResourceKind):
    """The schedule that turns a machine off. Time does not reach it here."""

    def __init__(self, resources: ResourceManager) -> None:
        """Apply the rules to these resources."""
        self._resources = resources

    @override
    def check(self, path: ArmPath, body: Document, before: Document | None) -> None:
        target = str((body.get("properties") or {}).get("targetResourceId"))
        _must_exist(self._resources, target, path)
        expected = f"shutdown-computevm-{target.rpartition('/')[2]}"
        if path.name != expected:
            raise AzureError(
                400,
                "InvalidScheduleId",
                f"The schedule of {target} must be named {expected}, not {path.name}.",
            )


def _must_exist(resources: ResourceManager, identifier: str, path: ArmPath) -> None:
    if resources.get(identifier) is None:
        raise AzureError(
            400,
            "InvalidResourceReference",
            f"Resource {identifier} referenced by resource {path.id} was not found. Please make"
            " sure that the referenced resource exists.",
        )


def kinds(resources: ResourceManager) -> dict[str, ResourceKind]:
    """Return the rules of all kinds of this module."""
    return {MACHINE: VirtualMachine(resources), SCHEDULE: Schedule(resources)}
