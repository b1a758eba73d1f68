"""Role assignments: decide who may access blobs, and who may work in a workspace."""

import re
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import KW_ONLY, dataclass, replace
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from typing import Final

from typing_extensions import override

from rehearsal.blob_storage import role_condition
from rehearsal.blob_storage.role_policy import Access, Assignment, allows
from rehearsal.control_plane.arm_path import ArmPath
from rehearsal.control_plane.http_messages import Request, Respond, Response
from rehearsal.control_plane.identity import Identity
from rehearsal.control_plane.resource_kind import ResourceKind
from rehearsal.control_plane.resource_manager import ResourceManager
from rehearsal.control_plane.store import Document
from rehearsal.errors import AzureError
from rehearsal.resources.storage import ACCOUNT

IDENTITY: Final = "Microsoft.ManagedIdentity/userAssignedIdentities"
ASSIGNMENT: Final = "Microsoft.Authorization/roleAssignments"
DEFINITION: Final = "Microsoft.Authorization/roleDefinitions"
CONTRIBUTOR: Final = "b24988ac-6180-42a0-ab88-20f7382dd24c"
ROLE_ADMINISTRATOR: Final = "f58310d9-a9f6-439a-9e8d-f62e7b41a168"
_OWNER: Final = "8e3af657-a8ff-443c-a75c-2fe8c4bcb635"
_SUBMITTERS: Final = frozenset({CONTRIBUTOR, _OWNER, "f6c7c914-8db3-469d-8ca1-694a8f32e121"})
"""Contributor, Owner and AzureML Data Scientist, which may submit jobs and register assets."""
_APPROVERS: Final = frozenset({CONTRIBUTOR, _OWNER, "b556d68e-0be0-4f35-a333-ad7ee1ce17ea"})
"""Contributor, Owner and Azure AI Enterprise Network Connection Approver."""
_WORK: Final = re.compile(
    r"(?P<workspace>/.+/providers/microsoft\.machinelearningservices/workspaces/[^/]+)"
    r"/(?P<kind>jobs|environments|codes|data|models)/.+",
    re.IGNORECASE,
)
"""Paths of a workspace's jobs and assets."""


def _check_condition(properties: Document) -> None:
    """Raise an AzureError for a condition that cannot be read."""
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
class RoleAssignment(ResourceKind):
    """A role assignment: of a principal that exists, once, and with a condition that is valid."""

    resources: ResourceManager
    knows: Callable[[str], bool]
    """Whether the directory has a principal, by its object id."""

    @override
    def check(self, path: ArmPath, body: Document, before: Document | None) -> None:
        properties = body.get("properties") or {}
        _check_condition(properties)
        principal = str(properties.get("principalId"))
        if not properties.get("principalType") and not self._exists(principal):
            raise AzureError(
                400,
                "PrincipalNotFound",
                f"Principal {principal.replace('-', '')} does not exist in the directory"
                f" {self.resources.tenant_id}. Check that you have the correct principal ID. If you"
                " are creating this principal and then immediately assigning a role, this error"
                " might be related to a replication delay. In this case, set the role assignment"
                " principalType property to a value, such as ServicePrincipal, User, or Group.",
            )
        new = replace(_assignment({"id": path.id, "properties": properties}), condition="")
        if any(
            replace(_assignment(assignment), condition="") == new
            for assignment in self.resources.of_kind(ASSIGNMENT)
            if assignment["id"].lower() != path.id.lower()
        ):
            raise AzureError(409, "RoleAssignmentExists", "The role assignment already exists.")

    @override
    def complete(self, path: ArmPath, document: Document, before: Document | None) -> None:
        author = document["systemData"]
        document["properties"] = {
            "principalType": "ServicePrincipal",
            "scope": path.id.rpartition("/providers/")[0],
            "createdOn": author["createdAt"],
            "createdBy": author["createdBy"],
            "updatedOn": author["lastModifiedAt"],
            "updatedBy": author["lastModifiedBy"],
            **document["properties"],
        }

    def _exists(self, principal: str) -> bool:
        """Whether a principal is in the directory, or is the identity of a resource."""
        return self.knows(principal) or any(
            principal.lower() in str(resource.get(part)).lower()
            for resource in self.resources.below()
            for part in ("identity", "properties")
            if part == "identity" or resource["type"] == IDENTITY
        )


