"""Role assignments: who may read and write which blobs."""

from typing import Final

from rehearsal.blob_storage.role_policy import Access, Assignment, allows
from rehearsal.control_plane.identity import Identity
from rehearsal.control_plane.resource_manager import ResourceManager
from rehearsal.control_plane.store import Document
from rehearsal.resources.storage import ACCOUNT

ASSIGNMENT: Final = "Microsoft.Authorization/roleAssignments"


class Roles:
    """Judges by the assignments that Resource Manager holds at the time."""

    def __init__(self, resources: ResourceManager, identity: Identity, *, required: bool) -> None:
        """Judge nothing yet.

        Args:
            resources: where assignments and accounts are.
            identity: knows the members of groups.
            required: whether roles are needed at all; without, everything is allowed.
        """
        self._resources = resources
        self._identity = identity
        self.required = required

    def allow(self, principal: str, account: str, container: str, access: Access) -> bool:
        """Whether a principal may access the blobs of a container.

        Args:
            principal: object id.
            account: name of the storage account.
            container: empty for what concerns the account itself.
            access: what is to be done.
        """
        if not self.required:
            return True
        accounts = self._resources.of_kind(ACCOUNT)
        resource = next((one["id"] for one in accounts if one["name"] == account), None)
        if resource is None:
            return False
        if container:
            resource += f"/blobServices/default/containers/{container}"
        members = frozenset({principal.lower()}) | self._identity.groups(principal)
        assignments = (_assignment(one) for one in self._resources.of_kind(ASSIGNMENT))
        return allows(assignments, members, resource, access)


def _assignment(document: Document) -> Assignment:
    properties = document["properties"]
    scope, _, _ = document["id"].lower().rpartition("/providers/")
    return Assignment(
        principal=str(properties.get("principalId", "")).lower(),
        role=str(properties.get("roleDefinitionId", "")).lower().rpartition("/")[2],
        scope=scope,
    )
