"""Decides whether roles allow a principal to read or write blobs. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from rehearsal.blob_storage import role_condition
from rehearsal.blob_storage.role_condition import CONTAINERS, Operation

Access: TypeAlias = Literal["read", "write"]

BLOB_DATA_READER: Final = "2a2b9908-6ea1-4ae2-8e65-a410df84e7d1"
BLOB_DATA_CONTRIBUTOR: Final = "ba92f5b4-2d11-453d-a403-e96b0029c9fe"
BLOB_DATA_OWNER: Final = "b7e6dc6d-f1e8-4753-8033-0f276bb0955b"
_GIVEN: Final[Mapping[str, frozenset[Access]]] = {
    BLOB_DATA_READER: frozenset({"read"}),
    BLOB_DATA_CONTRIBUTOR: frozenset({"read", "write"}),
    BLOB_DATA_OWNER: frozenset({"read", "write"}),
}
"""Access to blobs that a role gives, by the GUIDs of Azure's built-in roles. Owner and Contributor
give none: they are roles of the control plane."""

_ACTIONS: Final[Mapping[Access, tuple[str, ...]]] = {
    "read": ("blobs/read",),
    "write": ("blobs/write", "blobs/add/action", "blobs/delete"),
}
"""Data actions of an access to blobs; a condition must allow all of them."""
_WHOLE_CONTAINER: Final = ("write",)
"""The action that creates or deletes a container, which no condition restricts."""


@dataclass(frozen=True)
class Assignment:
    """A role of a principal on a scope, all in lower case."""

    principal: str
    """Object id of an identity, a program or a group."""
    role: str
    """GUID of the role definition."""
    scope: str
    """Id of a subscription, group or resource; the role applies to everything below it."""
    condition: str = ""
    """Condition in its own case; empty for none."""


def allows(
    assignments: Iterable[Assignment],
    members: frozenset[str],
    resource: str,
    access: Access,
    path: str = "",
) -> bool:
    """Check whether the assignments allow an access to blobs.

    Args:
        assignments: All role assignments.
        members: The principal and the groups that it is a member of, in lower case.
        resource: Id of an account or a container.
        access: The requested access.
        path: Path of the blob in the container, or of a folder with a slash at its end; empty for
            an operation on the container.

    Raises:
        ValueError: an assignment has a condition that is not supported.
    """
    _, _, container = resource.partition("/blobServices/default/containers/")
    actions = _WHOLE_CONTAINER if access == "write" and not path else _ACTIONS[access]
    operations = [Operation(f"{CONTAINERS}/{action}", container, path) for action in actions]
    below = f"{resource.lower()}/"
    return any(
        assignment.principal in members
        and access in _GIVEN.get(assignment.role, frozenset())
        and below.startswith(f"{assignment.scope}/")
        and (
            not assignment.condition
            or all(map(role_condition.parse(assignment.condition), operations))
        )
        for assignment in assignments
    )
