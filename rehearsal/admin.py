"""What no Azure offers: failures, lost nodes and full data centres on request."""

import dataclasses
from typing import TYPE_CHECKING, Any

from rehearsal.control_plane.faults import Fault
from rehearsal.control_plane.http_messages import Answer, Asked
from rehearsal.errors import AzureError
from rehearsal.options import Manner

if TYPE_CHECKING:
    from rehearsal.loopback import Loopback


class Admin:
    """Everything that a test may do to this Azure; each method is also a route of POST /admin."""

    def __init__(self, azure: "Loopback") -> None:
        """Administer one Azure."""
        self._azure = azure

    def fault(self, match: str, **values: Any) -> None:
        """Let requests fail; see `Fault` for the values."""
        self._azure.faults.add(Fault(match, **values))

    def forbid(self, client_id: str, match: str = "") -> None:
        """Refuse with 403 what a program asks, until `clear_faults`: a role that it lacks."""
        text = f"The client '{client_id}' does not have authorization to perform the action."
        self.fault(
            match,
            caller=client_id,
            status=403,
            code="AuthorizationFailed",
            message=text,
            times=None,
        )

    def clear_faults(self) -> None:
        """Let everything pass again."""
        self._azure.faults.clear()

    def forget_requests(self) -> None:
        """Forget what was asked."""
        self._azure.faults.forget()

    def kill_blob_server(self) -> None:
        """Take blob storage down."""
        self._azure.azurite.kill()

    def start_blob_server(self) -> None:
        """Bring blob storage back, with its data."""
        self._azure.azurite.start()

    def preempt(
        self, job: str | None = None, cluster: str | None = None, manner: Manner | None = None
    ) -> int:
        """Take the nodes of a job or of a whole cluster away; how many jobs lost theirs.

        Args:
            job: id of the job.
            cluster: id of the compute.
            manner: what becomes of the jobs; as the options say if none.
        """
        return self._azure.engine.preempt(job, cluster, manner or self._azure.options.preemption)

    def capacity(self, cluster: str, nodes: int | None) -> None:
        """Let Azure have so many machines for a cluster (its id), or as many as it wants."""
        self._azure.engine.limit(cluster, nodes)

    def quota(self, location: str, name: str, cores: int) -> None:
        """Set a limit of cores in a region, such as of totalLowPriorityCores."""
        self._azure.usages.limit(location, name, cores)

    def answer(self, asked: Asked) -> Answer:
        """Answer `POST /admin/NAME` with the method's arguments as JSON, and `GET /admin/requests`.

        Raises:
            AzureError: there is no such method, or it does not take this.
        """
        name = asked.path.removeprefix("/admin/").replace("-", "_")
        if asked.method == "GET" and name == "requests":
            found = [dataclasses.asdict(request) for request in self._azure.requests]
            return Answer(body={"value": found})
        method = None if name.startswith("_") or name == "answer" else getattr(self, name, None)
        if method is None or asked.method != "POST":
            raise AzureError(404, "NotFound", f"{asked.method} {asked.path}: no such route")
        try:
            return Answer(body={"value": method(**asked.json())})
        except (TypeError, ValueError) as error:
            raise AzureError(400, "InvalidRequestContent", str(error)) from error
