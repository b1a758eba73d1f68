"""Hands jobs to Azure ML: a new one through the SDK, which uploads the code, and a further attempt
from what Azure keeps of the one before, so that any machine can do it.
"""

import io
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from typing import Any, Final

from common.errors import UserError
from infra.outputs import Cluster
from jobs.azure import job_records
from jobs.azure.job_records import CANCELED_BY, RESUBMITTED, Job
from jobs.azure.workspace import Workspace, segment
from jobs.console import command
from jobs.errors import ConflictError, MissingError, RequestError, SpecError
from jobs.spec.code_snapshot import stage
from jobs.spec.job_spec import JobSpec
from jobs.spec.run_key import Attempt

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
"""Of a job's properties, what says how to run it."""

_OF_AZURE: Final = ("Studio", "Tracking")
"""Services that Azure adds to each job by itself."""

_SERVICE: Final = ("jobServiceType", "nodes", "port", "properties")
"""Of a service, what says how to run it."""

_DEFAULT_OUTPUT: Final = "default"
"""The output that Azure adds to each job: its artifacts."""


def look_up(workspace: Workspace, spec: JobSpec) -> None:
    """Ask for the cluster and the data set that a job names; the service would take the job, and
    let it fail later.

    Raises:
        MissingError: one of them is not there.
        SpecError: the cluster is another than the stack's outputs say.
    """
    cluster = spec.cluster
    try:
        found = workspace.arm("GET", f"computes/{segment(cluster.name)}")
    except MissingError as error:
        workspace.check()
        raise MissingError(
            f"cluster {cluster.name}: is not in workspace {workspace.outputs.workspace}; deploy the"
            f" stack {workspace.outputs.stack} again (make up), or name another by --cluster",
            error.status,
        ) from error
    problems = cluster_problems(cluster, spec.nodes, found)
    if problems:
        raise SpecError(problems)
    for folder in spec.inputs.values():
        name, _, version = folder.uri.removeprefix("azureml:").partition(":")
        if folder.uri.startswith("azureml://"):
            continue
        try:
            workspace.arm("GET", f"data/{segment(name)}/versions/{segment(version)}")
        except MissingError as error:
            raise MissingError(
                f"--data.asset: {name}:{version} is not registered in workspace"
                f" {workspace.outputs.workspace}; `python -m jobs upload` registers what it sends",
                error.status,
            ) from error


def cluster_problems(cluster: Cluster, nodes: int, found: Mapping[str, Any]) -> list[str]:
    """What a cluster, as Azure describes it, differs in from what a job counts on. Pure."""
    own = found["properties"].get("properties") or {}
    state = found["properties"].get("provisioningState")
    most = int((own.get("scaleSettings") or {}).get("maxNodeCount") or 0)
    size, priority = str(own.get("vmSize") or ""), str(own.get("vmPriority") or "")
    again = "deploy the stack again, or read its outputs again if it was deployed"
    problems = []
    if size.lower() != cluster.size.lower():
        problems.append(f"cluster {cluster.name}: has {size}, not {cluster.size}; {again}")
    if priority.lower() != cluster.priority.lower():
        problems.append(f"cluster {cluster.name}: is {priority}, not {cluster.priority}; {again}")
    if most < nodes:
        problems.append(
            f"--nodes: {nodes}, but the cluster {cluster.name} has {most} at most; ask for"
            " fewer, or raise its maximum in the stack"
        )
    if state not in (None, "Succeeded"):
        problems.append(
            f"cluster {cluster.name}: its state is {state}; wait until it is Succeeded, or deploy"
            " the stack again"
        )
    return problems


def submit(workspace: Workspace, spec: JobSpec, repository: Path) -> Job:
    """A new job, with the code as it is now.

    Raises:
        ConflictError: there is a job of this name already.
        RequestError: Azure refuses it.
    """
    existing = job_records.job(workspace, spec.name)
    if existing is not None:
        raise ConflictError(
            f"job {spec.name}: is there already ({existing.status});"
            f" `{command('follow', spec.run)}` follows it, another --name begins another run"
        )
    with staged(repository) as code, workspace.errors(f"job {spec.name}"):
        _hand_to_sdk(workspace, spec, code)
    return _present(workspace, spec.name)


