"""One Azure, from start to end."""

import shutil
import tempfile
import time
import urllib.parse
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rehearsal import assets, certificate, computes, jobs, storage, vaults, workspaces
from rehearsal.admin import Admin
from rehearsal.azurite import Azurite
from rehearsal.blobs import Blobs
from rehearsal.engine import Engine
from rehearsal.errors import AzureError
from rehearsal.faults import Faults, Request
from rehearsal.history import History
from rehearsal.http import Answer, Asked
from rehearsal.identity import Identity
from rehearsal.options import Options
from rehearsal.processes import Guard
from rehearsal.resources import Resources
from rehearsal.runs import Runs
from rehearsal.server import Server
from rehearsal.store import Document, Store
from rehearsal.usages import Usages

ADMIN = "/admin"


class Loopback:
    """Azure on this machine's loopback, as a context manager.

    Everything that it starts ends with it, and with the process that owns it.
    """

    def __init__(self, folder: Path | None = None, options: Options | None = None) -> None:
        """Start all but the blob server, which starts when an account is first used.

        Args:
            folder: where state is kept; none takes a temporary folder that is removed at the end.
            options: how this Azure behaves.
        """
        self.options = options or Options()
        self._temporary = folder is None
        self.folder = folder or Path(tempfile.mkdtemp(prefix="rehearsal-"))
        self.folder.mkdir(parents=True, exist_ok=True)
        self._guard = Guard(self.folder if self._temporary else None)
        self.certificate = certificate.make(self.folder / "tls")
        self.store = Store(self.folder / "azure.sqlite")
        self.identity = Identity(self.options.tenant_id, self.options.token_seconds)
        self.faults = Faults()
        self.azurite = Azurite(
            self.options.azurite, self.folder / "blobs", self.certificate, self._guard
        )
        self.blobs = Blobs(self.azurite, self.certificate.bundle, self.azurite.endpoint)
        self.resources = Resources(self.store)
        self.runs = Runs(self.store)
        self.engine = Engine(self.runs)
        self.history = History(self.resources, self.runs, self.blobs)
        self.resources.register(storage.kinds(self.resources, self.blobs))
        self.resources.register(workspaces.kinds(self.resources, self.blobs, lambda: self.url))
        self.resources.register(assets.kinds(self.resources, self.blobs))
        self.resources.register({computes.COMPUTE: computes.Compute(self.engine.nodes)})
        self.resources.register({jobs.JOB: jobs.Job(self.resources, self.runs, self.engine)})
        vaults.register(self.resources)
        self.usages = Usages(self.resources, self.engine.nodes)
        self.usages.register()
        self.admin = Admin(self)
        self._client = self.identity.add_client()
        self._server = Server(self.answer, self.certificate)
        self.url = f"https://127.0.0.1:{self._server.port}"
        self._server.start()

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
        }

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
        query = urllib.parse.urlencode(asked.query)
        began = time.time()
        caller = ""
        administers = asked.path.startswith(ADMIN)
        try:
            answer = None if administers else self.faults.answer(asked, query)
            if answer is None:
                answer = self._answer(asked)
        except AzureError as error:
            answer = Answer(error.status, error.body())
        if not administers:
            request = Request(asked.method, asked.path, query, answer.status, caller, began)
            self.faults.note(request)
        return answer

    def _answer(self, asked: Asked) -> Answer:
        signing_in = self.identity.answer(asked, self.url)
        if signing_in is not None:
            return signing_in
        if asked.path.startswith("/discovery"):
            services = ("api", "history", "experimentation")
            return Answer(body=dict.fromkeys(services, self.url))
        claims: dict[str, Any] = self.identity.caller(asked.headers.get("authorization", ""))
        asked = Asked(
            asked.method, asked.path, asked.query, asked.headers, asked.raw, claims["appid"]
        )
        if asked.path.startswith(ADMIN):
            return self.admin.answer(asked)
        if asked.path.startswith("/history/"):
            return self.history.answer(asked)
        if asked.path.lower().startswith("/subscriptions"):
            return self.resources.answer(asked)
        raise AzureError(404, "NotFound", f"Nothing answers at {asked.path}")

    def close(self) -> None:
        """End everything; safe to repeat."""
        self._server.close()
        self.engine.close()
        self.azurite.close()
        self._guard.close()
        self.store.close()
        if self._temporary:
            shutil.rmtree(self.folder, ignore_errors=True)
