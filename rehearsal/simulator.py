"""The simulator: composes its services, starts and stops them, and configures their clients."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from rehearsal.admin import Admin
from rehearsal.blob_storage.azurite import Azurite
from rehearsal.blob_storage.blob_gateway import BlobGateway
from rehearsal.blob_storage.blobs import Blobs
from rehearsal.capacity import Market, Trace
from rehearsal.control_plane.arm_path import PROVIDER
from rehearsal.control_plane.faults import Faults
from rehearsal.control_plane.gateway import ADMIN, Gateway
from rehearsal.control_plane.https_server import make_certificate, open_server
from rehearsal.control_plane.identity import Identity
from rehearsal.control_plane.operations import Operations
from rehearsal.control_plane.registrations import FEATURE, Registered, Registrations
from rehearsal.control_plane.request_log import LoggedRequest, RequestLog
from rehearsal.control_plane.resource_manager import ResourceManager
from rehearsal.control_plane.store import Document, Store
from rehearsal.control_plane.throttling import Throttling
from rehearsal.errors import RehearsalError
from rehearsal.lifetime import Reaper, owned
from rehearsal.machine_learning.container import JobImage, open_image
from rehearsal.machine_learning.service import MachineLearning
from rehearsal.options import Options
from rehearsal.resources import kinds
from rehearsal.resources.account_operations import AccountOperations
from rehearsal.resources.computes import COMPUTE, is_low_priority
from rehearsal.resources.quotas import cores
from rehearsal.resources.roles import Roles, Workers
from rehearsal.resources.storage import ACCOUNT
from rehearsal.resources.vaults import Keys, Secrets
from rehearsal.serving.endpoints import (
    ADDRESS,
    DEPLOYMENT,
    ENDPOINT,
    OnlineDeployment,
    OnlineEndpoint,
)
from rehearsal.serving.inference import AUDIENCE, Inference
from rehearsal.serving.servers import Servers


class Simulator(contextlib.AbstractContextManager["Simulator"]):
    """The simulator of Azure on this machine, as a context manager.

    Everything that it starts ends with it, and with the process that owns it.
    """

    def __init__(
        self, folder: Path | None = None, options: Options | None = None, port: int = 0
    ) -> None:
        """Start everything but the blob server, which starts when an account is first used.

        Args:
            folder: Folder for state; None for a temporary folder that is deleted at the end.
            options: Options of this Azure.
            port: Port of the control plane; 0 for any free one.

        Raises:
            RehearsalError: the folder, the port or the image cannot be used.
        """
        self.options = options or Options()
        image = None if self.options.image is None else open_image(self.options.image)
        with contextlib.ExitStack() as stack:
            self._open(folder, image, port, stack)
            self._compose(image, stack)
            self._start(stack)
            # Transferred last: an earlier failure closes everything that was started.
            self._stack = stack.pop_all()

    def _open(
        self, folder: Path | None, image: JobImage | None, port: int, stack: contextlib.ExitStack
    ) -> None:
        """Acquire what belongs to this Azure alone: folder, ports, and the processes that it
        starts.
        """
        self.folder = folder.absolute() if folder else Path(tempfile.mkdtemp(prefix="rehearsal-"))
        self.folder.mkdir(parents=True, exist_ok=True)
        if folder is None:
            stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
        stack.enter_context(owned(self.folder))
        program = None if image is None else image.engine.program
        self._reaper = Reaper(None if folder else self.folder, program)
        stack.callback(self._reaper.close)
        self.certificate = make_certificate(self.folder / "tls")
        self.store = Store(self.folder / "azure.sqlite")
        stack.callback(self.store.close)
        self._blob_server = open_server(self.store, "blob", self.certificate)
        stack.callback(self._blob_server.close)
        self._server = open_server(self.store, "control", self.certificate, port)
        stack.callback(self._server.close)
        self.url = self._server.url

    def _compose(self, image: JobImage | None, stack: contextlib.ExitStack) -> None:
        """Create the services and connect them."""
        options, trusted = self.options, self.certificate.bundle
        self.faults, self._log = Faults(), RequestLog()
        self.identity = Identity(self.url, options.tenant_id, options.token_seconds)
        self._client = self.identity.add_client()
        self.azurite = Azurite(
            options.azurite, self.folder / "blobs", self.certificate, self._reaper
        )
        stack.callback(self.azurite.close)
        self.blobs = Blobs(self.azurite, trusted, self._blob_server.url)
        operations = Operations(self.url, options.operation_seconds, options.pause_seconds)
        self.resources = ResourceManager(
            self.store, operations, options.tenant_id, options.subscriptions
        )
        roles = Roles(
            self.resources,
            self.identity,
            required=options.roles,
            delay_seconds=options.role_seconds,
        )
        machine_learning = MachineLearning(
            options,
            image,
            self.folder,
            self.url,
            trusted,
            resources=self.resources,
            blobs=self.blobs,
            identity=self.identity,
            roles=roles,
            reaper=self._reaper,
        )
        self.scheduler, self.nodes = machine_learning.scheduler, machine_learning.nodes
        self.runs, self.mlflow = machine_learning.runs, machine_learning.mlflow
        stack.callback(machine_learning.metadata.close)
        stack.callback(self.scheduler.close)
        registrations = Registrations()
        self.resources.register_computed(registrations.computed)
        self.resources.register(
            {kind: Registered(registrations, kind) for kind in (PROVIDER, FEATURE)}
        )
        quotas = kinds.register(
            self.resources,
            self.blobs,
            self.nodes.show,
            self.url,
            roles,
            self.identity.knows,
            options.card_seconds,
        )
        self.servers = Servers(
            options, self.folder / "servers", self.resources, self.blobs, self._reaper
        )
        stack.callback(self.servers.close)
        self.resources.register(
            {
                ENDPOINT: OnlineEndpoint(
                    self.resources,
                    self.servers,
                    self.url,
                    lambda client: self.identity.token(client, AUDIENCE),
                    options.token_seconds,
                ),
                DEPLOYMENT: OnlineDeployment(self.resources, self.servers, quotas.shortage),
            }
        )
        workers = Workers(self.resources.respond, roles)
        manager = AccountOperations(workers.respond, options.account_seconds).respond
        if options.throttle:
            manager = Throttling(manager).respond
        self.admin = Admin(
            self.faults,
            self._log,
            self.azurite,
            self.scheduler,
            self.nodes,
            quotas,
            registrations,
            options.preemption,
        )
        self._market = self._open_market(stack)
        self._gateway = Gateway(
            self.identity,
            self.faults,
            self._log,
            services={
                ADMIN: self.admin.respond,
                ADDRESS: Inference(self.identity, self.resources, self.servers).respond,
                "/history/": machine_learning.run_history.respond,
                "/mlflow/": self.mlflow.respond,
                "/secrets/": Secrets(self.resources).respond,
                "/subscriptions": manager,
            },
            public={
                "/discovery": machine_learning.discover,
                "/keys/": Keys(self.resources, self.identity, self.url, may=roles.has_one).respond,
                "/msi/": self.identity.managed,
            },
        )
        self._blob_gateway = BlobGateway(
            self.azurite,
            self.identity,
            roles.allow,
            self._accepts_keys,
            self.faults,
            self._log,
            trusted,
        )

    def _accepts_keys(self, account: str) -> bool:
        """Whether a storage account accepts its keys, and requests signed with them."""
        return all(
            item["properties"].get("allowSharedKeyAccess") is not False
            for item in self.resources.of_kind(ACCOUNT)
            if item["name"] == account
        )

    def _open_market(self, stack: contextlib.ExitStack) -> Market | None:
        """Prepare to follow the trace of capacity that the options name, if any."""
        options = self.options
        if options.capacity is None:
            return None

        def spot() -> list[str]:
            clusters = self.resources.of_kind(COMPUTE)
            return [str(cluster["id"]) for cluster in clusters if is_low_priority(cluster)]

        def price(node: float) -> None:
            sizes = [
                cluster["properties"]["properties"]["vmSize"]
                for cluster in self.resources.of_kind(COMPUTE)
                if is_low_priority(cluster)
            ]
            if sizes:
                self.admin.spot_price(node / cores(sizes[0]))

        try:
            trace = Trace.read(options.capacity)
        except (OSError, ValueError) as error:
            raise RehearsalError(str(error)) from error
        market = Market(
            trace,
            options.hours_per_second,
            spot,
            self.nodes.running,
            self.nodes.limit,
            lambda job: self.admin.preempt(job=job, notice_seconds=options.notice_seconds),
            price,
        )
        stack.callback(market.close)
        return market

    def _start(self, stack: contextlib.ExitStack) -> None:
        """Start serving, and resume the jobs that were unfinished when this Azure stopped."""
        servers = (self._blob_server, self._server)
        for server in servers:
            # Closed before the services, which must end only after all requests were answered.
            stack.callback(server.close)
        for server in servers:
            stack.callback(server.stop)
        self._blob_server.start(self._blob_gateway.respond)
        self._server.start(self._gateway.respond)
        self.scheduler.start()
        if self._market is not None:
            self._market.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop everything; can be called repeatedly."""
        self._stack.close()

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables that make the SDK, azure-identity and any HTTPS client use this
        Azure.
        """
        return self.environment_of(*self._client)

    def environment_of(self, client_id: str, secret: str) -> dict[str, str]:
        """Return the same variables for another client of `identity.add_client`."""
        return {
            "ARM_CLOUD_METADATA_URL": f"{self.url}/metadata/endpoints?api-version=2019-05-01",
            "AZURE_AUTHORITY_HOST": self.url,
            "AZURE_TENANT_ID": self.options.tenant_id,
            "AZURE_CLIENT_ID": client_id,
            "AZURE_CLIENT_SECRET": secret,
            "REQUESTS_CA_BUNDLE": str(self.certificate.bundle),
            "SSL_CERT_FILE": str(self.certificate.bundle),
            **without_proxy(os.environ),
        }

    @property
    def mark(self) -> str:
        """Prefix of the mark in the environment of all processes that this Azure starts."""
        return self._reaper.mark

    def marked(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of a child process that ends with this Azure and its owner."""
        return self._reaper.marked(environment, "commands")

    def end_commands(self) -> None:
        """Kill all child processes with such an environment, and their descendants."""
        self._reaper.kill("commands")

    @property
    def requests(self) -> list[LoggedRequest]:
        """The most recent requests, the oldest first."""
        return self._log.requests

    def blob_endpoint(self, account: str) -> str:
        """Return the address of an account's blobs as Azure writes it, with a trailing slash."""
        return f"{self.blobs.address(account)}/"

    def put(self, path: str, api_version: str, body: Document) -> Document:  # noqa: ARG002
        """Create a resource as a PUT would.

        Args:
            path: Id of the resource.
            api_version: API version of the PUT; ignored, as only one version of each resource is
                known.
            body: Body of the PUT.

        Raises:
            AzureError: the rules refuse it.
        """
        return self.resources.put(path, body)


def without_proxy(environment: Mapping[str, str]) -> dict[str, str]:
    """Return variables that make programs connect to this machine without a proxy. Pure.

    Args:
        environment: Environment whose own exceptions are kept.
    """
    listed = environment.get("no_proxy") or environment.get("NO_PROXY") or ""
    hosts = [host for host in listed.split(",") if host]
    hosts += [host for host in ("127.0.0.1", "localhost") if host not in hosts]
    # Some programs read one spelling, some the other.
    return dict.fromkeys(("NO_PROXY", "no_proxy"), ",".join(hosts))