def _hand_to_sdk(workspace: Workspace, spec: JobSpec, code: Path) -> None:
    # It writes notes on its own classes to stderr, and the colours of a bar that it does not show.
    with redirect_stderr(io.StringIO()):
        # Imported here, as the SDK takes seconds.
        from azure.ai.ml import load_job  # noqa: PLC0415

        from jobs.spec.sdk_job import to_yaml  # noqa: PLC0415

        # What it has loaded it submits; it refuses the CommandJob that this was made from.
        job = load_job(io.StringIO(to_yaml(spec, code)))
        workspace.client.jobs.create_or_update(job)


def submit_again(workspace: Workspace, job: Job) -> tuple[Job, bool]:
    """The attempt after one that has ended.

    Returns:
        The job, and whether it was submitted by this call: two who supervise a run ask for the same
        job, and the second finds it there.

    Raises:
        RequestError: Azure refuses it.
    """
    following = next_attempt(job)
    existing = job_records.job(workspace, following.name)
    if existing is not None:
        return existing, False
    body = {"properties": following_body(job, following)}
    try:
        workspace.arm("PUT", f"jobs/{segment(following.name)}", body=body)
    except RequestError:
        # Another who supervises may have been faster, with a word or two that differ.
        existing = job_records.job(workspace, following.name)
        if existing is None:
            raise
        return existing, False
    return _present(workspace, following.name), True


def free_attempt(workspace: Workspace, attempt: Attempt) -> Attempt:
    """The next one of a run that may have some.

    Raises:
        ConflictError: the last one has not ended.
    """
    tried = job_records.attempts(workspace, attempt.run)
    if not tried:
        return attempt
    last = tried[-1]
    if not last.ended:
        raise ConflictError(
            f"run {attempt.run}: {last.name} has not ended ({last.status});"
            f" `{command('follow', attempt.run)}` follows it, and"
            f" `{command('cancel', attempt.run)}` ends it"
        )
    return next_attempt(last)


def next_attempt(job: Job) -> Attempt:
    """Of the same run.

    Raises:
        UserError: the job is none of a run.
    """
    attempt = job.attempt
    if attempt is None:
        raise UserError(f"job {job.name}: was not submitted by this project, so it has no attempts")
    return attempt.following()


def following_body(job: Job, attempt: Attempt) -> dict[str, Any]:
    """Properties of a further attempt: the same for everyone who makes it. Pure.

    Args:
        job: an earlier attempt.
        attempt: the one to make.
    """
    tags = {key: value for key, value in job.tags.items() if key != CANCELED_BY}
    return {
        **writable(job),
        "displayName": f"{attempt.run}, attempt {attempt.number}",
        "tags": {**tags, **attempt.tags, RESUBMITTED: "True"},
    }


def writable(job: Job) -> dict[str, Any]:
    """What a job was submitted with, without what Azure added. Pure."""
    body = job.body
    services = {
        name: {key: service[key] for key in _SERVICE if service.get(key) is not None}
        for name, service in (body.get("services") or {}).items()
        if service.get("jobServiceType") not in _OF_AZURE and name not in _OF_AZURE
    }
    outputs = {
        name: output
        for name, output in (body.get("outputs") or {}).items()
        if name != _DEFAULT_OUTPUT
    }
    return {
        **{key: body[key] for key in _KEPT if body.get(key) is not None},
        "inputs": body.get("inputs") or {},
        "outputs": outputs,
        "services": services,
        "tags": dict(job.tags),
    }


@contextmanager
def staged(repository: Path) -> Iterator[Path]:
    """The code snapshot, in a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="jobs-") as folder:
        yield stage(repository, Path(folder) / "code").path


def _present(workspace: Workspace, name: str) -> Job:
    found = job_records.job(workspace, name)
    if found is None:
        raise RequestError(f"job {name}: was taken by Azure, and is not there; look at the studio")
    return found