class RoleDefinition(ResourceKind):
    """A role that users have defined."""

    @override
    def complete(self, path: ArmPath, document: Document, before: Document | None) -> None:
        author = document["systemData"]
        document["properties"] |= {
            "type": "CustomRole",
            "createdOn": author["createdAt"],
            "createdBy": author["createdBy"],
            "updatedOn": author["lastModifiedAt"],
            "updatedBy": author["lastModifiedBy"],
        }


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
        resource = next((item["id"] for item in accounts if item["name"] == account), None)
        if resource is None:
            return False
        if container:
            resource += f"/blobServices/default/containers/{container}"
        members = frozenset({principal.lower()}) | self.identity.groups(principal)
        return allows(self._effective(), members, resource, access, path)

    def check_contributor(self, principal: str, resource: str) -> None:
        """Raise an AzureError if roles have a delay and a principal is not yet Contributor on a
        resource.
        """
        wanted = Assignment(principal.lower(), CONTRIBUTOR, resource.lower())
        if self.delay_seconds and wanted not in self._effective():
            raise _unauthorized(principal, "Microsoft.Storage/storageAccounts/read", resource)

    def may_approve(self, principal: str, resource: str) -> bool:
        """Check whether a principal may approve private endpoints to a resource."""
        return self.has_one(principal, resource, _APPROVERS)

    def has_one(self, principal: str, resource: str, wanted: AbstractSet[str]) -> bool:
        """Check whether a principal has one of some roles, by GUID, on a resource."""
        members = {principal.lower()} | self.identity.groups(principal)
        return not self.required or any(
            assignment.principal in members
            and assignment.role in wanted
            and f"{resource.lower()}/".startswith(f"{assignment.scope}/")
            for assignment in self._effective()
        )

    def check_submitter(self, principal: str, workspace: str, kind: str) -> None:
        """Raise an AzureError if roles are needed, and a principal has none that allows it to
        change jobs or assets of a workspace.

        Args:
            principal: Object id of the principal.
            workspace: Id of the workspace.
            kind: Collection that it would change, such as jobs.
        """
        action = f"Microsoft.MachineLearningServices/workspaces/{kind}/write"
        if not self.has_one(principal, workspace, {*_SUBMITTERS, *self._defined(action)}):
            raise _unauthorized(principal, action, workspace)

    def _defined(self, action: str) -> Iterator[str]:
        """Yield the GUIDs of the roles that users have defined and that allow an action."""
        for definition in self.resources.of_kind(DEFINITION):
            for permission in definition["properties"].get("permissions", ()):
                given, excluded = (
                    any(fnmatchcase(action.lower(), pattern.lower()) for pattern in patterns)
                    for patterns in (permission["actions"], permission.get("notActions", ()))
                )
                if given and not excluded:
                    yield definition["name"].lower()

    def check_change(self, request: Request) -> None:
        """Raise an AzureError if a user-assigned identity makes a change that none of its roles
        allows. Other principals are not bound by roles of Resource Manager.
        """
        if not any(
            item["properties"]["principalId"].lower() == request.caller.lower()
            for item in self.resources.of_kind(IDENTITY)
        ):
            return
        members = {request.caller.lower()} | self.identity.groups(request.caller)
        held = [
            item
            for item in self._effective()
            if item.principal in members and f"{request.path.lower()}/".startswith(f"{item.scope}/")
        ]
        verb = "delete" if request.method == "DELETE" else "write"
        role = self._assigned_role(request)
        action = f"{ASSIGNMENT}/{verb}" if role else verb
        operation = role_condition.Operation(action, role=role)
        if not any(
            item.role == (ROLE_ADMINISTRATOR if role else CONTRIBUTOR)
            and (not item.condition or role_condition.parse(item.condition)(operation))
            for item in held
        ):
            raise _unauthorized(request.caller, action, request.path)

    def _assigned_role(self, request: Request) -> str:
        """Return the GUID of the role that a request assigns or removes; empty for any other."""
        if f"/{ASSIGNMENT}/".lower() not in request.path.lower():
            return ""
        body = self.resources.get(request.path) if request.method == "DELETE" else request.json()
        properties = (body or {}).get("properties") or {}
        return str(properties.get("roleDefinitionId", "")).lower().rpartition("/")[2] or "none"

    def _effective(self) -> list[Assignment]:
        oldest = datetime.now(UTC) - timedelta(seconds=self.delay_seconds)
        return [
            _assignment(document)
            for document in self.resources.of_kind(ASSIGNMENT)
            if datetime.fromisoformat(document["systemData"]["createdAt"]) <= oldest
        ]


@dataclass(frozen=True)
class Workers:
    """Lets only those who may submit jobs change the jobs and assets of a workspace, and identities
    make only changes that their roles allow.
    """

    next: Respond
    """Responds to requests to Resource Manager."""
    roles: Roles

    def respond(self, request: Request) -> Response:
        """Respond to a request below /subscriptions.

        Raises:
            AzureError: the caller lacks a role on the workspace.
        """
        work = _WORK.fullmatch(request.path)
        if work is not None and request.method not in {"GET", "HEAD"}:
            self.roles.check_submitter(request.caller, work["workspace"], work["kind"].lower())
        elif request.method in {"PUT", "PATCH", "DELETE"}:
            self.roles.check_change(request)
        return self.next(request)


def _unauthorized(principal: str, action: str, resource: str) -> AzureError:
    return AzureError(
        403,
        "AuthorizationFailed",
        f"The client '{principal}' with object id '{principal}' does not have authorization to"
        f" perform action '{action}' over scope '{resource}'. If access was recently granted,"
        " please refresh your credentials.",
    )


def _assignment(document: Document) -> Assignment:
    properties = document["properties"]
    scope, _, _ = document["id"].lower().rpartition("/providers/")
    return Assignment(
        principal=str(properties.get("principalId", "")).lower(),
        role=str(properties.get("roleDefinitionId", "")).lower().rpartition("/")[2],
        scope=scope,
        condition=properties.get("condition") or "",
    )
