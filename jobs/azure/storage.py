"""Blob storage of the platform: clients of its containers (Entra ID only), and their blobs."""

import hashlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import requests
from azure.core.credentials import TokenCredential
from azure.core.exceptions import HttpResponseError
from azure.core.pipeline.transport import RequestsTransport
from azure.storage.blob import ContainerClient, ContentSettings
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry

from infra.outputs import Datastore, Datastores, PlatformOutputs
from jobs.azure.requests import Requests
from jobs.errors import AccessError

CONNECT_SECONDS: Final = 20
READ_SECONDS: Final = 60
BACKOFF: Mapping[str, Any] = {"initial_backoff": 1, "increment_base": 2}
"""First pause before a retry in seconds, and the base by which further pauses grow; see
`azure.storage.blob.ExponentialRetry`."""
MIB: Final = 1 << 20
CHECKED_CHUNK: Final = 4 * MIB
"""Largest range of a blob in bytes for which the service returns a checksum."""
XXH128: Final = "xxh128"
"""Metadata key of a blob with the checksum of a shard in the manifest."""

_NETWORK: Final = "AuthorizationFailure"
"""Storage's error code for a network without access; a missing role has another code."""


@dataclass(frozen=True, slots=True)
class Blob:
    """A blob as its container lists it."""

    name: str
    """Name relative to the listed folder."""
    size: int
    md5: bytes | None
    """MD5 of the whole content, or None if its writer did not set it."""
    xxh128: str | None
    etag: str
    modified: float
    """Seconds since 1970."""


class Storage:
    """Containers of one stack, at the URLs in its outputs.

    Args:
        outputs: Outputs of the stack.
        credential: Credential of the user.
        requests: Explains errors.
    """

    def __init__(
        self, outputs: PlatformOutputs, credential: TokenCredential, requests: Requests
    ) -> None:
        self._outputs, self._credential, self._requests = outputs, credential, requests

    @property
    def datastores(self) -> Datastores:
        """Datastores of the stack by purpose."""
        return self._outputs.datastores

    def container(
        self, datastore: Datastore, *, connections: int = 10, retries: int = 4
    ) -> ContainerClient:
        """Create a client of a container.

        Args:
            datastore: Datastore of the container.
            connections: Connections to keep open; the number of threads that use the client.
            retries: Maximum retries after transient errors; 0 if the caller retries.
        """
        url = f"{datastore.blob_endpoint.rstrip('/')}/{datastore.container}"
        return client(url, self._credential, connections=connections, retries=retries)

    def read(self, datastore: Datastore, name: str) -> bytes | None:
        """Read a small blob of a datastore; None if it does not exist.

        Raises:
            RequestError: Storage cannot be read from here.
        """
        with self.errors(datastore):
            return read_small(self.container(datastore), name)

    @contextmanager
    def errors(self, datastore: Datastore, *, writing: bool = False) -> Iterator[None]:
        """Convert Azure's errors in this context to those of `jobs.errors`.

        Args:
            datastore: Datastore that is accessed.
            writing: Whether it is written.

        Raises:
            RequestError: A request failed; the subclass tells why.
        """
        with self._requests.errors(_name(datastore)):
            try:
                yield
            except HttpResponseError as error:
                if error.status_code == 403 and _NETWORK not in str(error):
                    raise self._role_missing(error, datastore, writing=writing) from error
                raise

    def _role_missing(
        self, error: HttpResponseError, datastore: Datastore, *, writing: bool
    ) -> AccessError:
        user, stack = self._requests.user(), self._outputs.stack
        role = "Storage Blob Data Contributor" if writing else "Storage Blob Data Reader"
        group = "people.scientists"
        if writing and datastore != self.datastores.results:
            group = "people.publishers"
        return AccessError(
            f"{_name(datastore)}: access denied ({getattr(error, 'error_code', None) or 403})\n"
            f"the signed-in user{f' {user}' if user else ''} needs the role {role} on it; the stack"
            f" {stack} assigns it to the group {group}; a new role may take some minutes to take"
            " effect",
            403,
        )


def client(
    url: str,
    credential: TokenCredential | None = None,
    *,
    connections: int = 10,
    retries: int = 4,
) -> ContainerClient:
    """Create a client of a container by its URL.

    Args:
        url: URL of the container, which may contain a signature.
        credential: Credential of the user; None if the URL contains a signature.
        connections: Connections to keep open; the number of threads that use the client.
        retries: Maximum retries after transient errors; 0 if the caller retries.
    """
    session = requests.Session()
    # Retries belong to the pipeline, as in the session that it would create itself.
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
    return ContainerClient.from_container_url(
        url,
        credential=credential,
        transport=transport,
        retry_total=retries,
        **BACKOFF,
        max_single_get_size=CHECKED_CHUNK,
        max_chunk_get_size=CHECKED_CHUNK,
    )


def listed(client: ContainerClient, folder: str) -> dict[str, Blob]:
    """List all blobs in a folder, by their names relative to it.

    Raises:
        AzureError: The folder cannot be listed.
    """
    prefix = f"{folder.rstrip('/')}/"
    blobs = {}
    for item in client.list_blobs(name_starts_with=prefix, include=["metadata"]):
        metadata: Mapping[str, str] = item.metadata or {}
        if metadata.get("hdi_isfolder") == "true":
            # Some programs create such a blob for a folder.
            continue
        name = str(item.name)[len(prefix) :]
        md5 = item.content_settings.content_md5
        blobs[name] = Blob(
            name=name,
            size=int(item.size),
            md5=bytes(md5) if md5 else None,
            xxh128=metadata.get(XXH128),
            etag=str(item.etag),
            modified=item.last_modified.timestamp(),
        )
    return blobs


def read_small(client: ContainerClient, name: str) -> bytes | None:
    """Read a blob that fits in memory; None if it does not exist.

    Raises:
        AzureError: The blob cannot be read.
    """
    try:
        content: Any = client.download_blob(name, validate_content=True).readall()
    except HttpResponseError as error:
        if error.status_code == 404 and error.error_code != "ContainerNotFound":  # type: ignore[attr-defined]
            return None
        raise
    return bytes(content)


def put_files(
    client: ContainerClient, folder: str, contents: Mapping[str, bytes], threads: int = 8
) -> None:
    """Write small files to a folder of a container with their hashes, overwriting existing ones.

    Args:
        client: Client of the container.
        folder: Folder in the container.
        contents: Contents by name relative to the folder.
        threads: Number of threads that upload.

    Raises:
        AzureError: The container refused a request.
    """
    with ThreadPoolExecutor(threads) as pool:
        sending = [
            pool.submit(
                client.upload_blob,
                f"{folder}/{name}",
                content,
                overwrite=True,
                validate_content=True,
                content_settings=ContentSettings(content_md5=bytearray(md5_of(content))),
            )
            for name, content in contents.items()
        ]
        try:
            for blob in sending:
                blob.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def md5_of(content: bytes) -> bytes:
    """Return the MD5 that storage keeps of a blob."""
    return hashlib.md5(content, usedforsecurity=False).digest()


def _name(datastore: Datastore) -> str:
    return f"container {datastore.container} of {datastore.account}"
