"""The identity that a job uses, and whether it may access the job's folders."""

from dataclasses import dataclass

from rehearsal.blob_storage.blobs import NOT_AUTHORIZED, PERMISSION_MISMATCH, BlobPath
from rehearsal.blob_storage.role_policy import Access
from rehearsal.control_plane.resource_manager import ResourceManager
from rehearsal.errors import AzureError
from rehearsal.machine_learning.job_spec import JobSpec
from rehearsal.resources.roles import Roles


class AccessDeniedError(AzureError):
    """The identity of a job lacks a role."""


@dataclass(frozen=True)
class Principal:
    """Who a job acts as."""

    name: str
    object_id: str


def require_access(
    resources: ResourceManager,
    roles: Roles,
    spec: JobSpec,
    folder: str,
    path: BlobPath,
    access: Access,
) -> None:
    """Raise an error if a job's identity may not access a folder.

    Args:
        resources: Resources, with the cluster and its identities.
        roles: Decides about the access.
        spec: The job.
        folder: Folder as the job names it, such as `input data`.
        path: Location of the folder's blobs.
        access: The requested access.

    Raises:
        AccessDeniedError: a role is missing, or the job has no identity that could have one.
    """
    if not roles.required:
        return
    principal = principal_of(resources, spec)
    if principal is not None:
        below = f"{path.path}/"
        if roles.allow(principal.object_id, path.account, path.container, access, below):
            return
        who = f"The job acts as {principal.name} (object id {principal.object_id})."
    else:
        cluster = spec.cluster.rpartition("/")[2]
        client_id = f" of client id {spec.identity}" if spec.identity else ""
        who = f"The cluster {cluster} has no identity{client_id}."
    raise AccessDeniedError(
        403,
        PERMISSION_MISMATCH,
        "ScriptExecution.StreamAccess.Authentication: permission denied to"
        f" {access} the job's {folder}, container {path.container} of {path.account}:"
        f" {PERMISSION_MISMATCH}: {NOT_AUTHORIZED} {who}",
    )


def principal_of(resources: ResourceManager, spec: JobSpec) -> Principal | None:
    """Return the submitter if the job says so, otherwise an identity of its cluster."""
    if spec.as_submitter:
        return Principal(spec.submitter, spec.submitter)
    cluster = resources.get(spec.cluster) or {}
    client_id = (spec.identity or "").lower()
    for identifier in (cluster.get("identity") or {}).get("userAssignedIdentities") or {}:
        identity = resources.get(identifier)
        if identity is not None and client_id in {"", identity["properties"]["clientId"].lower()}:
            return Principal(identity["name"], identity["properties"]["principalId"])
    return None
