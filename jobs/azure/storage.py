"""Blob storage of the platform: clients of its containers (Entra ID only), and their blobs."""

import hashlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Self

import requests
from azure.core.credentials import TokenCredential
from azure.core.exceptions import HttpResponseError, ServiceResponseError
from azure.core.pipeline.transport import RequestsTransport
from azure.storage.blob import (
    BlobProperties,
    ContainerClient,
    ContentSettings,
    ExponentialRetry,
)
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry

from infra.outputs import Datastore, PlatformOutputs
from jobs.azure.requests import Requests, is_of_storage
from jobs.azure.sign_in import PRODUCT
from jobs.errors import AccessError
from jobs.retry import StorageRetry, StorageRetryPolicy

CONNECT_SECONDS: Final = 20
READ_SECONDS: Final = 60
RETRIES: Final = 4
"""Maximum retries of a request that does not wait for the end of an outage."""
BACKOFF: Mapping[str, Any] = {"initial_backoff": 1, "increment_base": 2}
"""First pause before such a retry in seconds, and the base by which further pauses grow; see
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

    @classmethod
    def of(cls, name: str, properties: BlobProperties) -> Self:
        """Return a blob by a name and the properties that storage returns."""
        md5 = properties.content_settings.content_md5
        return cls(
            name=name,
            size=int(properties.size),
            md5=bytes(md5) if md5 else None,
            xxh128=(properties.metadata or {}).get(XXH128),
            etag=str(properties.etag),
        )


class StorageTransport(RequestsTransport):  # type: ignore[misc]
    """Transport that recognizes responses of something else in the place of storage, such as a
    network's sign-in page: the SDK would fail to parse them, or take them for the blob.
    """

    def send(self, request: Any, **options: Any) -> Any:
        """Send a request.

        Raises:
            ServiceResponseError: The response is not one of storage.
        """
        response: Any = super().send(request, **options)
        if response.status_code < 300 and not is_of_storage(response.headers):
            raise ServiceResponseError(
                "the response is not one of Azure Storage; check for a proxy or a network sign-in"
                " page in between"
            )
        return response


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
        self.datastores = outputs.datastores
        """Datastores of the stack by purpose."""

    def container(
        self, datastore: Datastore, *, connections: int = 10, retry: StorageRetry | None = None
    ) -> ContainerClient:
        """Create a client of a container.

        Args:
            datastore: Datastore of the container.
            connections: Connections to keep open; the number of threads that use the client.
            retry: Waits for the end of outages; None gives up after some seconds.
        """
        url = f"{datastore.blob_endpoint.rstrip('/')}/{datastore.container}"
        return client(url, self._credential, connections=connections, retry=retry)

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
    retry: StorageRetry | None = None,
) -> ContainerClient:
    """Create a client of a container by its URL.

    Args:
        url: URL of the container, which may contain a signature.
        credential: Credential of the user; None if the URL contains a signature.
        connections: Connections to keep open; the number of threads that use the client.
        retry: Waits for the end of outages; None gives up after some seconds.
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
    transport = StorageTransport(
        session=session,
        session_owner=False,
        connection_timeout=CONNECT_SECONDS,
        read_timeout=READ_SECONDS,
    )
    return ContainerClient.from_container_url(
        url,
        credential=credential,
        transport=transport,
        retry_policy=(
            ExponentialRetry(retry_total=RETRIES, **BACKOFF)
            if retry is None
            else StorageRetryPolicy(retry)
        ),
        max_single_get_size=CHECKED_CHUNK,
        max_chunk_get_size=CHECKED_CHUNK,
        user_agent=PRODUCT,
    )


def listed(client: ContainerClient, folder: str) -> dict[str, Blob]:
    """List all blobs in a folder, by their names relative to it.

    Raises:
        AzureError: The folder cannot be listed.
    """
    prefix = f"{folder.rstrip('/')}/"
    blobs = {}
    for item in client.list_blobs(name_starts_with=prefix, include=["metadata"]):
        if (item.metadata or {}).get("hdi_isfolder") == "true":
            # Some programs create such a blob for a folder.
            continue
        name = str(item.name)[len(prefix) :]
        blobs[name] = Blob.of(name, item)
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
    except requests.RequestException as error:
        # The SDK reads the body to check it where it does not translate errors.
        raise ServiceResponseError(str(error)) from error
    return bytes(content)


def put_files(client: ContainerClient, folder: str, contents: Mapping[str, bytes]) -> None:
    """Write small files to a folder of a container with their hashes, overwriting existing ones.

    Args:
        client: Client of the container.
        folder: Folder in the container.
        contents: Contents by name relative to the folder.

    Raises:
        AzureError: The container refused a request.
    """

    def put(name: str, content: bytes) -> None:
        client.upload_blob(
            f"{folder}/{name}",
            content,
            overwrite=True,
            validate_content=True,
            content_settings=ContentSettings(content_md5=bytearray(md5_of(content))),
        )

    with ThreadPoolExecutor(8) as pool:
        # After an error, the files that are not under way are not sent.
        list(pool.map(put, contents.keys(), contents.values()))


def md5_of(content: bytes) -> bytes:
    """Return the MD5 that storage keeps of a blob."""
    return hashlib.md5(content, usedforsecurity=False).digest()


def _name(datastore: Datastore) -> str:
    return f"container {datastore.container} of {datastore.account}"
