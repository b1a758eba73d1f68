"""Submit jobs to Azure Machine Learning: first attempts of runs, and further ones.

Each is one PUT. The body of a first attempt refers to code that was uploaded before; that of a
further attempt is copied from the previous one in Azure, so that any machine can submit it.
"""

import secrets
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from common.errors import UserError
from common.waiting import wait_until
from jobs.azure import clusters, job_body
from jobs.azure.job_records import Job, Jobs
from jobs.azure.requests import segment
from jobs.azure.resource_manager import ResourceManager
from jobs.console import next_command
from jobs.errors import (
    ConflictError,
    FateUnknownError,
    MissingError,
    RequestError,
    SpecError,
    UnreachableError,
)
from jobs.leaf import Place
from jobs.retry import AzureRetry
from jobs.spec.budget_policy import Budget
from jobs.spec.job_spec import JobSpec
from jobs.spec.run_key import RunAttempt

ARRIVAL_SECONDS = 5.0
"""Seconds in which a request that was already sent may still create a job."""
SUBMISSION: Final = "JOB_SUBMISSION"
"""Environment variable of a job with a random text, by which a submitter recognizes the job as its
own. Azure lets a later request change the properties of a job, but not its variables."""


def look_up(manager: ResourceManager, spec: JobSpec) -> dict[str, str]:
    """Check the cluster and the data sets that a job refers to, as Azure would accept the job and
    let it fail later.

    Returns:
        URIs of the data sets' folders, by NAME:VERSION.

    Raises:
        MissingError: The cluster or a data set does not exist.
        SpecError: The cluster differs from the stack's outputs.
    """
    cluster, stack = spec.cluster, spec.tags.get("stack")
    try:
        answer = manager.get(f"computes/{segment(cluster.name)}")
    except MissingError as error:
        manager.check_workspace()
        raise MissingError(
            f"cluster {cluster.name}: does not exist in workspace {manager.workspace}; deploy the"
            f" stack {stack} again (make up), or choose another with --cluster",
            error.status,
        ) from error
    problems = clusters.problems(cluster, spec.nodes, answer)
    if problems:
        raise SpecError(problems)
    uris = {}
    for folder in spec.inputs.values():
        if folder.uri.startswith("azureml://"):
            continue
        asset = folder.uri.removeprefix("azureml:")
        try:
            uris[asset] = manager.data_uri(asset)
        except MissingError as error:
            raise MissingError(
                f"--data.asset: {asset} is not registered in workspace"
                f" {manager.workspace}; `python -m jobs upload` uploads and registers a data set",
                error.status,
            ) from error
    return uris


def submit(
    jobs: Jobs,
    spec: JobSpec,
    workspace_id: str,
    code_id: str,
    properties: Mapping[str, str],
    retry: AzureRetry,
) -> Job:
    """Submit a new job whose code was uploaded. If no response arrives, look for the job.

    Args:
        jobs: Jobs of the workspace.
        spec: Job to run.
        workspace_id: Resource id of the workspace.
        code_id: Resource id of the code.
        properties: Properties that tell the origin of the code.
        retry: Retries of the search for the job.

    Raises:
        ConflictError: A job of this name already exists, or someone else submits one now.
        FateUnknownError: It is unknown whether the job was submitted.
        RequestError: Azure refused the job.
    """
    existing = jobs.get(spec.name)
    if existing is not None:
        raise ConflictError(
            f"job {spec.name}: already exists ({existing.status});"
            f" `{next_command('follow', spec.run)}` follows it, another --name starts another run"
        )
    own = secrets.token_hex(8)
    marked = replace(spec, variables={**spec.variables, SUBMISSION: own})
    body = job_body.first_body(marked, workspace_id, code_id, properties)
    try:
        job = jobs.put(spec.name, body)
    except RequestError as error:
        job = _submitted(jobs, spec, error, retry)
    if (job.body.get("environmentVariables") or {}).get(SUBMISSION) != own:
        raise ConflictError(
            f"job {spec.name}: someone else submitted a job of this name at the same moment, so"
            f" this command submitted none; `{next_command('follow', spec.run)}` follows it,"
            " another --name starts another run"
        )
    return job


def _submitted(jobs: Jobs, spec: JobSpec, error: RequestError, retry: AzureRetry) -> Job:
    """Return the job whose submission ended with an error, if it exists nevertheless.

    Raises:
        FateUnknownError: It cannot be looked up.
        RequestError: It does not exist; the error, with what to do.
    """
    lost = isinstance(error, UnreachableError)
    try:
        job = wait_until(
            lambda: retry.call(lambda: jobs.get(spec.name)), ARRIVAL_SECONDS if lost else 0.0, 0.5
        )
    except RequestError as unknown:
        raise FateUnknownError(
            f"{unknown}\n{spec.name}: it is unknown whether it was submitted; it may run and cost"
            f" money. `{next_command('follow', spec.run)}` follows it, and"
            f" `{next_command('cancel', spec.run)}` cancels it",
            unknown.status,
        ) from error
    if job is not None:
        return job
    if not lost:
        raise error
    raise type(error)(
        f"{error}\n{spec.name}: was not submitted, as it does not exist; run the same command"
        " again",
        error.status,
    ) from error


def resubmit(
    jobs: Jobs, job: Job, budget: Budget | None = None, place: Place | None = None
) -> tuple[Job, bool] | None:
    """Submit the attempt after one that has ended.

    Args:
        jobs: Jobs of the workspace.
        job: Attempt that has ended.
        budget: Budget of the run after that attempt; None if it has none.
        place: Where the attempt runs; None is where that one ran.

    Returns:
        The job, and whether this call submitted it: of two supervisors of a run, the second finds
        that the job exists. None if the run was cancelled with `cancel` meanwhile.

    Raises:
        RequestError: Azure refused the job.
    """
    attempt = next_attempt(job)
    existing = jobs.get(attempt.name)
    if existing is not None:
        return existing, False
    # Last, as `cancel` has promised that no attempt follows its mark.
    job = jobs.get(job.name) or job
    if job.canceled_by_us:
        return None
    try:
        return jobs.put(attempt.name, job_body.next_body(job, attempt, budget, place)), True
    except RequestError:
        # Another supervisor may have been faster, with slightly different properties.
        existing = jobs.get(attempt.name)
        if existing is None:
            raise
        return existing, False


def free_attempt(jobs: Jobs, attempt: RunAttempt) -> RunAttempt:
    """Return the next attempt of a run, or the first if it has none.

    Raises:
        ConflictError: The last attempt has not ended.
    """
    attempts = jobs.attempts(attempt.run)
    if not attempts:
        return attempt
    last = attempts[-1]
    if not last.ended:
        raise ConflictError(
            f"run {attempt.run}: {last.name} has not ended ({last.status});"
            f" `{next_command('follow', attempt.run)}` follows it, and"
            f" `{next_command('cancel', attempt.run)}` cancels it"
        )
    return next_attempt(last)


def next_attempt(job: Job) -> RunAttempt:
    """Return the attempt after a job of a run.

    Raises:
        UserError: The job belongs to no run.
    """
    attempt = job.attempt
    if attempt is None:
        raise UserError(f"job {job.name}: was not submitted by this project, so it has no attempts")
    return attempt.following()
