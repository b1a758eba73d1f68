"""The copy of an export that a version of a model is: a run's own export may be written again."""

import time
from typing import Final

from azure.core import MatchConditions
from azure.core.exceptions import ResourceModifiedError, ResourceNotFoundError
from azure.storage.blob import BlobClient, ContainerClient

from common.errors import UserError
from jobs.azure.storage import Blob, listed
from jobs.transfer.local_files import listing

MODELS: Final = "models"
"""Folder of the container of results: a folder each model, with one each version."""
COPY_SECONDS: Final = 600.0
"""For one file; within one account it is most often done at once."""
_POLL: Final = 0.5


def folder_of(name: str, version: str) -> str:
    """Where a version's files are, in the container of results."""
    return f"{MODELS}/{name}/{version}"


def copy(client: ContainerClient, source: str, target: str) -> int:
    """Make a folder of a container like another one, within storage.

    Args:
        client: of the container.
        source: folder to copy.
        target: folder that is like it then; other files in it are deleted.

    Returns:
        Files in it.

    Raises:
        UserError: the source changed meanwhile, or the copy is not like it.
        AzureError: the container refuses.
    """
    wanted = listed(client, source)
    there = listed(client, target)
    for name in there.keys() - wanted.keys():
        # Of a registration that was cut off before the export was another one.
        client.delete_blob(f"{target}/{name}")
    try:
        for name, blob in wanted.items():
            if blob.md5 is None or differs(blob, there.get(name)):
                _copy_one(client, f"{source}/{name}", blob, f"{target}/{name}")
    except (ResourceModifiedError, ResourceNotFoundError) as error:
        raise _changing(source) from error
    if {name: blob.etag for name, blob in listed(client, source).items()} != {
        name: blob.etag for name, blob in wanted.items()
    }:
        raise _changing(source)
    compare(target, wanted, listed(client, target))
    return len(wanted)


def compare(target: str, wanted: dict[str, Blob], there: dict[str, Blob]) -> None:
    """Compare a copy with what was copied. Pure.

    Raises:
        UserError: names, sizes or hashes differ.
    """
    wrong = [f"{name}: is not to be there" for name in sorted(there.keys() - wanted.keys())]
    for name, blob in sorted(wanted.items()):
        why = differs(blob, there.get(name))
        if why:
            wrong.append(f"{name}: {why}")
    if wrong:
        raise UserError(f"{target}: is not a copy of the export; try again:\n{listing(wrong)}")


def differs(blob: Blob, copied: Blob | None) -> str | None:
    """How a copy differs from its blob; none if it does not. Pure."""
    if copied is None:
        return "missing"
    if copied.size != blob.size:
        return f"{copied.size} bytes, not {blob.size}"
    if copied.md5 != blob.md5:
        return "has another MD5"
    return None


def _copy_one(client: ContainerClient, source: str, blob: Blob, target: str) -> None:
    copied = client.get_blob_client(target)
    started = copied.start_copy_from_url(
        client.get_blob_client(source).url,
        source_etag=blob.etag,
        source_match_condition=MatchConditions.IfNotModified,
    )
    state = str(started["copy_status"])
    ends = time.monotonic() + COPY_SECONDS
    while state == "pending" and time.monotonic() < ends:
        time.sleep(_POLL)
        state = _state(copied)
    if state != "success":
        raise UserError(f"{target}: could not be copied within storage ({state}); try again")


def _state(copied: BlobClient) -> str:
    return str(copied.get_blob_properties().copy.status)


def _changing(source: str) -> UserError:
    return UserError(
        f"{source}: changed while it was copied, so nothing was registered; wait until the run's"
        " job has ended and give the same command again"
    )
