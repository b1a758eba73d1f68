"""What real Azure does not offer: failures, lost nodes and missing capacity on request."""

import base64
from dataclasses import asdict, dataclass
from typing import Any, Final

from rehearsal.blob_storage.azurite import Azurite
from rehearsal.control_plane.faults import Fault, Faults
from rehearsal.control_plane.gateway import ADMIN
from rehearsal.control_plane.http_messages import Request, Response
from rehearsal.control_plane.registrations import Registrations
from rehearsal.control_plane.request_log import RequestLog
from rehearsal.errors import AzureError
from rehearsal.machine_learning.nodes import Nodes
from rehearsal.machine_learning.scheduler import Scheduler
from rehearsal.options import PreemptionManner
from rehearsal.resources.quotas import Quotas

_OF_ENDPOINTS: Final = ("Microsoft.Cdn", "Microsoft.PolicyInsights")
"""Providers without which an endpoint is refused."""
_CLAIMS: Final = '{"access_token":{"acrs":{"essential":true,"value":"p1"}}}'
"""Claims of a second factor."""


@dataclass(frozen=True)
class Admin:
    """Controls of this Azure for tests; each method is also a route of POST /admin."""

    faults: Faults
    log: RequestLog
    azurite: Azurite
    scheduler: Scheduler
    nodes: Nodes
    quotas: Quotas
    registrations: Registrations
    manner: PreemptionManner
    """What happens to pre-empted jobs by default."""

    def fault(self, match: str, **values: Any) -> None:
        """Make requests fail; see `Fault` for the values."""
        self.faults.add(Fault(match, **values))

    def forbid(self, client_id: str | None, match: str = "") -> None:
        """Refuse requests of a program, or of all if it is None, with 403, as if it lacked a role,
        until `clear_faults`.
        """
        who = "The client" if client_id is None else f"The client '{client_id}'"
        text = f"{who} does not have authorization to perform the action."
        self.fault(
            match,
            caller=client_id,
            status=403,
            code="AuthorizationFailed",
            message=text,
            times=None,
        )

    def unregister(self, namespace: str) -> None:
        """Refuse to create resources of a provider that the subscription has not registered, such
        as Microsoft.KeyVault, until `clear_faults`.
        """
        if namespace in _OF_ENDPOINTS:
            self.fault(
                r"^PUT .*/onlineEndpoints/[^/?]*\?",
                status=400,
                code="SubscriptionNotRegistered",
                message="Resource provider [N/A] isn't registered with Subscription [N/A].",
                times=None,
            )
        else:
            text = (
                f"The subscription is not registered to use namespace '{namespace}'. See"
                " https://aka.ms/rps-not-found for how to register subscriptions."
            )
            self.fault(
                f"^PUT .*/providers/{namespace}/",
                status=409,
                code="MissingSubscriptionRegistration",
                message=text,
                times=None,
            )
        self.registrations.remove(namespace)

    def clear_faults(self) -> None:
        """Remove all faults, and register all providers again."""
        self.faults.clear()
        self.registrations.restore()

    def forget_requests(self) -> None:
        """Clear the log of requests."""
        self.log.clear()

    def kill_blob_server(self) -> None:
        """Take blob storage down."""
        self.azurite.kill()

    def start_blob_server(self) -> None:
        """Bring blob storage back, with its data."""
        self.azurite.start()

    def preempt(
        self,
        job: str | None = None,
        cluster: str | None = None,
        manner: PreemptionManner | None = None,
        notice_seconds: float = 0.0,
        message: str | None = None,
    ) -> int:
        """Pre-empt the nodes of a job or of a whole cluster; return how many jobs lose theirs.

        Args:
            job: id of the job.
            cluster: id of the compute.
            manner: How the jobs end; None for the default of the options.
            notice_seconds: Time between the notice and the end of the nodes, 30 on Azure; 0 for no
                notice.
            message: Error of a job that fails; None for Azure's words about pre-emption. Reports
                of nodes taken while they were set up have other words.
        """
        return self.scheduler.preempt(job, cluster, manner or self.manner, notice_seconds, message)

    def take_node(self, job: str, node: int = 0) -> None:
        """Take one node of a running job (its id): its ranks are killed, and the job stays Running
        until the others have ended.
        """
        self.scheduler.take_node(job, node)

    def challenge(self, client_id: str | None = None) -> None:
        """Refuse changes through Resource Manager by a program, or by all if it is None, with a
        claims challenge, as by a person without a second factor, until `clear_faults`. Requests
        that only read are answered.
        """
        claims = base64.b64encode(_CLAIMS.encode()).decode()
        self.fault(
            "^(PUT|PATCH|DELETE|POST) /subscriptions/",
            caller=client_id,
            status=401,
            code="InsufficientClaims",
            message="The request needs another way of authentication: continuous access evaluation"
            f" resulted in a challenge with claims: {claims}",
            headers={
                "WWW-Authenticate": 'Bearer realm="", authorization_uri='
                '"https://login.microsoftonline.com/common/oauth2/authorize",'
                f' error="insufficient_claims", claims="{claims}"'
            },
            times=None,
        )

    def capacity(self, cluster: str, nodes: int | None) -> None:
        """Limit the machines that Azure has for a cluster (its id); None removes the limit."""
        self.nodes.limit(cluster, nodes)

    def quota(self, location: str, name: str, cores: int) -> None:
        """Set a quota of cores in a region, for example totalLowPriorityCores."""
        self.quotas.limit(location, name, cores)

    def spot_price(self, core: float) -> None:
        """Set the price of a core of Spot for an hour, in USD."""
        self.quotas.price_spot(core)

    def respond(self, request: Request) -> Response:
        """Respond to `POST /admin/NAME`, with the method's arguments as JSON, and to `GET
        /admin/requests`.

        Raises:
            AzureError: there is no such method, or the arguments do not fit it.
        """
        name = request.path.removeprefix(ADMIN).replace("-", "_")
        if request.method == "GET" and name == "requests":
            requests = [asdict(logged) for logged in self.log.requests]
            return Response(body={"value": requests})
        method = None if name.startswith("_") or name == "respond" else vars(Admin).get(name)
        if method is None or request.method != "POST":
            raise AzureError(404, "NotFound", f"{request.method} {request.path}: unknown route")
        try:
            return Response(body={"value": method(self, **request.json())})
        except (TypeError, ValueError) as error:
            raise AzureError(400, "InvalidRequestContent", str(error)) from error
