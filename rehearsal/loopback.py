"""One Azure, from start to end."""

import contextlib
import dataclasses
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from rehearsal.admin import Admin
from rehearsal.blob_storage.azurite import Azurite
from rehearsal.blob_storage.blob_gateway import BlobFront
from rehearsal.blob_storage.blobs import Blobs
from rehearsal.blob_storage.folder_sync import Cache
from rehearsal.control_plane.faults import Faults, Request
from rehearsal.control_plane.http_messages import Answer, Asked
from rehearsal.control_plane.https_server import Ports, make_certificate
from rehearsal.control_plane.identity import STORAGE, Identity
from rehearsal.control_plane.resource_manager import Operations, Resources
from rehearsal.control_plane.store import Document, Store
from rehearsal.errors import AzureError, RehearsalError
from rehearsal.machine_learning import container, jobs
from rehearsal.machine_learning.mlflow import Tracking
from rehearsal.machine_learning.run_history import History, Runs
from rehearsal.machine_learning.scheduler import Engine
from rehearsal.machine_learning.world import World
from rehearsal.options import Options
from rehearsal.reaper import Guard
from rehearsal.resources import (
    assets,
    computes,
    networks,
    simple_kinds,
    storage,
    vaults,
    workspaces,
)
from rehearsal.resources.quotas import Usages
from rehearsal.resources.roles import Roles

ADMIN = "/admin"


