"""Conditions of role assignments on blobs: which containers and folders a role applies to.

Format, actions and attributes as in Azure's "Role assignment condition format and syntax" and
"Actions and attributes for Azure Blob Storage". A condition restricts access to blobs only: whoever
may write in a container may still delete the container, so such roles are assigned on containers.
"""

from collections.abc import Sequence
from typing import Final

VERSION: Final = "2.0"
"""Version of the format; role assignments name it."""

_CONTAINERS: Final = "Microsoft.Storage/storageAccounts/blobServices/containers"
_READS: Final = ("blobs/read",)
_WRITES: Final = ("blobs/write", "blobs/add/action", "blobs/delete")
"""All actions by which Storage Blob Data Contributor changes blobs without a hierarchical
namespace."""


def reads_all_but(container: str) -> str:
    """Return the condition to read blobs in every container but one."""
    return _only(_READS, f"@Resource[{_CONTAINERS}:name] StringNotEquals '{container}'")


def writes_below(folder: str) -> str:
    """Return the condition to change only blobs in a folder; it does not restrict reading."""
    return _only(_WRITES, f"@Resource[{_CONTAINERS}/blobs:path] StringStartsWith '{folder}/'")


def _only(actions: Sequence[str], test: str) -> str:
    """Return the condition that the actions pass a test; other actions need not."""
    others = " AND ".join(f"!(ActionMatches{{'{_CONTAINERS}/{action}'}})" for action in actions)
    return f"(({others}) OR ({test}))"
