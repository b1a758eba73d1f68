"""Run history: the state of each job's run, and the service that shows it with its logs."""

import datetime as dt
import re
import threading
from typing import Any

from rehearsal.blob_storage.blobs import Blobs
from rehearsal.control_plane.http_messages import Answer, Asked
from rehearsal.control_plane.resource_kind import now
from rehearsal.control_plane.resource_manager import Resources
from rehearsal.control_plane.store import Document, Store
from rehearsal.errors import AzureError
from rehearsal.resources.workspaces import ARTIFACTS

SPACE = "runs"
ENDED = ("Completed", "Failed", "Canceled")


class Runs:
    """The record of each run, by the id of its job."""

    def __init__(self, store: Store) -> None:
        """Keep records in a store."""
        self._store = store
        self._changed = threading.Condition()

    def create(self, job: str) -> None:
        """Begin a record."""
        record = {"status": "NotStarted", "createdUtc": now(), "logFiles": [], "states": []}
        self._store.put(SPACE, job, record)
        self.change(job, status="NotStarted")

    def get(self, job: str) -> Document:
        """A record; that of an unknown job says nothing but NotStarted."""
        return self._store.get(SPACE, job) or {"status": "NotStarted", "logFiles": [], "states": []}

    def change(self, job: str, **values: Any) -> None:
        """Write values; what ended stays as it is."""
        with self._store.lock:
            record = self.get(job)
            status = values.get("status", record["status"])
            if record["status"] in ENDED:
                return
            record |= values
            if values.get("status"):
                record["states"].append([status, now()])
            if status == "Running" and "startTimeUtc" not in record:
                record["startTimeUtc"] = now()
            if status in ENDED:
                record["endTimeUtc"] = now()
            self._store.put(SPACE, job, record)
        with self._changed:
            self._changed.notify_all()

    def seconds_in_state(self, job: str) -> float:
        """Since a run came into its state."""
        states = self.get(job)["states"]
        if not states:
            return 0.0
        since = dt.datetime.fromisoformat(states[-1][1])
        return (dt.datetime.now(dt.UTC) - since).total_seconds()

    def forget(self, job: str) -> None:
        """Remove a record."""
        self._store.delete(SPACE, job)


_RUN = re.compile(
    r"/history/v1\.0(/subscriptions/.*?)(?:/experiments/[^/]+)?/runs/([^/]+)(?:/(\w+)(?:/.*)?)?"
)
_RUN_DATA = re.compile(r"/history/v1\.0(/subscriptions/.*?)/rundata")


class History:
    """The service that `discoveryUrl` names."""

    def __init__(self, resources: Resources, runs: Runs, blobs: Blobs) -> None:
        """Tell of these runs."""
        self._resources = resources
        self._runs = runs
        self._blobs = blobs

    def answer(self, asked: Asked) -> Answer:
        """Answer a request below /history.

        Raises:
            AzureError: it is refused.
        """
        match = _RUN_DATA.fullmatch(asked.path)
        if match is not None and asked.method == "POST":
            run = self._run(match[1], str(asked.json().get("runId")))
            return Answer(body={"runMetadata": run})
        match = _RUN.fullmatch(asked.path)
        if match is None:
            raise AzureError(404, "NotFound", f"Run history has nothing at {asked.path}")
        run = self._run(match[1], match[2])
        if asked.method == "PATCH" and match[3] is None:
            self._change(f"{match[1]}/jobs/{match[2]}", asked.json())
            return Answer(body=self._run(match[1], match[2]))
        if match[3] == "serviceinstances":
            return Answer(body={"instances": {}})
        if match[3] not in {None, "details"}:
            raise AzureError(404, "NotFound", f"Run history has nothing at {asked.path}")
        return Answer(body=run)

    def _change(self, job: str, given: dict[str, Any]) -> None:
        """Change what the studio can change of a run, which is also the job's."""
        with self._resources.store.lock:
            document = self._resources.get(job) or {"properties": {}}
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
            self._resources.update(job, changed)

    def _run(self, workspace: str, name: str) -> dict[str, Any]:
        job = f"{workspace}/jobs/{name}"
        document = self._resources.get(job)
        if document is None:
            raise AzureError(404, "UserError", f"RunId {name} not found")
        record = self._runs.get(job)
        store = self._resources.get(f"{workspace}/datastores/{ARTIFACTS}")
        properties = store["properties"] if store else {}
        logs = {
            file: self._blobs.readable(
                properties["accountName"],
                properties["containerName"],
                f"ExperimentRun/dcid.{name}/{file}",
            )
            for file in record["logFiles"]
        }
        return {
            "runId": name,
            "status": record["status"],
            "createdUtc": record.get("createdUtc"),
            "startTimeUtc": record.get("startTimeUtc"),
            "endTimeUtc": record.get("endTimeUtc"),
            "error": record.get("error"),
            "warnings": record.get("warnings"),
            "logFiles": logs,
            "dataContainerId": f"dcid.{name}",
            "experimentName": document["properties"].get("experimentName"),
            "tags": document["properties"].get("tags") or {},
            "properties": document["properties"].get("properties") or {},
        }
