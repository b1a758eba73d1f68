"""Containers of the platform, by identity only, and what is in them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import requests
from azure.core.credentials import TokenCredential
from azure.core.exceptions import AzureError, HttpResponseError
from azure.core.pipeline.transport import RequestsTransport
from azure.storage.blob import ContainerClient
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry

from infra.outputs import Datastore, PlatformOutputs
from jobs.azure.error_messages import explained
from jobs.errors import AccessError, RequestError

CONNECT_SECONDS: Final = 20
READ_SECONDS: Final = 60
MIB: Final = 1 << 20
CHECKED_CHUNK: Final = 4 * MIB
"""Largest part of a blob that the service gives a checksum of while it is read."""
XXH128: Final = "xxh128"
"""Metadata of a blob: the manifest's checksum of a shard."""

_NETWORK: Final = "AuthorizationFailure"
"""Storage's code for a network that is not let in; a missing role has another."""


@dataclass(frozen=True, slots=True)
class Blob:
    """A blob as its container lists it."""

    name: str
    """Below the folder that was listed."""
    size: int
    md5: bytes | None
    """Of the whole content, where its writer said so."""
    xxh128: str | None
    etag: str
    modified: float
    """Seconds since 1970."""


def container(
    datastore: Datastore,
    credential: TokenCredential,
    *,
    connections: int = 10,
    retries: int = 4,
) -> ContainerClient:
    """A container of the platform, at the address that the stack exported.

    Args:
        datastore: which one.
        credential: who asks.
        connections: that are kept open; as many as there are threads which use the client.
        retries: of what fails for a moment; 0 where the caller repeats by itself.
    """
    session = requests.Session()
    # Repeating is the pipeline's, as in the session that it would make itself.
    session.mount(
        "https://",
        HTTPAdapter(
            pool_maxsize=connections,
            max_retries=Retry(total=False, redirect=False, raise_on_status=False),
        ),
    )
    transport = RequestsTransport(
        session=session,
        session_owner=False,
        connection_timeout=CONNECT_SECONDS,
        read_timeout=READ_SECONDS,
    )
    return ContainerClient(
        datastore.blob_endpoint.rstrip("/"),
        datastore.container,
        credential=credential,
        transport=transport,
        retry_total=retries,
        initial_backoff=1,
        increment_base=2,
        max_single_get_size=CHECKED_CHUNK,
        max_chunk_get_size=CHECKED_CHUNK,
    )


def listed(client: ContainerClient, folder: str) -> dict[str, Blob]:
    """All blobs below a folder, by their names in it.

    Raises:
        AzureError: it cannot be listed.
    """
    prefix = f"{folder.rstrip('/')}/"
    found = {}
    for item in client.list_blobs(name_starts_with=prefix, include=["metadata"]):
        metadata: Mapping[str, str] = item.metadata or {}
        if metadata.get("hdi_isfolder") == "true":
            # What some programs put in the place of a folder.
            continue
        name = str(item.name)[len(prefix) :]
        md5 = item.content_settings.content_md5
        found[name] = Blob(
            name=name,
            size=int(item.size),
            md5=bytes(md5) if md5 else None,
            xxh128=metadata.get(XXH128),
            etag=str(item.etag),
            modified=item.last_modified.timestamp(),
        )
    return found


def read_small(client: ContainerClient, name: str) -> bytes | None:
    """A blob that fits in memory; none if it is not there.

    Raises:
        AzureError: it cannot be read.
    """
    try:
        content: Any = client.download_blob(name, validate_content=True).readall()
    except HttpResponseError as error:
        if error.status_code == 404 and error.error_code != "ContainerNotFound":  # type: ignore[attr-defined]
            return None
        raise
    return bytes(content)


def refused(
    error: AzureError,
    datastore: Datastore,
    outputs: PlatformOutputs,
    who: Callable[[], str | None],
    *,
    writing: bool,
) -> RequestError:
    """The error to raise in place of one of a container's.

    Args:
        error: Azure's.
        datastore: that was asked.
        outputs: of the stack.
        who: tells who is signed in, if anyone is.
        writing: whether it was to be written.
    """
    what = f"container {datastore.container} of {datastore.account}"
    status = error.status_code if isinstance(error, HttpResponseError) else None
    if status != 403 or _NETWORK in str(error):
        return explained(error, what, outputs, who)
    name = who()
    role = "Storage Blob Data Contributor" if writing else "Storage Blob Data Reader"
    group = "people.scientists"
    if writing and datastore != outputs.datastores.results:
        group = "people.publishers"
    return AccessError(
        f"{what}: refused ({getattr(error, 'error_code', None) or status})\n"
        f"{f'signed in as {name}, who' if name else 'whoever is signed in'} needs the role {role}"
        f" on it; the stack {outputs.stack} gives it to the group {group}, and a new role may take"
        " some minutes to be known",
        status,
    )
