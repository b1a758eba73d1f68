"""Accounts and containers of the blob server, for the services of this Azure."""

import datetime as dt
import urllib.parse
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from azure.core.exceptions import ResourceExistsError
from azure.storage.blob import (
    BlobServiceClient,
    ContainerClient,
    generate_blob_sas,
    generate_container_sas,
)

from rehearsal.blob_storage.azurite import Azurite

PERMISSION_MISMATCH: Final = "AuthorizationPermissionMismatch"
"""Azure Storage's error code for a missing role."""
NOT_AUTHORIZED: Final = (
    "This request is not authorized to perform this operation using this permission."
)
_SIGNATURE_HOURS = 12


@dataclass(frozen=True)
class BlobPath:
    """A folder or blob of a container."""

    account: str
    container: str
    path: str
    """Path without leading and trailing slashes."""


DELEGATED: Final = "skoid=00000000-0000-4000-8000-00000000000d"
"""Mark of a signature by a user's delegation key, instead of a key of the account."""


class Blobs:
    """Blob storage with account keys, for the services; clients get a SAS or use their identity."""

    def __init__(self, azurite: Azurite, trusted: Path, address: str) -> None:
        """Use a blob server.

        Args:
            azurite: Blob server.
            trusted: File of certificates to trust.
            address: Address of blob storage for clients.
        """
        self.azurite = azurite
        self._address = address
        self._trusted = trusted
        self._services: dict[str, BlobServiceClient] = {}

    def address(self, account: str) -> str:
        """Return the address of an account's blobs for clients."""
        return f"{self._address}/{account}"

    def container(self, account: str, container: str) -> ContainerClient:
        """Return a client of a container that connects to the server directly."""
        key = self.azurite.key(account)
        if account not in self._services:
            self._services[account] = BlobServiceClient(
                self.azurite.endpoint(account),
                credential={"account_name": account, "account_key": key},
                connection_verify=str(self._trusted),
                retry_total=5,
            )
        return self._services[account].get_container_client(container)

    def make_container(self, account: str, container: str) -> None:
        """Create a container unless it exists."""
        try:
            self.container(account, container).create_container()
        except ResourceExistsError:
            return

    def signed_container(self, account: str, container: str) -> tuple[str, str]:
        """Return the address of a container, and the same with a signature by the account's key
        that allows writing.
        """
        signature = generate_container_sas(
            account,
            container,
            account_key=self.azurite.key(account),
            permission="racwl",
            expiry=_expiry(),
        )
        address = f"{self.address(account)}/{container}"
        return address, f"{address}?{signature}"

    def signed_blob(self, account: str, container: str, blob: str) -> str:
        """Return the address of a blob with a signature that allows reading, which needs no key of
        the account. The blob server has keys only, so the gateway takes the mark away.
        """
        signature = generate_blob_sas(
            account,
            container,
            blob,
            account_key=self.azurite.key(account),
            permission="r",
            expiry=_expiry(),
        )
        return f"{self.address(account)}/{container}/{blob}?{DELEGATED}&{signature}"


def parse_address(address: str) -> BlobPath:
    """Return the container and path of a blob's address."""
    account, container, *path = urllib.parse.urlsplit(address).path.strip("/").split("/")
    return BlobPath(account, container, urllib.parse.unquote("/".join(path)))


def _expiry() -> dt.datetime:
    return dt.datetime.now(dt.UTC) + dt.timedelta(hours=_SIGNATURE_HOURS)
