"""Submit jobs to Azure Machine Learning: first attempts of runs, and further ones.

Each is one PUT. The body of a first attempt refers to code that was uploaded before; that of a
further attempt is copied from the previous one in Azure, so that any machine can submit it.
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
        name, _, version = folder.uri.removeprefix("azureml:").partition(":")
        try:
            data_set = manager.get(f"data/{segment(name)}/versions/{segment(version)}")
        except MissingError as error:
            raise MissingError(
                f"--data.asset: {name}:{version} is not registered in workspace"
                f" {manager.workspace}; `python -m jobs upload` uploads and registers a data set",
                error.status,
            ) from error
        uris[f"{name}:{version}"] = str(data_set["properties"]["dataUri"])
    return uris


def submit(
    jobs: Jobs, spec: JobSpec, workspace_id: str, code_id: str, properties: Mapping[str, str]
) -> Job:
    """Submit a new job whose code was uploaded.

    Args:
        jobs: Jobs of the workspace.
        spec: Job to run.
        workspace_id: Resource id of the workspace.
        code_id: Resource id of the code.
        properties: Properties that tell the origin of the code.

    Raises:
        ConflictError: A job of this name already exists.
        RequestError: Azure refused the job.
    """
    existing = jobs.get(spec.name)
    if existing is not None:
        raise ConflictError(
            f"job {spec.name}: already exists ({existing.status});"
            f" `{next_command('follow', spec.run)}` follows it, another --name starts another run"
        )
    return jobs.put(spec.name, job_body.first_body(spec, workspace_id, code_id, properties))


def resubmit(jobs: Jobs, job: Job) -> tuple[Job, bool]:
    """Submit the attempt after one that has ended.

    Returns:
        The job, and whether this call submitted it: of two supervisors of a run, the second finds
        that the job exists.

    Raises:
        RequestError: Azure refused the job.
    """
    attempt = next_attempt(job)
    existing = jobs.get(attempt.name)
    if existing is not None:
        return existing, False
    try:
        return jobs.put(attempt.name, job_body.next_body(job, attempt)), True
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
