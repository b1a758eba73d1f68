"""Jobs in Resource Manager: validates, shows and cancels them."""

from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from rehearsal.control_plane.arm_path import ArmPath
from rehearsal.control_plane.azure_formats import duration_seconds
from rehearsal.control_plane.defaults import filled
from rehearsal.control_plane.http_messages import Request, Response
from rehearsal.control_plane.resource_kind import ResourceKind
from rehearsal.control_plane.resource_manager import ResourceManager
from rehearsal.control_plane.store import Document
from rehearsal.errors import AzureError, user_error
from rehearsal.machine_learning.run_history import ENDED, Runs
from rehearsal.machine_learning.scheduler import Scheduler
from rehearsal.resources import assets
from rehearsal.resources.defaults import JOB
from rehearsal.resources.workspaces import ARTIFACTS, workspace_of

CHANGEABLE = ("description", "tags", "displayName", "properties", "isArchived")
_COMPUTED = ("status", "services", "provisioningState", "parentJobName")


@dataclass(frozen=True)
class CommandJob(ResourceKind):
    """A command job."""

    has_own_state = True

    resources: ResourceManager
    runs: Runs
    scheduler: Scheduler

    @override
    def check(self, path: ArmPath, body: Document, before: Document | None) -> None:
        properties: dict[str, Any] = body.get("properties") or {}
        if before is not None:
            _refuse_change(path.name, before["properties"], properties)
            return
        if properties.get("jobType") != "Command":
            raise user_error(
                f"Jobs of type {properties.get('jobType')!r} are not supported here: the simulator"
                " runs command jobs. Submit their commands as jobs."
            )
        if not properties.get("command"):
            raise user_error("The Command field is required.")
        workspace = workspace_of(path.id)
        self._check_compute(properties)
        _check_numbers(properties)
        self._check_assets(properties, workspace)
        self._check_folders(properties, workspace)

    @override
    def complete(self, path: ArmPath, document: Document, before: Document | None) -> None:
        properties = document["properties"]
        if before is not None:
            fixed = {k: v for k, v in before["properties"].items() if k not in CHANGEABLE}
            document["properties"] = {**before["properties"], **properties, **fixed}
            return
        properties["outputs"] = {
            **(properties.get("outputs") or {}),
            "default": {
                "jobOutputType": "uri_folder",
                "mode": "ReadWriteMount",
                "uri": f"azureml://datastores/{ARTIFACTS}/ExperimentRun/dcid.{path.name}",
            },
        }
        for name in ("tags", "properties"):
            properties[name] = properties.get(name) or {}
        properties.setdefault("experimentName", "Default")
        properties.setdefault("displayName", path.name)
        self.runs.create(path.id)

    @override
    def after_put(self, path: ArmPath, document: Document) -> None:
        if self.runs.get(path.id)["status"] == "NotStarted":
            self.scheduler.submit(path.id)

    @override
    def show(self, path: ArmPath, document: Document) -> Document:
        document["properties"]["status"] = self.runs.get(path.id)["status"]
        services = document["properties"].get("services") or {}
        for service in services.values():
            service.setdefault("status", None)
        workspace = workspace_of(path.id)
        tracking = (self.resources.get(workspace) or {}).get("location")
        services["Tracking"] = {
            "jobServiceType": "Tracking",
            "endpoint": f"azureml://{tracking}.api.azureml.ms/mlflow/v1.0{workspace}?",
        }
        services["Studio"] = {
            "jobServiceType": "Studio",
            "endpoint": f"https://ml.azure.com/runs/{path.name}?wsid={workspace}",
        }
        properties = document["properties"]
        properties["services"] = services
        run = self.runs.get(path.id)
        cluster = str(properties.get("computeId")).rpartition("/")[2]
        properties["properties"] = {
            **(properties.get("properties") or {}),
            "_azureml.ComputeTargetType": "amlctrain",
            "_azureml.ClusterName": cluster,
            "ProcessInfoFile": "azureml-logs/process_info.json",
            "ProcessStatusFile": "azureml-logs/process_status.json",
            **{
                name: run[key]
                for name, key in (("StartTimeUtc", "startTimeUtc"), ("EndTimeUtc", "endTimeUtc"))
                if run.get(key)
            },
        }
        return document

    @override
    def select(self, path: ArmPath, documents: list[Document], request: Request) -> list[Document]:
        archived = request.query.get("listViewType", "ActiveOnly")
        listed = {"ActiveOnly": (False,), "ArchivedOnly": (True,)}.get(archived, (False, True))
        tag = request.query.get("tag")
        return [
            document
            for document in reversed(documents)
            if bool(document["properties"].get("isArchived")) in listed
            and (tag is None or tag.partition("=")[0] in (document["properties"].get("tags") or {}))
        ]

    @override
    def check_delete(self, path: ArmPath, document: Document, request: Request) -> None:
        if self.runs.get(path.id)["status"] not in ENDED:
            raise AzureError(
                409, "Conflict", f"Job {path.name} has not ended, so it cannot be deleted."
            )

    @override
    def after_delete(self, path: ArmPath, document: Document, request: Request) -> None:
        self.runs.forget(path.id)

    @override
    def act(
        self, path: ArmPath, document: Document, action: str, request: Request
    ) -> Response | None:
        if action.lower() != "cancel":
            return None
        if self.runs.get(path.id)["status"] in ENDED:
            raise user_error(f"Job {path.name} has ended already, so it cannot be cancelled.")
        self.scheduler.cancel(path.id)
        return Response(200)

    def _check_assets(self, properties: dict[str, Any], workspace: str) -> None:
        for name, noun in {"environmentId": "environment", "codeId": "code"}.items():
            named = properties.get(name)
            if named is None and name == "codeId":
                continue
            identifier = assets.asset_id(self.resources, workspace, str(named), f"{noun}s")
            if self.resources.get(identifier) is None:
                raise user_error(f"The {noun} {_short(identifier)} was not found.")

    def _check_folders(self, properties: dict[str, Any], workspace: str) -> None:
        for folders in ("inputs", "outputs"):
            for folder in (properties.get(folders) or {}).values():
                literal = (folder or {}).get("jobInputType") == "literal"
                if folders == "inputs" and not literal and not (folder or {}).get("uri"):
                    raise user_error("An input that is not a literal must have a uri.")
                if folder and folder.get("uri"):
                    family = "models" if "model" in folder.get("jobInputType", "") else "data"
                    assets.blob_path(self.resources, workspace, folder["uri"], family)

    def _check_compute(self, properties: dict[str, Any]) -> None:
        identifier = str(properties.get("computeId") or "")
        cluster = self.resources.get(identifier) if identifier else None
        if cluster is None:
            raise user_error(f"Unknown compute target '{_short(identifier) or 'serverless'}'.")
        nodes = (properties.get("resources") or {}).get("instanceCount") or 1
        scale = cluster["properties"].get("properties", {}).get("scaleSettings", {})
        maximum = scale.get("maxNodeCount")
        if not isinstance(nodes, int) or nodes < 1 or (maximum is not None and nodes > maximum):
            raise user_error(
                f"Requested {nodes} nodes, but compute {cluster['name']} has at most {maximum}."
            )


