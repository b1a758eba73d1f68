"""Blob storage of the platform: its containers, by identity only, and what is in them."""

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
"""Seconds of the first pause before a request is repeated, and the base by which further ones grow;
see `azure.storage.blob.ExponentialRetry`."""
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


class Storage:
    """Containers of one stack, at the addresses that it exported.

    Args:
        outputs: of the stack.
        credential: who asks.
        requests: tells who is signed in, for errors.
    """

    def __init__(
        self, outputs: PlatformOutputs, credential: TokenCredential, requests: Requests
    ) -> None:
        self._outputs, self._credential, self._requests = outputs, credential, requests

    @property
    def datastores(self) -> Datastores:
        """Datastores of the stack, by what they hold."""
        return self._outputs.datastores

    def container(
        self, datastore: Datastore, *, connections: int = 10, retries: int = 4
    ) -> ContainerClient:
        """A client of a container.

        Args:
            datastore: which one.
            connections: that are kept open; as many as there are threads which use the client.
            retries: of what fails for a moment; 0 where the caller repeats by itself.
        """
        url = f"{datastore.blob_endpoint.rstrip('/')}/{datastore.container}"
        return client(url, self._credential, connections=connections, retries=retries)

    def read(self, datastore: Datastore, name: str) -> bytes | None:
        """A small blob of a datastore; None if it is not there.

        Raises:
            RequestError: storage cannot be looked at from here.
        """
        with self.errors(datastore):
            return read_small(self.container(datastore), name)

    @contextmanager
    def errors(self, datastore: Datastore, *, writing: bool = False) -> Iterator[None]:
        """Turn Azure's errors inside of it into ours.

        Args:
            datastore: that is asked.
            writing: whether it is to be written.

        Raises:
            RequestError: one of its kinds by what went wrong.
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
            f"{_name(datastore)}: refused ({getattr(error, 'error_code', None) or 403})\n"
            f"{f'signed in as {user}, who' if user else 'whoever is signed in'} needs the role"
            f" {role} on it; the stack {stack} gives it to the group {group}, and a new role may"
            " take some minutes to be known",
            403,
        )


def client(
    url: str,
    credential: TokenCredential | None = None,
    *,
    connections: int = 10,
    retries: int = 4,
) -> ContainerClient:
    """A client of a container by its address.

    Args:
        url: of the container; it may hold a signature.
        credential: who asks; None if the address holds a signature.
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
    """All blobs below a folder, by their names in it.

    Raises:
        AzureError: it cannot be listed.
    """
    prefix = f"{folder.rstrip('/')}/"
    blobs = {}
    for item in client.list_blobs(name_starts_with=prefix, include=["metadata"]):
        metadata: Mapping[str, str] = item.metadata or {}
        if metadata.get("hdi_isfolder") == "true":
            # What some programs put in the place of a folder.
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
    """A blob that fits in memory; None if it is not there.

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


def put_files(
    client: ContainerClient, folder: str, contents: Mapping[str, bytes], threads: int = 8
) -> None:
    """Write small files into a folder of a container, each with its hash, over what is there.

    Args:
        client: of the container.
        folder: in it.
        contents: by name below the folder.
        threads: that send them.

    Raises:
        AzureError: the container refuses them.
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
    """The hash that storage keeps of a blob."""
    return hashlib.md5(content, usedforsecurity=False).digest()


def _name(datastore: Datastore) -> str:
    return f"container {datastore.container} of {datastore.account}"
