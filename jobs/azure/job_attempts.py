"""Jobs of a workspace, by the run that they are attempts of."""

from collections.abc import Iterator
from typing import Final

from jobs.azure.job_records import Details, Job, read_details, read_job
from jobs.azure.workspace import Workspace, segment
from jobs.errors import MissingError
from jobs.spec.run_key import Attempt, attempt_of, key_problems

MOST: Final = 99


def find(workspace: Workspace, name: str) -> Job:
    """A job by its name, or the newest attempt of a run by its key.

    Raises:
        MissingError: there is neither.
    """
    if attempt_of(name) is None:
        tried = attempts(workspace, name)
        if tried:
            return tried[-1]
    found = job(workspace, name)
    if found is None:
        raise MissingError(
            f"{name}: workspace {workspace.outputs.workspace} has no job and no run of this name;"
            " `python -m jobs list` shows those that it has"
        )
    return found


def attempts(workspace: Workspace, run: str) -> tuple[Job, ...]:
    """All attempts of a run, the first one first; they are numbered without a gap."""
    if key_problems(run):
        return ()
    attempt = Attempt(run)
    first = job(workspace, attempt.name)
    found = [] if first is None else [first]
    while len(found) == attempt.number < MOST:
        attempt = attempt.following()
        one = _asked(workspace, attempt.name)
        found += [] if one is None else [one]
    return tuple(found)


def job(workspace: Workspace, name: str) -> Job | None:
    """A job by its name; none if there is none.

    Raises:
        MissingError: it is the workspace that is not there.
    """
    found = _asked(workspace, name)
    if found is None:
        workspace.check()
    return found


def listed(workspace: Workspace) -> Iterator[Job]:
    """All jobs that are not archived, in Azure's order: the newest first, as far as is known."""
    for data in workspace.arm_list("jobs?listViewType=ActiveOnly"):
        yield read_job(data)


def details(workspace: Workspace, name: str) -> Details:
    """What the run history knows of a job."""
    return read_details(workspace.history("GET", f"runs/{segment(name)}/details"))


def _asked(workspace: Workspace, name: str) -> Job | None:
    try:
        return read_job(workspace.arm("GET", f"jobs/{segment(name)}"))
    except MissingError:
        return None