class Loopback:
    """Azure on this machine's loopback, as a context manager.

    Everything that it starts ends with it, and with the process that owns it.
    """

    def __init__(
        self, folder: Path | None = None, options: Options | None = None, port: int = 0
    ) -> None:
        """Start all but the blob server, which starts when an account is first used.

        Args:
            folder: where state is kept; none takes a temporary folder that is removed at the end.
            options: how this Azure behaves.
            port: of the control plane; 0 takes a free one.
        """
        self.options = options or Options()
        image = self.options.image
        self._runtime = None if image is None else container.open_image(image)
        with contextlib.ExitStack() as stack:
            self._open(folder, port, stack)
            # Only now: what fails before ends all that was started.
            self._stack = stack.pop_all()

    def _open(self, folder: Path | None, port: int, stack: contextlib.ExitStack) -> None:
        self.folder = folder.absolute() if folder else Path(tempfile.mkdtemp(prefix="rehearsal-"))
        self.folder.mkdir(parents=True, exist_ok=True)
        if folder is None:
            stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
        _claim(self.folder, stack)
        program = None if self._runtime is None else self._runtime.containers.program
        self._guard = Guard(None if folder else self.folder, program)
        stack.callback(self._guard.close)
        self.certificate = make_certificate(self.folder / "tls")
        self.store = Store(self.folder / "azure.sqlite")
        stack.callback(self.store.close)
        self.identity = Identity(self.options.tenant_id, self.options.token_seconds)
        self._client = self.identity.add_client()
        self.faults = Faults()
        self.admin = Admin(self)
        self.azurite = Azurite(
            self.options.azurite, self.folder / "blobs", self.certificate, self._guard
        )
        stack.callback(self.azurite.close)
        self.resources = Resources(self.store)
        self.roles = Roles(self.resources, self.identity, asked_for=self.options.roles)
        front = BlobFront(
            self.azurite, self.identity, self.roles, self.faults, self.certificate.bundle
        )
        ports = Ports(self.store)
        blob_server = ports.server("blob", front.answer, self.certificate, 0)
        server = ports.server("control", self.answer, self.certificate, port)
        self.url = f"https://127.0.0.1:{server.port}"
        self.blobs = Blobs(
            self.azurite, self.certificate.bundle, f"https://127.0.0.1:{blob_server.port}"
        )
        self._services()
        stack.callback(self.engine.close)
        for one in (blob_server, server):
            stack.callback(one.close)
        for one in (blob_server, server):
            stack.callback(one.stop)
            one.start()
        self.engine.start(self._world())

    def _services(self) -> None:
        self.runs = Runs(self.store)
        self.engine = Engine(self.resources, self.runs)
        self.history = History(self.resources, self.runs, self.blobs)
        self.tracking = Tracking(self.resources, self.runs, self.store)
        self.operations = Operations(self.options.operation_seconds)
        if self.options.operation_seconds:
            self.resources.later = lambda path, finish: self.operations.accept(
                path.subscription, self.url, finish
            )
        self.usages = Usages(self.resources, self.engine.nodes)
        self.usages.register()
        for kinds in (
            storage.kinds(self.resources, self.blobs),
            workspaces.kinds(self.resources, self.blobs, self.url),
            assets.kinds(self.resources, self.blobs),
            simple_kinds.KINDS,
            networks.kinds(self.resources),
            {computes.COMPUTE: computes.Compute(self.engine.nodes)},
            {jobs.JOB: jobs.Job(self.resources, self.runs, self.engine)},
        ):
            self.resources.register(kinds)
        vaults.register(self.resources)
        storage.restore(self.resources, self.blobs)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def environment(self) -> dict[str, str]:
        """Variables that point the SDK, azure-identity and any HTTPS client here."""
        return self.environment_of(*self._client)

    def environment_of(self, client_id: str, secret: str) -> dict[str, str]:
        """The same, signed in as another program of `identity.add_client`."""
        return {
            "ARM_CLOUD_METADATA_URL": f"{self.url}/metadata/endpoints?api-version=2019-05-01",
            "AZURE_AUTHORITY_HOST": self.url,
            "AZURE_TENANT_ID": self.options.tenant_id,
            "AZURE_CLIENT_ID": client_id,
            "AZURE_CLIENT_SECRET": secret,
            "REQUESTS_CA_BUNDLE": str(self.certificate.bundle),
            "SSL_CERT_FILE": str(self.certificate.bundle),
            **direct(os.environ),
        }

    def marked(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Variables of a child process that must not outlive this Azure, or its owner."""
        return self._guard.marked(environment, "commands")

    def end_commands(self) -> None:
        """Kill all children that were given such variables, with what they have started."""
        self._guard.kill("commands")

    @property
    def requests(self) -> list[Request]:
        """What was asked, the oldest first."""
        return self.faults.requests

    def blob_endpoint(self, account: str) -> str:
        """Address of an account's blobs, as Azure writes it: with a slash at its end."""
        return f"{self.blobs.public(account)}/"

    def put(self, path: str, api_version: str, body: Document) -> Document:  # noqa: ARG002
        """Declare a resource as a PUT would.

        Args:
            path: id of the resource.
            api_version: what the PUT would say; one form of each resource is known here.
            body: of the PUT.

        Raises:
            AzureError: it is refused.
        """
        return self.resources.put(path, body)

    def answer(self, asked: Asked) -> Answer:
        """Answer a request, with the faults that are asked for, and remember it."""
        if asked.path.startswith(ADMIN):
            return self._refusable(self._administer, asked)
        query = asked.target.partition("?")[2]
        began = time.time()
        caller = self._caller(asked)
        asked = dataclasses.replace(asked, caller=caller)
        answer = self.faults.answer(asked, query) or self._refusable(self._answer, asked)
        took = time.time() - began
        request = Request(asked.method, asked.path, query, answer.status, caller, began, took)
        self.faults.note(request)
        return answer

    def _world(self) -> World:
        return World(
            resources=self.resources,
            runs=self.runs,
            blobs=self.blobs,
            cache=Cache(self.blobs, self.folder / "cache"),
            guard=self._guard,
            identity=self.identity,
            roles=self.roles,
            options=self.options,
            folder=self.folder / "nodes",
            runtime=self._runtime,
            trusted=self.certificate.bundle,
            url=self.url,
        )

    def _answer(self, asked: Asked) -> Answer:
        signing_in = self.identity.answer(asked, self.url)
        if signing_in is not None:
            return signing_in
        if asked.path.startswith("/discovery"):
            services = ("api", "history", "experimentation")
            return Answer(body=dict.fromkeys(services, self.url))
        self._require_sign_in(asked)
        if asked.path.startswith("/history/"):
            return self.history.answer(asked)
        if asked.path.startswith("/mlflow/"):
            return self.tracking.answer(asked)
        if asked.path.lower().startswith("/subscriptions"):
            self.operations.settle()
            return self.operations.answer(asked.path) or self.resources.answer(asked)
        raise AzureError(404, "NotFound", f"Nothing answers at {asked.path}")

    def _administer(self, asked: Asked) -> Answer:
        self._require_sign_in(asked)
        return self.admin.answer(asked)

    def _require_sign_in(self, asked: Asked) -> None:
        claims = self.identity.caller(asked.headers.get("authorization", ""))
        if claims["aud"] == STORAGE:
            raise AzureError(
                401,
                "InvalidAuthenticationTokenAudience",
                "The access token has been obtained for the wrong audience.",
            )

    def _caller(self, asked: Asked) -> str:
        try:
            return str(self.identity.caller(asked.headers.get("authorization", ""))["appid"])
        except AzureError:
            return ""

    @staticmethod
    def _refusable(function: Callable[[Asked], Answer], asked: Asked) -> Answer:
        try:
            return function(asked)
        except AzureError as error:
            return Answer(error.status, error.body())

    def close(self) -> None:
        """End everything; safe to repeat."""
        self._stack.close()


def direct(environment: Mapping[str, str]) -> dict[str, str]:
    """Variables by which no proxy is asked for what is on this machine. Pure.

    Args:
        environment: whose exceptions stay.
    """
    kept = environment.get("no_proxy") or environment.get("NO_PROXY") or ""
    hosts = [one for one in kept.split(",") if one]
    hosts += [one for one in ("127.0.0.1", "localhost") if one not in hosts]
    # Programs read either name.
    return dict.fromkeys(("NO_PROXY", "no_proxy"), ",".join(hosts))


def owner(folder: Path) -> str | None:
    """Number of the process that serves from a folder; none if none does."""
    try:
        with (folder / "owner").open() as claim:
            fcntl.flock(claim, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return None
    except BlockingIOError:
        return (folder / "owner").read_text()
    return None


def _claim(folder: Path, stack: contextlib.ExitStack) -> None:
    """Keep a folder for one Azure, and from other people of this machine: it holds keys.

    Raises:
        RehearsalError: another one has it.
    """
    folder.chmod(0o700)
    claim = stack.enter_context((folder / "owner").open("a+"))
    try:
        fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        claim.seek(0)
        raise RehearsalError(
            f"{folder}: process {claim.read().strip()} serves from it already; end that one, or"
            " take another folder"
        ) from error
    claim.truncate(0)
    claim.write(str(os.getpid()))
    claim.flush()
