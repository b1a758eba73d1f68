"""Metrics of runs, over MLflow's REST protocol."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rehearsal.control_plane.http_messages import Request, Response
from rehearsal.control_plane.resource_manager import ResourceManager
from rehearsal.control_plane.store import Document, Store
from rehearsal.errors import AzureError
from rehearsal.machine_learning.run_history import Runs

_SPACE = "tracked"
_PATH = re.compile(r"/mlflow/v[\d.]+(/subscriptions/.*?)/api/2\.0/mlflow/(.+)")
_LOGGED = {"runs/log-metric": "metrics", "runs/log-parameter": "params", "runs/set-tag": "tags"}
_STATUS = {"Completed": "FINISHED", "Failed": "FAILED", "Canceled": "KILLED"}


@dataclass(frozen=True)
class Mlflow:
    """The service behind `mlFlowTrackingUri`."""

    resources: ResourceManager
    runs: Runs
    store: Store

    def metrics(self, job: str) -> dict[str, list[dict[str, Any]]]:
        """Return all values of each metric that a job has logged, in order."""
        return dict(self._tracked(job)["metrics"])

    def respond(self, request: Request) -> Response:
        """Respond to a request below /mlflow.

        Raises:
            AzureError: the request is refused.
        """
        match = _PATH.fullmatch(request.path)
        if match is None:
            raise AzureError(404, "ENDPOINT_NOT_FOUND", f"MLflow has nothing at {request.path}")
        workspace, method = match[1], match[2]
        given: dict[str, Any] = request.json() if request.body else dict(request.query)
        if method.startswith("experiments/"):
            name = given.get("experiment_name") or given.get("experiment_id") or "Default"
            return Response(body={"experiment": {"experiment_id": name, "name": name}})
        name = str(given.get("run_id") or given.get("run_uuid") or "")
        job = f"{workspace}/jobs/{name}"
        document = self.resources.get(job)
        if document is None:
            raise AzureError(404, "RESOURCE_DOES_NOT_EXIST", f"Run {name!r} was not found")
        if method in _LOGGED:
            self._log(job, {_LOGGED[method]: [given]})
        elif method == "runs/log-batch":
            self._log(job, {kind: given.get(kind) or [] for kind in ("metrics", "params", "tags")})
        return self._response(document, method, given)

    def _response(self, document: Document, method: str, given: Mapping[str, Any]) -> Response:
        match method:
            case "runs/get":
                return Response(body={"run": self._run(document)})
            case "runs/update":
                return Response(body={"run_info": self._run(document)["info"]})
            case "metrics/get-history":
                values = self.metrics(document["id"]).get(str(given.get("metric_key")), [])
                return Response(body={"metrics": values})
        if method in _LOGGED or method == "runs/log-batch":
            return Response(body={})
        raise AzureError(404, "ENDPOINT_NOT_FOUND", f"MLflow's {method} is not supported here")

    def _log(self, job: str, given: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
        with self.store.lock:
            tracked = self._tracked(job)
            for metric in given.get("metrics", ()):
                value = {name: metric.get(name) for name in ("key", "value", "timestamp", "step")}
                tracked["metrics"].setdefault(str(metric["key"]), []).append(value)
            for kind in ("params", "tags"):
                values = given.get(kind, ())
                tracked[kind] |= {str(value["key"]): value.get("value") for value in values}
            self.store.put(_SPACE, job, tracked)

    def _tracked(self, job: str) -> Document:
        return self.store.get(_SPACE, job) or {"metrics": {}, "params": {}, "tags": {}}

    def _run(self, document: Document) -> dict[str, Any]:
        tracked = self._tracked(document["id"])
        status = self.runs.get(document["id"])["status"]
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
