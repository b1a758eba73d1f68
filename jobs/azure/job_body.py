"""Build the request body that submits a job. Pure.

The body of a first attempt is built from its `JobSpec`; that of a further attempt from what Azure
stores of the previous one, so that any machine can submit it.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from jobs.azure.job_records import CANCELED_BY, RESUBMITTED, Job
from jobs.leaf import MOVED, Place
from jobs.options import ServiceOptions
from jobs.spec.budget_policy import TAGS, Budget, with_max_seconds
from jobs.spec.job_spec import Folder, JobSpec
from jobs.spec.run_key import RunAttempt
from jobs.spec.tags import NOTIFIED, OUTCOME
from trainer.errors import EXIT_STATUS_TAG

_KEPT: Final = (
    "jobType",
    "displayName",
    "description",
    "experimentName",
    "codeId",
    "command",
    "environmentId",
    "environmentVariables",
    "computeId",
    "resources",
    "distribution",
    "limits",
    "identity",
    "queueSettings",
)
"""Properties of a job that say how to run it."""

_ORIGIN: Final = ("mlflow.source.git.", "azureml.git.dirty")
"""Beginnings of the names of properties that tell the origin of the code; see
`jobs.spec.code_snapshot.git_properties`. Azure adds others."""

_OF_ATTEMPT: Final = (CANCELED_BY, OUTCOME, NOTIFIED, MOVED, EXIT_STATUS_TAG)
"""Tags that say how one attempt ended."""

_OF_AZURE: Final = ("Studio", "Tracking")
"""Services that Azure adds to each job."""

_SERVICE: Final = ("jobServiceType", "nodes", "port", "properties")
"""Properties of a service that say how to run it."""

_DEFAULT_OUTPUT: Final = "default"
"""The output that Azure adds to each job: its artifacts."""

_MODES: Final = {
    "ro_mount": "ReadOnlyMount",
    "download": "Download",
    "rw_mount": "ReadWriteMount",
}
_BATCH: Final = re.compile(r"--batch-size \d+")
_ALL_NODES: Final = {"nodesValueType": "All"}


def first_body(
    spec: JobSpec, workspace_id: str, code_id: str, properties: Mapping[str, str]
) -> dict[str, Any]:
    """Build the properties of a first attempt, whose code was uploaded.

    Args:
        spec: Job to run.
        workspace_id: Resource id of the workspace.
        code_id: Resource id of the code.
        properties: Additional properties that tell the origin of the code, such as its commit.
    """
    environment, _, version = spec.environment.partition(":")
    resources = {
        "instanceCount": spec.nodes,
        "shmSize": spec.shm_size,
        "dockerArgs": spec.docker_args,
    }
    body = {
        "jobType": "Command",
        "displayName": spec.display_name,
        "description": spec.description,
        "experimentName": spec.experiment,
        "codeId": code_id,
        "command": spec.command,
        "environmentId": f"{workspace_id}/environments/{environment}/versions/{version}",
        "environmentVariables": dict(spec.variables),
        "computeId": f"{workspace_id}/computes/{spec.cluster.name}",
        "resources": _given(resources),
        "distribution": _distribution(spec.processes_per_node),
        "limits": {"jobLimitsType": "Command", "timeout": iso_duration(spec.timeout_seconds)},
        "identity": {
            "identityType": "Managed",
            "clientId": spec.cluster.identity_client_id,
        },
        "inputs": {
            name: {"jobInputType": "uri_folder", **_folder(folder, workspace_id)}
            for name, folder in spec.inputs.items()
        },
        "outputs": {
            name: {"jobOutputType": "uri_folder", **_folder(folder, workspace_id)}
            for name, folder in spec.outputs.items()
        },
        "services": _services(spec.services),
        "tags": dict(spec.tags),
        "properties": dict(properties),
    }
    return _given(body)


def next_body(
    job: Job, attempt: RunAttempt, budget: Budget | None = None, place: Place | None = None
) -> dict[str, Any]:
    """Build the properties of a further attempt.

    Args:
        job: An earlier attempt.
        attempt: The attempt to submit.
        budget: Budget of the run after the earlier attempt; None if it has none.
        place: Where the attempt runs; None is where the earlier one ran.

    Raises:
        SpecError: The rest of the budget, or the timeout, is too short for another attempt.
    """
    body = writable(job)
    tags = {key: value for key, value in job.tags.items() if key not in _OF_ATTEMPT}
    if budget is not None:
        longest = budget.longest_seconds
        if longest is None and job.timeout_seconds:
            # An earlier version of this project did not tag it.
            longest = int(job.timeout_seconds)
        limits = replace(budget, longest_seconds=longest).limits()
        body["command"] = with_max_seconds(str(body["command"]), limits.max_seconds)
        body["limits"] = {**body["limits"], "timeout": iso_duration(limits.timeout_seconds)}
        tags = {key: value for key, value in tags.items() if key not in TAGS} | budget.tags
    if place is not None:
        body = {**body, **_placed(body, place)}
        tags |= place.tags
    return {
        **body,
        "displayName": attempt.display_name,
        "tags": {**tags, **attempt.tags, RESUBMITTED: "True"},
    }


def _placed(body: Mapping[str, Any], place: Place) -> dict[str, Any]:
    """Return the properties of a job that differ in another place."""
    command, flag = str(body["command"]), f"--batch-size {place.batch_size}"
    replaced, count = _BATCH.subn(flag, command)
    return {
        "computeId": f"{str(body['computeId']).rpartition('/')[0]}/{place.cluster}",
        "resources": {**(body.get("resources") or {}), "instanceCount": place.nodes},
        "distribution": {
            **(body.get("distribution") or {}),
            "processCountPerInstance": place.processes,
        },
        "command": replaced if count else f"{command} {flag}",
    }


def tagged_body(job: Job, tags: Mapping[str, str]) -> dict[str, Any]:
    """Build the properties of an existing job with more tags: a PUT replaces all tags."""
    return {**writable(job), "tags": {**job.tags, **tags}}


def writable(job: Job) -> dict[str, Any]:
    """Return the properties that a job was submitted with, without those that Azure added.

    Azure shows what was not given as null, in nested objects as well.
    """
    body = _given(job.body)
    services = {
        name: {key: service[key] for key in _SERVICE if key in service}
        for name, service in (body.get("services") or {}).items()
        if service and service.get("jobServiceType") not in _OF_AZURE and name not in _OF_AZURE
    }
    outputs = {
        name: output
        for name, output in (body.get("outputs") or {}).items()
        if name != _DEFAULT_OUTPUT
    }
    origin = {
        name: value
        for name, value in (body.get("properties") or {}).items()
        if name.startswith(_ORIGIN)
    }
    return {
        **{key: body[key] for key in _KEPT if key in body},
        **({"properties": origin} if origin else {}),
        "inputs": body.get("inputs") or {},
        "outputs": outputs,
        "services": services,
        "tags": dict(job.tags),
    }


def iso_duration(seconds: int) -> str:
    """Format seconds as an ISO 8601 duration, such as P7D or PT6H30M."""
    rest, text = seconds % 86_400, f"P{seconds // 86_400}D" if seconds >= 86_400 else "P"
    parts = (("H", rest // 3600), ("M", rest % 3600 // 60), ("S", rest % 60))
    time = "".join(f"{count}{unit}" for unit, count in parts if count)
    return f"{text}T{time}" if time else text


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members that are not None, of nested objects too."""
    return {
        key: _given(value) if isinstance(value, Mapping) else value
        for key, value in values.items()
        if value is not None
    }


def _distribution(processes: int | None) -> dict[str, Any] | None:
    if processes is None:
        return None
    return {"distributionType": "Mpi", "processCountPerInstance": processes}


def _folder(folder: Folder, workspace_id: str) -> dict[str, str]:
    uri = folder.uri
    if not uri.startswith("azureml://"):
        # Azure refers to a registered data set by its resource id.
        name, _, version = uri.removeprefix("azureml:").partition(":")
        uri = f"{workspace_id}/data/{name}/versions/{version}"
    return {"uri": uri, "mode": _MODES[folder.mode]}


def _services(services: ServiceOptions) -> dict[str, Any]:
    submitted: dict[str, Any] = {}
    if services.ssh_public_key is not None:
        keys = {"sshPublicKeys": services.ssh_public_key}
        submitted["ssh"] = {"jobServiceType": "SSH", "nodes": _ALL_NODES, "properties": keys}
    if services.vs_code:
        submitted["vs_code"] = {"jobServiceType": "VSCode", "nodes": _ALL_NODES}
    if services.jupyter_lab:
        submitted["jupyter_lab"] = {"jobServiceType": "JupyterLab", "nodes": _ALL_NODES}
    return submitted
