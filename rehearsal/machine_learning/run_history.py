"""Run history: the state of each job's run, and the service that shows it with its logs."""

import datetime as dt
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rehearsal.blob_storage.blobs import Blobs
from rehearsal.control_plane.azure_formats import timestamp
from rehearsal.control_plane.http_messages import Request, Response
from rehearsal.control_plane.resource_manager import ResourceManager
from rehearsal.control_plane.store import Document, Store
from rehearsal.errors import AzureError
from rehearsal.resources.workspaces import ARTIFACTS

ENDED = ("Completed", "Failed", "Canceled")
"""Final statuses of runs."""

_SPACE = "runs"
_RUN = re.compile(
    r"/history/v1\.0(/subscriptions/.*?)(?:/experiment(?:s|ids)/[^/]+)?/runs/([^/]+)(?:/(\w+)(?:/.*)?)?"
)
_RUN_DATA = re.compile(r"/history/v1\.0(/subscriptions/.*?)/rundata")


class Runs:
    """The run of each job, by the job's id."""

    def __init__(self, store: Store) -> None:
        """Use a store for the runs."""
        self._store = store

    def create(self, job: str) -> None:
        """Create the run of a job."""
        run = {"status": "NotStarted", "createdUtc": timestamp(), "logFiles": [], "states": []}
        self._store.put(_SPACE, job, run)
        self.change(job, status="NotStarted")

    def get(self, job: str) -> Document:
        """Return the run of a job; NotStarted for an unknown job."""
        unknown = {"status": "NotStarted", "logFiles": [], "states": []}
        return self._store.get(_SPACE, job) or unknown

    def change(self, job: str, **values: Any) -> None:
        """Change values of a run; a run that has ended is not changed."""
        with self._store.lock:
            run = self.get(job)
            status = values.get("status", run["status"])
            if run["status"] in ENDED:
                return
            run |= values
            if values.get("status"):
                run["states"].append([status, timestamp()])
            if status == "Running" and "startTimeUtc" not in run:
                run["startTimeUtc"] = timestamp()
            if status in ENDED:
                run["endTimeUtc"] = timestamp()
            self._store.put(_SPACE, job, run)

    def seconds_in_state(self, job: str) -> float:
        """Return how long a run has had its status."""
        states = self.get(job)["states"]
        if not states:
            return 0.0
        since = dt.datetime.fromisoformat(states[-1][1])
        return (dt.datetime.now(dt.UTC) - since).total_seconds()

    def forget(self, job: str) -> None:
        """Remove the run of a job."""
        self._store.delete(_SPACE, job)


@dataclass(frozen=True)
class RunHistory:
    """The service behind `discoveryUrl`."""

    resources: ResourceManager
    runs: Runs
    blobs: Blobs
    new_token: Callable[[str], tuple[str, dt.datetime]]
    """Returns a token for a run, by the job's id, and its expiry."""

    def respond(self, request: Request) -> Response:
        """Respond to a request below /history.

        Raises:
            AzureError: the request is refused.
        """
        match = _RUN_DATA.fullmatch(request.path)
        if match is not None and request.method == "POST":
            run = self._run(match[1], str(request.json().get("runId")))
            return Response(body={"runMetadata": run})
        match = _RUN.fullmatch(request.path)
        if match is None:
            raise AzureError(404, "NotFound", f"Run history has nothing at {request.path}")
        run = self._run(match[1], match[2])
        if request.method == "PATCH" and match[3] is None:
            self._change(f"{match[1]}/jobs/{match[2]}", request.json())
            return Response(body=self._run(match[1], match[2]))
        if match[3] == "token":
            token, expiry = self.new_token(f"{match[1]}/jobs/{match[2]}")
            return Response(body={"token": token, "expiryTimeUtc": expiry.isoformat()})
        if match[3] == "serviceinstances":
            return Response(body={"instances": self._services(f"{match[1]}/jobs/{match[2]}")})
        if match[3] not in {None, "details"}:
            raise AzureError(404, "NotFound", f"Run history has nothing at {request.path}")
        return Response(body=run)

    def _change(self, job: str, given: dict[str, Any]) -> None:
        """Apply changes that the studio can make to a run, and so to its job."""
        with self.resources.store.lock:
            document = self.resources.get(job) or {"properties": {}}
            known = document["properties"]
            changed: dict[str, Any] = {
                name: {**(known.get(name) or {}), **given[name]}
                for name in ("tags", "properties")
                if given.get(name)
            }
            for name in ("displayName", "description"):
                changed |= {name: given[name]} if given.get(name) is not None else {}
            if given.get("hidden") is not None:
                changed["isArchived"] = bool(given["hidden"])
            self.resources.update(job, changed)

    def _services(self, job: str) -> dict[str, Any]:
        """Return the services that a running job offers; their addresses lead nowhere."""
        document = self.resources.get(job)
        if document is None or self.runs.get(job)["status"] != "Running":
            return {}
        return {
            name: {
                "type": service["jobServiceType"],
                "status": "Running",
                "port": service.get("port"),
                "endpoint": None
                if service["jobServiceType"] == "SSH"
                else f"https://{name}-<nodeIndex>.services.invalid",
                "properties": service.get("properties") or {},
            }
            for name, service in (document["properties"].get("services") or {}).items()
            if service.get("jobServiceType")
        }

    def _run(self, workspace: str, name: str) -> dict[str, Any]:
        job = f"{workspace}/jobs/{name}"
        document = self.resources.get(job)
        if document is None:
            raise AzureError(404, "UserError", f"RunId {name} not found")
        run = self.runs.get(job)
        store = self.resources.get(f"{workspace}/datastores/{ARTIFACTS}")
        properties = store["properties"] if store else {}
        logs = {
            file: self.blobs.signed_blob(
                properties["accountName"],
                properties["containerName"],
                f"ExperimentRun/dcid.{name}/{file}",
            )
            for file in run["logFiles"]
        }
        return {
            "runId": name,
            "status": run["status"],
            "createdUtc": run.get("createdUtc"),
            "startTimeUtc": run.get("startTimeUtc"),
            "endTimeUtc": run.get("endTimeUtc"),
            "error": run.get("error"),
            "warnings": run.get("warnings"),
            "logFiles": logs,
            "dataContainerId": f"dcid.{name}",
            "experimentName": document["properties"].get("experimentName"),
            "tags": document["properties"].get("tags") or {},
            "properties": document["properties"].get("properties") or {},
        }
