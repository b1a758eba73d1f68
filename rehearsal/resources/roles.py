"""Role assignments: decide who may read and write which blobs."""

from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime, timedelta
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
CONTRIBUTOR: Final = "b24988ac-6180-42a0-ab88-20f7382dd24c"


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
    delay_seconds: float = 0.0
    """Time until an assignment has an effect."""

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
        return allows(self._effective(), members, resource, access, path)

    def check_contributor(self, principal: str, resource: str) -> None:
        """Raise an AzureError if roles have a delay and a principal is no Contributor on a resource
        yet.
        """
        wanted = Assignment(principal.lower(), CONTRIBUTOR, resource.lower())
        if self.delay_seconds and wanted not in self._effective():
            raise AzureError(
                403,
                "AuthorizationFailed",
                f"The client '{principal}' with object id '{principal}' does not have authorization"
                f" to perform action 'Microsoft.Storage/storageAccounts/read' over scope"
                f" '{resource}'. If access was recently granted, please refresh your credentials.",
            )

    def _effective(self) -> list[Assignment]:
        oldest = datetime.now(UTC) - timedelta(seconds=self.delay_seconds)
        return [
            _assignment(document)
            for document in self.resources.of_kind(ASSIGNMENT)
            if datetime.fromisoformat(document["systemData"]["createdAt"]) <= oldest
        ]


def _assignment(document: Document) -> Assignment:
    properties = document["properties"]
    scope, _, _ = document["id"].lower().rpartition("/providers/")
    return Assignment(
        principal=str(properties.get("principalId", "")).lower(),
        role=str(properties.get("roleDefinitionId", "")).lower().rpartition("/")[2],
        scope=scope,
        condition=properties.get("condition") or "",
    )