def _check_numbers(properties: dict[str, Any]) -> None:
    distribution = properties.get("distribution") or {}
    kind = distribution.get("distributionType", "Mpi")
    if kind != "Mpi":
        raise user_error(f"Distributions of type {kind!r} are not supported here, but Mpi is.")
    processes = distribution.get("processCountPerInstance")
    if processes is not None and (not isinstance(processes, int) or processes < 1):
        raise user_error(f"processCountPerInstance is {processes!r}, but must be at least 1.")
    timeout = (properties.get("limits") or {}).get("timeout")
    try:
        duration_seconds(timeout or "PT0S")
    except ValueError as error:
        raise user_error(f"The limits' timeout is wrong: {error}.") from error


def _refuse_change(name: str, before: dict[str, Any], after: dict[str, Any]) -> None:
    """Raise Azure's error for a different job under an existing name."""
    before, after = (filled(document, JOB, "") for document in (before, after))
    fixed = {*before, *after} - {*CHANGEABLE, *_COMPUTED, "outputs"}
    changed = sorted(
        key
        for key in fixed
        if (before.get(key) or None) != (after.get(key) or None)
        and not (key == "experimentName" and key not in after)
    )
    mine = {k: v for k, v in (before.get("outputs") or {}).items() if k != "default"}
    other = {k: v for k, v in (after.get("outputs") or {}).items() if k != "default"}
    changed += ["outputs"] if mine != other else []
    if changed:
        raise user_error(
            f"A job with this name already exists: {name}. If you are trying to submit a new job,"
            " use a different name. If you are trying to update an existing job, the existing"
            f" job's {', '.join(changed)} cannot be changed. The only fields that can be updated"
            f" are {', '.join(CHANGEABLE)}."
        )


def _short(identifier: str) -> str:
    parts = identifier.split("/")
    return f"{parts[-3]}:{parts[-1]}" if "versions" in parts else parts[-1]
