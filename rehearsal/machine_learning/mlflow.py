"""Metrics of runs, by MLflow's REST protocol."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rehearsal.control_plane.http_messages import Answer, Asked
from rehearsal.control_plane.resource_manager import Resources
from rehearsal.control_plane.store import Document, Store
from rehearsal.errors import AzureError
from rehearsal.machine_learning.run_history import Runs

SPACE = "tracked"
_PATH = re.compile(r"/mlflow/v[\d.]+(/subscriptions/.*?)/api/2\.0/mlflow/(.+)")
_LOGGED = {"runs/log-metric": "metrics", "runs/log-parameter": "params", "runs/set-tag": "tags"}
_STATUS = {"Completed": "FINISHED", "Failed": "FAILED", "Canceled": "KILLED"}


class Tracking:
    """The service that `mlFlowTrackingUri` names."""

    def __init__(self, resources: Resources, runs: Runs, store: Store) -> None:
        """Track these runs.

        Args:
            resources: all of them.
            runs: what became of jobs.
            store: where metrics are kept.
        """
        self._resources = resources
        self._runs = runs
        self._store = store

    def metrics(self, job: str) -> dict[str, list[dict[str, Any]]]:
        """All values of each metric that a job has logged, in their order."""
        return dict(self._tracked(job)["metrics"])

    def answer(self, asked: Asked) -> Answer:
        """Answer a request below /mlflow.

        Raises:
            AzureError: it is refused.
        """
        match = _PATH.fullmatch(asked.path)
        if match is None:
            raise AzureError(404, "ENDPOINT_NOT_FOUND", f"MLflow has nothing at {asked.path}")
        workspace, verb = match[1], match[2]
        given: dict[str, Any] = asked.json() if asked.raw else dict(asked.query)
        if verb.startswith("experiments/"):
            name = given.get("experiment_name") or given.get("experiment_id") or "Default"
            return Answer(body={"experiment": {"experiment_id": name, "name": name}})
        name = str(given.get("run_id") or given.get("run_uuid") or "")
        job = f"{workspace}/jobs/{name}"
        document = self._resources.get(job)
        if document is None:
            raise AzureError(404, "RESOURCE_DOES_NOT_EXIST", f"Run {name!r} was not found")
        if verb in _LOGGED:
            self._log(job, {_LOGGED[verb]: [given]})
        elif verb == "runs/log-batch":
            self._log(job, {kind: given.get(kind) or [] for kind in ("metrics", "params", "tags")})
        return self._told(document, verb, given)

    def _told(self, document: Document, verb: str, given: Mapping[str, Any]) -> Answer:
        match verb:
            case "runs/get":
                return Answer(body={"run": self._run(document)})
            case "runs/update":
                return Answer(body={"run_info": self._run(document)["info"]})
            case "metrics/get-history":
                found = self.metrics(document["id"]).get(str(given.get("metric_key")), [])
                return Answer(body={"metrics": found})
        if verb in _LOGGED or verb == "runs/log-batch":
            return Answer(body={})
        raise AzureError(404, "ENDPOINT_NOT_FOUND", f"MLflow's {verb} is not known here")

    def _log(self, job: str, given: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
        with self._store.lock:
            tracked = self._tracked(job)
            for metric in given.get("metrics", ()):
                value = {name: metric.get(name) for name in ("key", "value", "timestamp", "step")}
                tracked["metrics"].setdefault(str(metric["key"]), []).append(value)
            for kind in ("params", "tags"):
                values = given.get(kind, ())
                tracked[kind] |= {str(value["key"]): value.get("value") for value in values}
            self._store.put(SPACE, job, tracked)

    def _tracked(self, job: str) -> Document:
        return self._store.get(SPACE, job) or {"metrics": {}, "params": {}, "tags": {}}

    def _run(self, document: Document) -> dict[str, Any]:
        tracked = self._tracked(document["id"])
        status = self._runs.get(document["id"])["status"]
        experiment = document["properties"].get("experimentName", "Default")
        pairs = {
            kind: [{"key": key, "value": value} for key, value in tracked[kind].items()]
            for kind in ("params", "tags")
        }
        return {
            "info": {
                "run_id": document["name"],
                "run_uuid": document["name"],
                "run_name": document["properties"].get("displayName"),
                "experiment_id": experiment,
                "status": _STATUS.get(status, "RUNNING"),
                "start_time": 0,
                "artifact_uri": "",
                "lifecycle_stage": "active",
            },
            "data": {"metrics": [values[-1] for values in tracked["metrics"].values()], **pairs},
        }
