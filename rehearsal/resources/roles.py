"""Role assignments: decide who may read and write which blobs."""

from dataclasses import KW_ONLY, dataclass
from typing import Final

from typing_extensions import override

from rehearsal.blob_storage import role_condition
from rehearsal.blob_storage.role_policy import Access, Assignment, allows
from rehearsal.control_plane.arm_path import ArmPath
from rehearsal.control_plane.identity import Identity
from rehearsal.control_plane.resource_kind import ResourceKind
from rehearsal.control_plane.resource_manager import ResourceManager
from rehearsal.control_plane.store import Document
from rehearsal.errors import AzureError
from rehearsal.resources.storage import ACCOUNT

ASSIGNMENT: Final = "Microsoft.Authorization/roleAssignments"


class RoleAssignment(ResourceKind):
    """A role assignment, whose condition must be valid."""

    @override
    def check(self, path: ArmPath, body: Document, before: Document | None) -> None:
        properties = body.get("properties") or {}
        condition, version = properties.get("condition"), properties.get("conditionVersion")
        if not condition:
            return
        try:
            role_condition.parse(condition)
        except ValueError as error:
            raise AzureError(400, "RoleAssignmentConditionNotValid", f"{error}.") from error
        if version != "2.0":
            raise AzureError(
                400, "RoleAssignmentConditionNotValid", f"The condition's version is {version}."
            )


@dataclass(frozen=True)
class Roles:
    """Decides by the role assignments that Resource Manager has at the time."""

    resources: ResourceManager
    identity: Identity
    _: KW_ONLY
    required: bool
    """Whether roles are needed at all; otherwise everything is allowed."""

    def allow(
        self, principal: str, account: str, container: str, access: Access, path: str = ""
    ) -> bool:
        """Check whether a principal may access a blob or folder, or a container itself.

        Args:
            principal: Object id of the principal.
            account: Name of the storage account.
            container: Name of the container; empty for operations on the account itself.
            access: The requested access.
            path: Path of the blob in the container, or of a folder with a slash at its end.
        """
        if not self.required:
            return True
        accounts = self.resources.of_kind(ACCOUNT)
        resource = next((one["id"] for one in accounts if one["name"] == account), None)
        if resource is None:
            return False
        if container:
            resource += f"/blobServices/default/containers/{container}"
        members = frozenset({principal.lower()}) | self.identity.groups(principal)
        assignments = (_assignment(one) for one in self.resources.of_kind(ASSIGNMENT))
        return allows(assignments, members, resource, access, path)


def _assignment(document: Document) -> Assignment:
    properties = document["properties"]
    scope, _, _ = document["id"].lower().rpartition("/providers/")
    return Assignment(
        principal=str(properties.get("principalId", "")).lower(),
        role=str(properties.get("roleDefinitionId", "")).lower().rpartition("/")[2],
        scope=scope,
        condition=properties.get("condition") or "",
    )
