"""Conditions of role assignments on blobs: which containers and folders a role applies to.

Format, actions and attributes as in Azure's "Role assignment condition format and syntax" and
"Actions and attributes for Azure Blob Storage". A condition restricts access to blobs only: a
principal that may write in a container may still delete the container, so such roles are assigned
on containers.
"""

from collections.abc import Sequence
from typing import Final

VERSION: Final = "2.0"
"""Version of the format; role assignments name it."""

_CONTAINERS: Final = "Microsoft.Storage/storageAccounts/blobServices/containers"
_NAME: Final = f"@Resource[{_CONTAINERS}:name]"
_PATH: Final = f"@Resource[{_CONTAINERS}/blobs:path]"


def reads_all_but(container: str, *, except_below: Sequence[str]) -> str:
    """Return the condition to read blobs in every container but one, and in some of its folders. It
    does not restrict listing, as a list has no path.
    """
    read = f"ActionMatches{{'{_CONTAINERS}/blobs/read'}} AND NOT SubOperationMatches{{'Blob.List'}}"
    folders = "".join(f" OR {_PATH} StringStartsWith '{folder}/'" for folder in except_below)
    return f"((!({read})) OR ({_NAME} StringNotEquals '{container}'{folders}))"


def writes_below(folder: str) -> str:
    """Return the condition to change only blobs in a folder; it does not restrict reading."""
    # All actions by which Storage Blob Data Contributor changes blobs in an account without a
    # hierarchical namespace.
    writes = [
        f"!(ActionMatches{{'{_CONTAINERS}/blobs/{action}'}})"
        for action in ("write", "add/action", "delete")
    ]
    return f"(({' AND '.join(writes)}) OR ({_PATH} StringStartsWith '{folder}/'))"
