"""Operations of which Azure allows one at a time: on a storage account, or a managed network."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from rehearsal.control_plane.http_messages import Request, Respond, Response
from rehearsal.errors import AzureError
from rehearsal.resources.storage import ACCOUNT

_WRITES: Final = {"PUT", "PATCH", "DELETE"}
_ACCOUNTS: Final = f"/providers/{ACCOUNT}/".lower()
_ENDPOINTS: Final = "/providers/microsoft.network/privateendpoints/"
_RULES: Final = "/outboundrules/"
"""Rules of the managed network of a workspace."""
_ASSIGNMENTS: Final = "/providers/microsoft.authorization/"
"""Role assignments are not kept by the account."""


class AccountOperations:
    """Lets operations on accounts and managed networks take time, and refuses others meanwhile.

    Args:
        respond: Responds to requests to Resource Manager.
        seconds: Time that an operation takes; 0 refuses none.
    """

    def __init__(self, respond: Respond, seconds: float) -> None:
        self._respond, self._seconds = respond, seconds
        self._busy: set[str] = set()
        self._lock = threading.Lock()

    def respond(self, request: Request) -> Response:
        """Respond to a request below /subscriptions.

        Raises:
            AzureError: it would change an account or a network on which another operation runs.
        """
        accounts = _changed(request) if self._seconds and request.method in _WRITES else set()
        if not accounts:
            return self._respond(request)
        try:
            with self._reserved(accounts):
                time.sleep(self._seconds)
                return self._respond(request)
        except AzureError:
            if request.method == "PUT" and _ENDPOINTS in request.path.lower():
                # The endpoint is created; then connecting it to the account fails.
                self._respond(request)
            raise

    @contextmanager
    def _reserved(self, accounts: set[str]) -> Iterator[None]:
        with self._lock:
            if busy := accounts & self._busy:
                if not any(_ACCOUNTS in name for name in busy):
                    raise AzureError(
                        409, "Conflict", "The managed network of the workspace is being updated."
                    )
                raise AzureError(
                    409,
                    "StorageAccountOperationInProgress",
                    "An operation is currently performing on this storage account that requires"
                    " exclusive access.",
                )
            self._busy |= accounts
        try:
            yield
        finally:
            with self._lock:
                self._busy -= accounts


def _changed(request: Request) -> set[str]:
    """Return the ids of the accounts that a request changes, by its path, or as the target of a
    private endpoint, or as the default account of a workspace; and of a workspace whose outbound
    rules it changes.
    """
    properties = request.json().get("properties") or {}
    workspace, rule, _ = request.path.lower().partition(_RULES)
    destination = properties.get("destination")
    reached = destination.get("serviceResourceId") if isinstance(destination, dict) else None
    connections = properties.get("privateLinkServiceConnections") or []
    targets = [
        request.path,
        properties.get("storageAccount") or "",
        str(reached or ""),
        *(
            (connection.get("properties") or {}).get("privateLinkServiceId") or ""
            for connection in connections
        ),
    ]
    return ({workspace} if rule else set()) | {
        f"{scope}{_ACCOUNTS}{rest.partition('/')[0]}"
        for target in map(str.lower, targets)
        for scope, separator, rest in [target.partition(_ACCOUNTS)]
        if separator and _ASSIGNMENTS not in rest
    }
