"""Role assignments: who may read and write which blobs, and who a job acts as."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from rehearsal.blob_storage.blobs import Place
from rehearsal.control_plane.identity import Identity
from rehearsal.control_plane.resource_manager import Resources
from rehearsal.control_plane.store import Document
from rehearsal.errors import AzureError
from rehearsal.machine_learning.job_spec import JobSpec
from rehearsal.resources.storage import ACCOUNT

ASSIGNMENT: Final = "Microsoft.Authorization/roleAssignments"
MISMATCH: Final = "AuthorizationPermissionMismatch"
"""Azure Storage's word for a role that is missing."""
REFUSAL: Final = "This request is not authorized to perform this operation using this permission."

Access: TypeAlias = Literal["read", "write"]

BLOB_DATA_READER: Final = "2a2b9908-6ea1-4ae2-8e65-a410df84e7d1"
BLOB_DATA_CONTRIBUTOR: Final = "ba92f5b4-2d11-453d-a403-e96b0029c9fe"
BLOB_DATA_OWNER: Final = "b7e6dc6d-f1e8-4753-8033-0f276bb0955b"
_GIVEN: Final[Mapping[str, frozenset[Access]]] = {
    BLOB_DATA_READER: frozenset({"read"}),
    BLOB_DATA_CONTRIBUTOR: frozenset({"read", "write"}),
    BLOB_DATA_OWNER: frozenset({"read", "write"}),
}
"""What a role lets its holder do with blobs, by the GUIDs of Azure's list of built-in roles. Owner
and Contributor of resources give nothing: they are of the control plane."""


class AccessDeniedError(AzureError):
    """What a job acts as lacks a role."""


@dataclass(frozen=True)
class Assignment:
    """A role that somebody has on something. All in lower case."""

    principal: str
    """Object id of an identity, a program or a group."""
    role: str
    """GUID of its definition."""
    scope: str
    """Id of a subscription, group or resource; the role holds for all below it."""


@dataclass(frozen=True)
class Actor:
    """Who a job is to storage."""

    name: str
    principal: str
    """Object id."""


def allows(
    assignments: Iterable[Assignment], members: frozenset[str], resource: str, access: Access
) -> bool:
    """Whether a role lets somebody do something with blobs. Pure.

    Args:
        assignments: all that there are.
        members: the principal and the groups that it is in, in lower case.
        resource: id of an account or a container.
        access: what is to be done.
    """
    below = f"{resource.lower()}/"
    return any(
        one.principal in members
        and access in _GIVEN.get(one.role, frozenset())
        and below.startswith(f"{one.scope}/")
        for one in assignments
    )


class Roles:
    """Asks the assignments that Resource Manager holds."""

    def __init__(self, resources: Resources, identity: Identity, *, asked_for: bool) -> None:
        """Judge by what is stored at the time.

        Args:
            resources: where assignments, accounts and identities are.
            identity: knows who is in which group.
            asked_for: whether anybody needs a role at all.
        """
        self._resources = resources
        self._identity = identity
        self._asked_for = asked_for

    def allow(self, principal: str, account: str, container: str, access: Access) -> bool:
        """Whether somebody may do something with the blobs of a container.

        Args:
            principal: object id.
            account: name of the storage account.
            container: empty for what is asked of the account itself.
            access: what is to be done.
        """
        if not self._asked_for:
            return True
        found = (one["id"] for one in self._resources.of_kind(ACCOUNT) if one["name"] == account)
        resource = next(found, None)
        if resource is None:
            return False
        if container:
            resource += f"/blobServices/default/containers/{container}"
        members = frozenset({principal.lower()}) | self._identity.groups(principal)
        return allows(self._assignments(), members, resource, access)

    def require_of_job(self, spec: JobSpec, folder: str, place: Place, access: Access) -> None:
        """Refuse a job's folder that what it acts as may not open.

        Args:
            spec: the job.
            folder: as the job calls it, such as `input data`.
            place: what the folder stands for.
            access: what is to be done.

        Raises:
            AccessDeniedError: a role is missing, or there is nobody who could have one.
        """
        if not self._asked_for:
            return
        actor = self._actor(spec)
        if actor is not None and self.allow(
            actor.principal, place.account, place.container, access
        ):
            return
        who = (
            f"The cluster {spec.cluster.rpartition('/')[2]} has no identity"
            + (f" of client id {spec.identity}." if spec.identity else ".")
            if actor is None
            else f"The job acts as {actor.name} (object id {actor.principal})."
        )
        raise AccessDeniedError(
            403,
            MISMATCH,
            "ScriptExecution.StreamAccess.Authentication: permission denied to"
            f" {access} the job's {folder}, container {place.container} of {place.account}:"
            f" {MISMATCH}: {REFUSAL} {who}",
        )

    def _actor(self, spec: JobSpec) -> Actor | None:
        """The submitter if the job says so, and otherwise its cluster's identity."""
        if spec.as_submitter:
            return Actor(spec.submitter, spec.submitter)
        cluster = self._resources.get(spec.cluster) or {}
        wanted = (spec.identity or "").lower()
        for identifier in (cluster.get("identity") or {}).get("userAssignedIdentities") or {}:
            found = self._resources.get(identifier)
            if found is not None and wanted in {"", found["properties"]["clientId"].lower()}:
                return Actor(found["name"], found["properties"]["principalId"])
        return None

    def _assignments(self) -> list[Assignment]:
        return [_assignment(document) for document in self._resources.of_kind(ASSIGNMENT)]


def _assignment(document: Document) -> Assignment:
    properties = document["properties"]
    scope, _, _ = document["id"].lower().rpartition("/providers/")
    return Assignment(
        principal=str(properties.get("principalId", "")).lower(),
        role=str(properties.get("roleDefinitionId", "")).lower().rpartition("/")[2],
        scope=scope,
    )
