"""Ports of the servers."""

from collections.abc import Callable

from rehearsal.control_plane.certificate import Certificate
from rehearsal.control_plane.http_messages import Answer, Asked
from rehearsal.control_plane.https_server import Server
from rehearsal.control_plane.store import Store
from rehearsal.errors import RehearsalError


class Ports:
    """Ports that stay the same when this Azure is started again, if they are still free."""

    def __init__(self, store: Store) -> None:
        """Remember ports in a store."""
        self._store = store

    def server(
        self,
        name: str,
        answer: Callable[[Asked], Answer],
        tls: Certificate,
        wanted: int,
    ) -> Server:
        """A server on the port that it had before, or on a free one.

        Args:
            name: of the server.
            answer: answers its requests.
            tls: its certificate.
            wanted: port that it must have; 0 for any.

        Raises:
            RehearsalError: the port that is wanted is taken.
        """
        known = (self._store.get("ports", name) or {"port": 0})["port"]
        try:
            server = Server(answer, tls, wanted or known)
        except OSError:
            if wanted:
                raise RehearsalError(f"port {wanted} is taken; name another one") from None
            server = Server(answer, tls)
        self._store.put("ports", name, {"port": server.port})
        return server
