"""The server of each deployment, as a process of this machine.

A server runs like the deployment's image: the files of its build context, with the
command of its Dockerfile. Only the Python and the address differ.
"""

import http.client
import json
import os
import re
import subprocess
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from common.waiting import wait_until
from rehearsal.blob_storage.azurite import free_port
from rehearsal.blob_storage.blobs import Blobs, parse_address
from rehearsal.blob_storage.folder_sync import InputCache
from rehearsal.control_plane.azure_formats import new_id
from rehearsal.control_plane.http_messages import Response
from rehearsal.control_plane.resource_manager import ResourceManager
from rehearsal.errors import AzureError
from rehearsal.lifetime import Reaper
from rehearsal.options import Options
from rehearsal.resources.assets import blob_path
from rehearsal.resources.workspaces import workspace_of

_COMMAND: Final = re.compile(r"^CMD (\[.*\])$", re.MULTILINE)
_START_SECONDS: Final = 300.0
"""Time that the readiness probe of a deployment allows."""
_POLL_SECONDS: Final = 0.2
_MODEL_ERROR: Final = 424
"""Status by which Azure answers if the server's is not 200."""


@dataclass
class _Server:
    part: str
    """Part of the reaper's mark."""
    log: Path
    port: int
    state: str = "Creating"
    routes: dict[str, str] = field(default_factory=dict)
    """Paths by their names in `inferenceConfig`."""
    ended: threading.Event = field(default_factory=threading.Event)


class Servers:
    """The servers of all deployments."""

    def __init__(
        self,
        options: Options,
        folder: Path,
        resources: ResourceManager,
        blobs: Blobs,
        reaper: Reaper,
    ) -> None:
        """Start without servers.

        Args:
            options: Options of this Azure.
            folder: Folder for models, build contexts and logs.
            resources: Resource Manager.
            blobs: Blob storage, with models and build contexts.
            reaper: Ends the servers if the owner dies.
        """
        self._options, self._folder = options, folder
        self._resources, self._reaper = resources, reaper
        self._cache = InputCache(blobs, folder / "cache")
        self._servers: dict[str, _Server] = {}
        self._lock = threading.Lock()
        self.answered: Counter[str] = Counter()
        """Number of requests that each deployment has answered, copies included, by its id."""

    def start(self, deployment: str) -> None:
        """Start the server of a deployment, instead of the one that it may have."""
        self.stop(deployment)
        part = f"serving-{new_id()}/"
        log = self._folder / "logs" / f"{part.rstrip('/')}.txt"
        log.parent.mkdir(parents=True, exist_ok=True)
        server = _Server(part, log, free_port())
        with self._lock:
            self._servers[deployment.lower()] = server
        threading.Thread(target=self._run, args=(deployment, server), daemon=True).start()

    def stop(self, deployment: str) -> None:
        """End the server of a deployment, if it has one."""
        with self._lock:
            server = self._servers.pop(deployment.lower(), None)
        if server is not None:
            server.ended.set()
            self._reaper.kill(server.part)

    def close(self) -> None:
        """End all servers."""
        for deployment in list(self._servers):
            self.stop(deployment)

    def state(self, deployment: str) -> str:
        """Return the provisioning state of a deployment; one of before a restart is started."""
        with self._lock:
            server = self._servers.get(deployment.lower())
        if server is None:
            self.start(deployment)
            return "Creating"
        return server.state

    def log(self, deployment: str, tail: int) -> str:
        """Return the last lines that a server has printed."""
        with self._lock:
            server = self._servers.get(deployment.lower())
        if server is None or not server.log.exists():
            return ""
        lines = server.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(lines[-tail:])

    def ask(self, deployment: str, body: bytes, headers: Mapping[str, str]) -> Response:
        """Let a server answer a request.

        Raises:
            AzureError: the deployment has no server that is ready.
        """
        with self._lock:
            server = self._servers.get(deployment.lower())
        if server is None or server.state != "Succeeded":
            raise AzureError(503, "ServiceUnavailable", "No instance is ready to answer.")
        forwarded = {
            name: value for name, value in headers.items() if name in ("content-type", "accept")
        }
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        try:
            connection.request("POST", server.routes["scoringRoute"], body, forwarded)
            answer = connection.getresponse()
            content = answer.read()
        except OSError as error:
            raise AzureError(503, "ServiceUnavailable", f"The server is gone: {error}") from error
        finally:
            connection.close()
        self.answered[deployment.lower()] += 1
        more = {
            name.lower(): value
            for name, value in answer.getheaders()
            if name.lower() == "content-type" or name.lower().startswith("x-model-")
        }
        if answer.status == 200:
            return Response(200, content, more)
        details = {
            "ms-azureml-model-error-statuscode": str(answer.status),
            "ms-azureml-model-error-reason": "model_error",
        }
        return Response(_MODEL_ERROR, content, {**more, **details})

    def _run(self, deployment: str, server: _Server) -> None:
        """Start the process, and wait until it answers the readiness probe."""
        try:
            process = self._process(deployment, server)
        except (AzureError, OSError, KeyError, ValueError) as error:
            server.log.write_text(f"{error}\n", encoding="utf-8")
            server.state = "Failed"
            return
        wait_until(
            lambda: server.ended.is_set() or process.poll() is not None or _is_ready(server),
            _START_SECONDS,
            _POLL_SECONDS,
        )
        ready = process.poll() is None and _is_ready(server)
        server.state = "Succeeded" if ready else "Failed"
        # Waited for, so that no zombie is left.
        process.wait()
        server.state = "Failed"

    def _process(self, deployment: str, server: _Server) -> subprocess.Popen[bytes]:
        properties = self._property(deployment)
        workspace = workspace_of(deployment)
        model = blob_path(self._resources, workspace, properties["model"], "models")
        image = self._property(properties["environmentId"])
        server.routes = {name: route["path"] for name, route in image["inferenceConfig"].items()}
        context = self._cache.materialize(parse_address(image["build"]["contextUri"].rstrip("/")))
        dockerfile = (context / "Dockerfile").read_text(encoding="utf-8")
        match = _COMMAND.search(dockerfile)
        if match is None:
            raise ValueError("the Dockerfile has no CMD as a list")
        python = str(self._options.serving_python)
        _, *arguments = json.loads(match[1])
        command = [
            python,
            *(
                argument.replace("0.0.0.0:5001", f"127.0.0.1:{server.port}").replace(
                    "/opt/score", str(context)
                )
                for argument in arguments
            ),
        ]
        variables = dict(properties.get("environmentVariables") or {})
        most = self._options.max_processes_per_node
        if most is not None:
            # A machine with few cores has not the memory for those of a large instance.
            variables["WEB_CONCURRENCY"] = str(min(int(variables.get("WEB_CONCURRENCY", 1)), most))
        environment = {
            "PATH": f"{Path(python).parent}:{os.environ.get('PATH', '')}",
            "AML_APP_ROOT": str(context),
            "AZUREML_ENTRY_SCRIPT": str(context / "score.py"),
            "AZUREML_MODEL_DIR": str(self._cache.materialize(model)),
            "TF_CPP_MIN_LOG_LEVEL": "2",
            **variables,
        }
        with server.log.open("wb") as log:
            return subprocess.Popen(
                command,
                cwd=self._folder,
                env=self._reaper.marked(environment, server.part),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _property(self, identifier: str) -> Mapping[str, Any]:
        document = self._resources.get(identifier)
        if document is None:
            raise KeyError(identifier)
        return document["properties"]  # type: ignore[no-any-return]


def _is_ready(server: _Server) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
    try:
        connection.request("GET", server.routes["readinessRoute"])
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
