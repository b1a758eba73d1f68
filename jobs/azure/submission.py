"""Hands jobs to Azure Machine Learning: first attempts of runs, and further ones.

Both are one PUT of a body. That of a first attempt refers to the code, which is uploaded before;
that of a further one to what Azure keeps of the attempt before, so that any machine can submit it.
"""

from collections.abc import Mapping

from common.errors import UserError
from jobs.azure import clusters, job_body
from jobs.azure.job_records import Job, Jobs
from jobs.azure.requests import segment
from jobs.azure.resource_manager import ResourceManager
from jobs.console import next_command
from jobs.errors import ConflictError, MissingError, RequestError, SpecError
from jobs.spec.job_spec import JobSpec
from jobs.spec.run_key import RunAttempt


def look_up(manager: ResourceManager, spec: JobSpec) -> None:
    """Ask for the cluster and the data set that a job names; the service would take the job, and
    let it fail later.

    Raises:
        MissingError: one of them is not there.
        SpecError: the cluster is another than the stack's outputs say.
    """
    cluster, stack = spec.cluster, spec.tags.get("stack")
    try:
        answer = manager.get(f"computes/{segment(cluster.name)}")
    except MissingError as error:
        manager.check_workspace()
        raise MissingError(
            f"cluster {cluster.name}: is not in workspace {manager.workspace}; deploy the stack"
            f" {stack} again (make up), or name another by --cluster",
            error.status,
        ) from error
    problems = clusters.problems(cluster, spec.nodes, answer)
    if problems:
        raise SpecError(problems)
    for folder in spec.inputs.values():
        if folder.uri.startswith("azureml://"):
            continue
        name, _, version = folder.uri.removeprefix("azureml:").partition(":")
        try:
            manager.get(f"data/{segment(name)}/versions/{segment(version)}")
        except MissingError as error:
            raise MissingError(
                f"--data.asset: {name}:{version} is not registered in workspace"
                f" {manager.workspace}; `python -m jobs upload` registers what it sends",
                error.status,
            ) from error


def submit(
    jobs: Jobs, spec: JobSpec, workspace_id: str, code_id: str, properties: Mapping[str, str]
) -> Job:
    """Submit a new job whose code was uploaded.

    Args:
        jobs: of the workspace.
        spec: what to run.
        workspace_id: resource id of the workspace.
        code_id: resource id of the code.
        properties: that say where the code comes from.

    Raises:
        ConflictError: there is a job of this name already.
        RequestError: Azure refuses it.
    """
    existing = jobs.get(spec.name)
    if existing is not None:
        raise ConflictError(
            f"job {spec.name}: is there already ({existing.status});"
            f" `{next_command('follow', spec.run)}` follows it, another --name begins another run"
        )
    return jobs.put(spec.name, job_body.first_body(spec, workspace_id, code_id, properties))


def resubmit(jobs: Jobs, job: Job) -> tuple[Job, bool]:
    """Submit the attempt after one that has ended.

    Returns:
        The job, and whether it was submitted by this call: two who supervise a run ask for the same
        job, and the second finds it there.

    Raises:
        RequestError: Azure refuses it.
    """
    attempt = next_attempt(job)
    existing = jobs.get(attempt.name)
    if existing is not None:
        return existing, False
    try:
        return jobs.put(attempt.name, job_body.next_body(job, attempt)), True
    except RequestError:
        # Another who supervises may have been faster, with a word or two that differ.
        existing = jobs.get(attempt.name)
        if existing is None:
            raise
        return existing, False


def free_attempt(jobs: Jobs, attempt: RunAttempt) -> RunAttempt:
    """The next attempt of a run that may have some.

    Raises:
        ConflictError: the last one has not ended.
    """
    attempts = jobs.attempts(attempt.run)
    if not attempts:
        return attempt
    last = attempts[-1]
    if not last.ended:
        raise ConflictError(
            f"run {attempt.run}: {last.name} has not ended ({last.status});"
            f" `{next_command('follow', attempt.run)}` follows it, and"
            f" `{next_command('cancel', attempt.run)}` ends it"
        )
    return next_attempt(last)


def next_attempt(job: Job) -> RunAttempt:
    """The attempt after a job of a run.

    Raises:
        UserError: the job belongs to no run.
    """
    attempt = job.attempt
    if attempt is None:
        raise UserError(f"job {job.name}: was not submitted by this project, so it has no attempts")
    return attempt.following()
